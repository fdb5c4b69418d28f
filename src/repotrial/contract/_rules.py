"""Rules between fields: what makes a contract unusable although each field is sound for itself."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import msgspec

from repotrial._core.display import list_some
from repotrial.contract._contract import TRANSPORTS, GitRepository, Repository
from repotrial.contract._draft import Draft
from repotrial.contract._environment import Environment, Mount
from repotrial.contract._oracle import Check, Inventory
from repotrial.contract._policy import Limits, Scoring
from repotrial.contract._problems import Finding, Place, describe, join_choices, nearest, quote, take_findings

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


_MOST_LISTED = 10
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)(?:://|::)")


def iter_contradictions(draft: Draft) -> Iterator[Finding]:
    """Everything that contradicts something else."""
    yield from _iter_repeated_ids(draft)
    yield from _iter_unknown_ids(draft)
    yield from _iter_repository(draft.repository)
    yield from _iter_environment(draft.environment)
    yield from _iter_variables(draft)
    for position, check in draft.checks.items():
        yield from iter_check_findings(check, position, draft)
    yield from _iter_limits(draft.limits)
    yield from _iter_scoring(draft.scoring)


def check_inventory(inventory: Inventory) -> list[Finding]:
    """Ids that are empty, stand twice, or stand in both lists."""
    return take_findings(_iter_inventory(inventory))


def _iter_inventory(inventory: Inventory) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for name, ids in (("fail_to_pass", inventory.fail_to_pass), ("pass_to_pass", inventory.pass_to_pass)):
        for position, test in enumerate(ids):
            field = f"{name}[{position}]"
            if not test.strip():
                message = "expected the id of a test, found empty text"
                yield Finding(code="inventory-id", place=(name, position), message=message)
            elif test in first:
                both = not first[test].startswith(name)
                code = "inventory-contradiction" if both else "inventory-id"
                message = f"expected each id once, found {quote(test)} again (first at {first[test]})"
                hint = "a test either fails before the change or passes before it" if both else ""
                yield Finding(code=code, place=(name, position), message=message, hint=hint)
            first.setdefault(test, field)


def _iter_repeated_ids(draft: Draft) -> Iterator[Finding]:
    groups: Sequence[tuple[Place, Mapping[int, str]]] = (
        (("checks",), draft.check_ids),
        (("setup",), draft.setup_ids),
        (("environment", "services"), draft.service_ids),
        (("environment", "artifacts"), draft.artifact_ids),
    )
    for place, ids in groups:
        first: dict[str, int] = {}
        for position, name in ids.items():
            if name in first:
                message = (
                    f"expected an id of its own, found {quote(name)}, which {place[-1]}[{first[name]}] has"
                )
                yield Finding(code="id-duplicate", place=(*place, position, "id"), message=message)
            first.setdefault(name, position)


def _iter_unknown_ids(draft: Draft) -> Iterator[Finding]:
    checks, services = (dict.fromkeys(ids.values()) for ids in (draft.check_ids, draft.service_ids))
    uses: list[tuple[Place, tuple[str, ...], str, dict[str, None]]] = []
    for position, check in draft.checks.items():
        uses.append((("checks", position, "needs"), check.needs, "check", checks))
        uses.append((("checks", position, "services"), check.services, "service", services))
    if draft.policy is not None:
        uses.append((("policy", "invariants"), draft.policy.invariants, "check", checks))
    if draft.scoring is not None:
        uses.append((("scoring", "maintainability"), draft.scoring.maintainability, "check", checks))
    for place, names, noun, known in uses:
        for position, name in enumerate(names):
            if name not in known:
                near = nearest(name, list(known))
                listed = list_some([quote(each) for each in known], most=_MOST_LISTED) or f"no {noun}s"
                hint = f"did you mean {quote(near)}?" if near else f"this contract has {listed}"
                message = f"expected the id of a {noun}, found {quote(name)}, which none has"
                yield Finding(code="id-unknown", place=(*place, position), message=message, hint=hint)


def _iter_repository(repository: Repository | None) -> Iterator[Finding]:
    if not isinstance(repository, GitRepository):
        return
    for position, protocol in enumerate(repository.protocols):
        if protocol not in TRANSPORTS:
            message = f"expected {join_choices(map(quote, TRANSPORTS))}, found {quote(protocol)}"
            yield Finding(
                code="protocol-unknown", place=("repository", "protocols", position), message=message
            )
    sources: list[tuple[Place, str | None]] = [(("repository", "source"), repository.source)]
    for position, submodule in enumerate(repository.submodules):
        sources.append((("repository", "submodules", position, "source"), submodule.source))
    for place, source in sources:
        if source is not None:
            yield from _iter_source(source, place, repository.protocols)


def _iter_source(source: str, place: Place, protocols: tuple[str, ...]) -> Iterator[Finding]:
    if source.startswith("-"):
        message = f"expected a URL or a path, found {quote(source)}, which git would take for an option"
        yield Finding(code="source-unsafe", place=place, message=message, hint="put ./ before a path")
    if not source.isprintable():
        message = f"expected a URL or a path, found {describe(source)} with control characters"
        yield Finding(code="source-unsafe", place=place, message=message)
    scheme = _SCHEME.match(source)
    if scheme is not None and scheme[1].lower() not in protocols:
        message = f"expected a protocol among {', '.join(protocols) or 'none'}, found {quote(scheme[1])}"
        yield Finding(code="protocol-unknown", place=place, message=message)


def _iter_environment(environment: Environment | None) -> Iterator[Finding]:
    if environment is None:
        return
    if environment.tools and environment.image != "host":
        yield Finding(
            code="tools-without-host",
            place=("environment", "tools"),
            message='expected tools only with image = "host", found them beside an image of its own',
            hint="leave tools out: the image's digest says which versions it holds",
        )
    for position, mount in enumerate(environment.mounts):
        yield from _iter_mount(mount, ("environment", "mounts", position))
    yield from _iter_targets(environment)


def _iter_mount(mount: Mount, place: Place) -> Iterator[Finding]:
    code = "mount-inconsistent"
    if mount.kind == "host-read-only":
        if mount.source is None:
            message = 'expected source with kind = "host-read-only", found none'
            yield Finding(code=code, place=(*place, "source"), message=message)
        elif not mount.source.startswith("/") or "/../" in f"{mount.source}/":
            message = f"expected an absolute path of the host without '..', found {quote(mount.source)}"
            yield Finding(code=code, place=(*place, "source"), message=message)
    elif mount.source is not None:
        message = f'expected source only with kind = "host-read-only", found it with kind = "{mount.kind}"'
        yield Finding(code=code, place=(*place, "source"), message=message)
    if mount.size_mb is not None and mount.kind != "tmpfs":
        message = f'expected size_mb only with kind = "tmpfs", found it with kind = "{mount.kind}"'
        yield Finding(code=code, place=(*place, "size_mb"), message=message)


def _iter_targets(environment: Environment) -> Iterator[Finding]:
    first: dict[str, str] = {}
    targets = {
        "files": [item.target for item in environment.files],
        "artifacts": [item.target for item in environment.artifacts],
        "mounts": [item.target for item in environment.mounts],
    }
    for name, position, path in (
        (name, *pair) for name, paths in targets.items() for pair in enumerate(paths)
    ):
        target = path.rstrip("/") or "/"
        if target in first:
            message = f"expected a target of its own, found {quote(target)}, which {first[target]} has"
            place: Place = ("environment", name, position, "target")
            yield Finding(code="target-duplicate", place=place, message=message)
        first.setdefault(target, f"{name}[{position}]")
    for position, path in enumerate(environment.absent_files):
        if path in first:
            message = (
                f"expected a file that nothing makes, found {quote(path)}, which {first[path]} puts there"
            )
            yield Finding(
                code="target-duplicate", place=("environment", "absent_files", position), message=message
            )


def _iter_variables(draft: Draft) -> Iterator[Finding]:
    environment = draft.environment
    if environment is None:
        return
    absent, secrets = set(environment.absent), [secret.name for secret in environment.secrets]
    for place, name in _iter_variable_names(draft, environment):
        if name in absent:
            yield _contradiction((*place, name), name, "both set and listed as absent")
        if name in secrets:
            yield _contradiction((*place, name), name, "both a variable and a secret")
    for position, name in enumerate(secrets):
        place = ("environment", "secrets", position, "name")
        if name in absent:
            yield _contradiction(place, name, "both a secret and listed as absent")
        if name in secrets[:position]:
            yield _contradiction(place, name, "declared as a secret twice")


def _iter_variable_names(draft: Draft, environment: Environment) -> Iterator[tuple[Place, str]]:
    tables: list[tuple[Place, Mapping[str, str]]] = [(("environment", "variables"), environment.variables)]
    tables += [(("setup", position, "variables"), step.variables) for position, step in draft.setup.items()]
    for position, check in draft.checks.items():
        tables.append((("checks", position, "variables"), check.variables))
        for index, runner in enumerate(check.runners):
            tables.append((("checks", position, "runners", index, "variables"), runner.variables))
    for place, variables in tables:
        yield from ((place, name) for name in variables)


def _contradiction(place: Place, name: str, found: str) -> Finding:
    message = f"expected one statement about each variable, found {name} {found}"
    return Finding(code="variable-contradiction", place=place, message=message)


def _iter_limits(limits: Limits | None) -> Iterator[Finding]:
    if limits is None:
        return
    if limits.cost_usd < 0:
        message = f"expected an amount of at least 0, found {describe(limits.cost_usd)}"
        yield Finding(code="negative-amount", place=("limits", "cost_usd"), message=message)
    for name, band in (("memory_mb", limits.memory_mb), ("disk_mb", limits.disk_mb)):
        if band.request > band.kill:
            message = (
                f"expected request to be at most kill, found request = {band.request}, kill = {band.kill}"
            )
            yield Finding(code="band-reversed", place=("limits", name), message=message)


def _iter_scoring(scoring: Scoring | None) -> Iterator[Finding]:
    if scoring is None:
        return
    if scoring.decay < 0:
        message = f"expected a number of at least 0, found {describe(scoring.decay)}"
        yield Finding(code="weight-out-of-range", place=("scoring", "lambda"), message=message)
    for table in ("weights", "interface"):
        for name, weight in msgspec.structs.asdict(getattr(scoring, table)).items():
            if not 0 <= Decimal(weight) <= 1:
                message = f"expected a weight from 0 to 1, found {describe(weight)}"
                yield Finding(code="weight-out-of-range", place=("scoring", table, name), message=message)
