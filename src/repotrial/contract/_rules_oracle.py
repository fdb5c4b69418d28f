"""Rules about single checks: order, commands, repeats, services."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from repotrial.contract._draft import Draft
from repotrial.contract._finding import Finding, Place
from repotrial.contract._oracle import Check
from repotrial.contract._words import quote

_LONGEST_CIRCLE = 10


def iter_check_findings(check: Check, position: int, draft: Draft) -> Iterator[Finding]:
    place: Place = ("checks", position)
    yield from _iter_command(check, place)
    yield from _iter_repeats(check, place)
    yield from _iter_order(check, position, draft)
    yield from _iter_services(check, place, draft)


def _iter_command(check: Check, place: Place) -> Iterator[Finding]:
    if check.run is not None:
        return
    if not check.runners:
        message = "expected a command (run, or several in runners), found neither"
        yield Finding(code="check-without-command", place=(*place, "run"), message=message)
    if check.results:
        yield _without_run((*place, "results"), "results")
    if check.cwd != ".":
        yield _without_run((*place, "cwd"), "cwd")


def _without_run(place: Place, name: str) -> Finding:
    return Finding(
        code="run-missing",
        place=place,
        message=f"expected {name} beside run, found it in a check without run, where it means nothing",
        hint=f"move {name} into the runners that it belongs to",
    )


def _iter_repeats(check: Check, place: Place) -> Iterator[Finding]:
    code, field = "repeats-inconsistent", (*place, "passes_required")
    if check.rule == "passes-required":
        if check.passes_required is None:
            message = 'expected passes_required with rule = "passes-required", found none'
            yield Finding(code=code, place=field, message=message)
        elif check.passes_required > check.repeats:
            message = f"expected at most repeats = {check.repeats} passes, found {check.passes_required}"
            yield Finding(code=code, place=field, message=message)
    elif check.passes_required is not None:
        message = f'expected passes_required only with rule = "passes-required", found rule = "{check.rule}"'
        yield Finding(code=code, place=field, message=message)


def _iter_order(check: Check, position: int, draft: Draft) -> Iterator[Finding]:
    for index, name in enumerate(check.needs):
        if draft.first_positions.get(name, -1) < position:  # earlier, or unknown, which another rule reports
            continue
        place: Place = ("checks", position, "needs", index)
        way = _way_back(name, check.id, draft)
        if way:
            if len(way) > _LONGEST_CIRCLE:
                way = [way[0], "…", *way[-2:]]
            circle = " → ".join([check.id, *way])
            message = f"expected needs without a circle, found {circle}"
            yield Finding(code="needs-cycle", place=place, message=message)
        else:
            message = f"expected a check that stands earlier, found {quote(name)}, which stands later"
            yield Finding(
                code="needs-order", place=place, message=message, hint="checks run in the order of the file"
            )


def _way_back(start: str, goal: str, draft: Draft) -> list[str]:
    """The names from `start` along `needs` to `goal`; empty where there is no such way."""
    came_from = {start: ""}
    pending = deque([start])
    while pending and goal not in came_from:
        name = pending.popleft()
        for following in draft.needs.get(name, ()):
            if following not in came_from:
                came_from[following] = name
                pending.append(following)
    way: list[str] = []
    step = goal if goal in came_from else ""
    while step:
        way.append(step)
        step = came_from[step]
    return way[::-1]


def _iter_services(check: Check, place: Place, draft: Draft) -> Iterator[Finding]:
    for index, name in enumerate(check.services):
        service = draft.services.get(name)
        if service is not None and "accept" not in service.phases:
            yield Finding(
                code="service-phase",
                place=(*place, "services", index),
                message=f"expected a service that runs while checks run, found {quote(name)} with phases "
                + ", ".join(service.phases),
                hint='add "accept" to its phases',
            )
