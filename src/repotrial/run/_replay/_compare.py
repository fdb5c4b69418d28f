"""Two records of the same acceptance, outcome by outcome."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from repotrial.trace import (
    AcceptanceExecution,
    BuildCheck,
    CheckOutcome,
    PatchApplication,
    RunPaths,
    StaticCheck,
    iter_events,
    iter_with_moot,
)


class ReplayDivergence(msgspec.Struct, frozen=True, kw_only=True):
    """Something that came out differently the second time."""

    what: str
    """Which execution, or which path."""
    recorded: str
    """What the record says."""
    replayed: str
    """What came out now."""


class _Finding(msgspec.Struct, frozen=True, kw_only=True):
    outcome: str
    failing: str


def compare_outcomes(recorded: RunPaths, replayed: RunPaths) -> tuple[ReplayDivergence, ...]:
    """Every execution of the two that says something, by check, tree, variant and attempt."""
    one, other = dict(_iter_findings(recorded)), dict(_iter_findings(replayed))
    return tuple(
        ReplayDivergence(what=key, recorded=_describe(one.get(key)), replayed=_describe(other.get(key)))
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    )


def _iter_findings(paths: RunPaths) -> Iterator[tuple[str, _Finding]]:
    for event, is_moot in iter_with_moot(iter_events(paths.trace)):
        match event.payload:
            case PatchApplication(outcome=outcome):
                yield "patch", _Finding(outcome=_name(outcome), failing="")
            case BuildCheck() | StaticCheck() as check:
                key = f"{check.check_id} #{check.attempt} on the {check.subject}"
                yield key, _Finding(outcome=_name(check.outcome), failing="")
            case AcceptanceExecution() as check if not is_moot:
                key = f"{check.check_id} ({check.variant}) #{check.attempt} on the {check.subject}"
                # Twins get new names each time, so their ids cannot be compared.
                failing = check.failing.digest if check.variant == "plain" else ""
                yield key, _Finding(outcome=_name(check.outcome), failing=failing)
            case _:
                pass


def _name(outcome: CheckOutcome) -> str:
    return str(outcome.__struct_config__.tag)


def _describe(finding: _Finding | None) -> str:
    if finding is None:
        return "not executed"
    return (
        finding.outcome if not finding.failing else f"{finding.outcome}, failing tests {finding.failing[:19]}"
    )
