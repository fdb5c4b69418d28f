"""What a `pilot.toml` must keep to: every contradiction at once, each with its fix."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Final

import msgspec

from repotrial.analysis._plan_document import PILOT_SCHEMA, Pilot
from repotrial.contract import Problem, RunCaps, check_document

_FIXED: Final = ("memory_mb", "disk_mb", "cost_usd")
_RELAXABLE: Final = tuple(name for name in RunCaps.__struct_fields__ if name not in _FIXED)
"""Caps and waits; nothing that isolates."""
_MOST_FACTORS: Final = 2

_Finding = tuple[str, str, str]
"""Field, message, fix."""


def check_pilot(data: bytes, *, file: str = Pilot.FILE) -> tuple[Pilot | None, list[Problem]]:
    """Read a pilot's document and list everything that is wrong with it."""
    pilot, problems = check_document(data, file=file, model=Pilot, schema=PILOT_SCHEMA)
    if pilot is None:
        return None, problems
    rules: tuple[Callable[[Pilot], Iterator[_Finding]], ...] = (
        _check_arms,
        _check_contrasts,
        _check_shares,
        _check_money,
        _check_stages,
        _check_strata,
        _check_stopping,
        _check_rests,
        _check_relaxations,
    )
    found = [Pilot.build_problem(*finding, file=file) for rule in rules for finding in rule(pilot)]
    return pilot, [*problems, *found]


def _check_arms(pilot: Pilot) -> Iterator[_Finding]:
    names: dict[str, int] = {}
    contents: dict[object, str] = {}
    for place, arm in enumerate(pilot.arms):
        if arm.name in names:
            yield f"arms[{place}].name", f"expected each name once, found {arm.name!r} again", "rename one"
        names.setdefault(arm.name, place)
        content = msgspec.json.encode(
            (arm.agent, arm.model, arm.upstream, arm.briefing, arm.conditions, arm.caps), order="sorted"
        )
        if content in contents:
            same = contents[content]
            yield (
                f"arms[{place}]",
                f"expected arms that differ, found the same as {same}",
                "remove one",
            )
        contents.setdefault(content, arm.name)
        if arm.expected_usd is not None and arm.expected_usd < 0:
            yield f"arms[{place}].expected_usd", f"expected 0 or more, found {arm.expected_usd}", "mend it"
    if not any(arm.agent == "noop" for arm in pilot.arms):
        yield (
            "arms",
            "expected an arm that does nothing, found none",
            'add [[arms]] name = "noop", agent = "noop", role = "baseline"',
        )


def _check_contrasts(pilot: Pilot) -> Iterator[_Finding]:
    arms = [arm.name for arm in pilot.arms]
    names = [contrast.name for contrast in pilot.contrasts]
    for place, contrast in enumerate(pilot.contrasts):
        for field in ("arm", "against"):
            yield from _check_known(f"contrasts[{place}].{field}", getattr(contrast, field), arms, "an arm")
        if contrast.arm == contrast.against:
            yield f"contrasts[{place}]", "expected two arms, found one against itself", "name another arm"
        if names.index(contrast.name) != place:
            yield (
                f"contrasts[{place}].name",
                f"expected each name once, found {contrast.name!r}",
                "rename one",
            )
    yield from _check_known("decision.contrast", pilot.decision.contrast, names, "a contrast")
    if pilot.stopping.contrast is not None:
        yield from _check_known("stopping.contrast", pilot.stopping.contrast, names, "a contrast")


def _check_known(field: str, name: str, known: list[str], what: str) -> Iterator[_Finding]:
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"name one of: {', '.join(known)}"
    yield field, f"expected {what} of this pilot, found {name!r}", hint


def _check_shares(pilot: Pilot) -> Iterator[_Finding]:
    open_shares = {
        "smallest_effect": pilot.smallest_effect,
        "level": pilot.level,
        "power.rate": pilot.power.rate,
        "power.icc": pilot.power.icc,
        "power.power": pilot.power.power,
    }
    for field, value in open_shares.items():
        if not 0 < value < 1:
            yield field, f"expected a share between 0 and 1, found {value}", "write a share such as 0.2"
    closed = {
        "flakiness_tolerance": pilot.flakiness_tolerance,
        "power.pair_correlation": pilot.power.pair_correlation,
        "stages.doubled_share": pilot.stages.doubled_share,
        "review.sample_share": pilot.review.sample_share,
    }
    for field, value in closed.items():
        if not 0 <= value <= 1:
            yield field, f"expected a share from 0 to 1, found {value}", "write a share such as 0.2"


def _check_money(pilot: Pilot) -> Iterator[_Finding]:
    envelopes = pilot.envelopes
    for name in ("run_usd", "task_usd", "total_usd"):
        if getattr(envelopes, name) <= 0:
            found = getattr(envelopes, name)
            yield f"envelopes.{name}", f"expected more than 0, found {found}", "write an amount in dollars"
    if not envelopes.run_usd <= envelopes.task_usd <= envelopes.total_usd:
        yield "envelopes", "expected run_usd ≤ task_usd ≤ total_usd, found another order", "mend the amounts"
    if pilot.decision.most_usd_per_success <= 0:
        yield (
            "decision.most_usd_per_success",
            "expected more than 0, found less",
            "cost is part of it",
        )


def _check_stages(pilot: Pilot) -> Iterator[_Finding]:
    stages = pilot.stages
    if stages.most < stages.stage_2:
        yield "stages.most", f"expected at least stage_2 ({stages.stage_2}), found {stages.most}", "raise it"
    if stages.doubled_share > 0 and stages.most < _MOST_FACTORS:
        hint = "raise most to 2 or more, or set doubled_share = 0: then the ICC stays as planned"
        yield "stages.doubled_share", "expected most of at least 2 for a second run, found 1", hint
    adjudication = pilot.adjudication
    if adjudication.passes > adjudication.reruns:
        message = f"expected at most reruns ({adjudication.reruns}), found {adjudication.passes}"
        yield "adjudication.passes", message, "lower passes"


def _check_strata(pilot: Pilot) -> Iterator[_Finding]:
    factors = pilot.strata.factors
    if len(factors) > _MOST_FACTORS or len(set(factors)) != len(factors):
        message = f"expected at most two different factors, found {', '.join(factors)}"
        yield "strata.factors", message, "keep two; the others are margins in reports"
    for name in ("test_seconds", "dependencies", "tier_lines"):
        cuts = getattr(pilot.strata, name)
        if list(cuts) != sorted(set(cuts)):
            yield f"strata.{name}", f"expected rising cut points, found {list(cuts)}", "sort them"


def _check_stopping(pilot: Pilot) -> Iterator[_Finding]:
    looks = list(pilot.stopping.looks)
    is_rising = looks == sorted(set(looks)) and bool(looks)
    if not is_rising or not looks[0] > 0 or looks[-1] != Decimal(1):
        shown = ", ".join(str(look) for look in looks)
        yield (
            "stopping.looks",
            f"expected rising shares that end in 1, found {shown}",
            "such as [0.5, 1]",
        )


def _check_rests(pilot: Pilot) -> Iterator[_Finding]:
    """Q16: an efficacy rule is tied to the assumptions of the power analysis."""
    if pilot.stopping.contrast is None:
        return
    known = [assumption.id for assumption in pilot.assumptions]
    if not pilot.stopping.assumptions:
        hint = 'name those of the power analysis: assumptions = ["planning-values"]'
        yield "stopping.assumptions", "expected what the rule rests on, found nothing", hint
    for place, name in enumerate(pilot.stopping.assumptions):
        yield from _check_known(f"stopping.assumptions[{place}]", name, known, "an assumption")


def _check_relaxations(pilot: Pilot) -> Iterator[_Finding]:
    for place, relaxation in enumerate(pilot.relaxations):
        if relaxation.field not in _RELAXABLE:
            message = f"expected a cap or a wait, found {relaxation.field!r}"
            hint = f"isolation, secrets and network are never relaxed; what may be: {', '.join(_RELAXABLE)}"
            yield f"relaxations[{place}].field", message, hint
