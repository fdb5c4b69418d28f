"""Whether the record of a run is whole: what is missing must not look as if nothing had happened."""

from __future__ import annotations

from repotrial._core.errors import EvidenceError
from repotrial.score import Evidence, load_evidence
from repotrial.trace import RunPaths

__all__ = ["RecordBrokenError", "find_breach", "find_gap", "verify_record"]

_OF_TRACE = {"chain": "trace.jsonl", "trace": "trace.jsonl"}
_OF_DOCUMENTS = {
    "identity": "manifest.json",
    "seal": "seal.json",
    "no-contract": "contract.json",
    "no-spec": "spec.json",
}
_FILES = {**_OF_TRACE, **_OF_DOCUMENTS}
"""The file to look at, by what is wrong. A run that was stopped lacks checks and a change; its record is
whole all the same."""


class RecordBrokenError(EvidenceError):
    """The record of a run does not hold or does not reach its seal, so nothing can be concluded from it."""

    code = "record-broken"
    default_hint = (
        "`repotrial run verify RUN_DIR` names all that does not hold; fetch the run directory again from "
        "where it was recorded, or repeat the run"
    )


def verify_record(paths: RunPaths, *, action: str) -> Evidence:
    """Read a run of which something is to be concluded; `action` says what, as in "be compared".

    Raises:
        RecordBrokenError: the record does not hold, or the harness never came to seal it.
    """
    evidence = load_evidence(paths.root)
    breach = find_breach(evidence)
    if breach is not None:
        raise RecordBrokenError(f"{paths.root}: could not {action}: {breach}")
    return evidence


def find_breach(evidence: Evidence) -> str | None:
    """The first thing that keeps a record from being whole and unchanged, with its file; null if none."""
    return _find_problem(evidence, _FILES)


def find_gap(evidence: Evidence) -> str | None:
    """As `find_breach`, of the trace alone: why it does not tell all that happened."""
    return _find_problem(evidence, _OF_TRACE)


def _find_problem(evidence: Evidence, files: dict[str, str]) -> str | None:
    for problem in evidence.problems:
        file = files.get(problem.code)
        if file is not None:
            names_file = any(name in problem.message for name in _FILES.values())
            return problem.message if names_file else f"{file}: {problem.message}"
    if not evidence.facts.is_ended:
        return "trace.jsonl: expected events up to the sealing of the run, found that they end before it"
    return None
