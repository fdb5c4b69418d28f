"""Two records of the same acceptance, outcome by outcome."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from repotrial.trace import (
    AcceptanceExecution,
    BuildCheck,
    CheckOutcome,
    Passed,
    PatchApplication,
    RunPaths,
    StaticCheck,
    iter_events,
)

__all__ = ["Divergence", "compare_outcomes"]


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
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


def compare_outcomes(recorded: RunPaths, replayed: RunPaths) -> tuple[Divergence, ...]:
    """Every execution of the two that says something, by check, tree, variant and attempt."""
    one, other = _list_findings(recorded), _list_findings(replayed)
    return tuple(
        Divergence(what=key, recorded=_describe(one.get(key)), replayed=_describe(other.get(key)))
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    )


def _list_findings(paths: RunPaths) -> dict[str, _Finding]:
    """All but twins of a suite that fails without them: they are others each time, and prove nothing."""
    found = dict(_iter_findings(paths))
    return {
        key: finding
        for (key, plain_key), finding in found.items()
        if plain_key is None or _is_passed(found.get((plain_key, None)))
    }


def _is_passed(finding: _Finding | None) -> bool:
    return finding is not None and finding.outcome == _name(Passed())


def _iter_findings(paths: RunPaths) -> Iterator[tuple[tuple[str, str | None], _Finding]]:
    """Each execution by its name, and for twins by that of their plain suite as well."""
    for event in iter_events(paths.trace):
        match event.payload:
            case PatchApplication(outcome=outcome):
                yield ("patch", None), _Finding(outcome=_name(outcome), failing="")
            case BuildCheck() | StaticCheck() as check:
                key = f"{check.check_id} #{check.attempt} on the {check.subject}"
                yield (key, None), _Finding(outcome=_name(check.outcome), failing="")
            case AcceptanceExecution(variant="plain") as check:
                finding = _Finding(outcome=_name(check.outcome), failing=check.failing.digest)
                yield (_build_key(check, "plain"), None), finding
            case AcceptanceExecution() as check:
                # Twins get new names each time, so their ids cannot be compared.
                finding = _Finding(outcome=_name(check.outcome), failing="")
                yield (_build_key(check, "twins"), _build_key(check, "plain")), finding
            case _:
                pass


def _build_key(check: AcceptanceExecution, variant: str) -> str:
    return f"{check.check_id} ({variant}) #{check.attempt} on the {check.subject}"


def _name(outcome: CheckOutcome) -> str:
    return str(outcome.__struct_config__.tag)


def _describe(finding: _Finding | None) -> str:
    if finding is None:
        return "not executed"
    return (
        finding.outcome if not finding.failing else f"{finding.outcome}, failing tests {finding.failing[:19]}"
    )
