"""Whether the record of a run is whole: what is missing must not look as if nothing had happened."""

from __future__ import annotations

import os
from pathlib import Path

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial.score._directories import build_run_paths
from repotrial.score._evidence import Evidence
from repotrial.score._load import load_evidence

_EMPTY = digest_bytes(b"")


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


RECORD_BROKEN = ErrorCode(
    "record-broken",
    EvidenceError,
    "The record of a run does not hold or does not reach its seal, so nothing can be concluded from it.",
    hint="`repotrial run verify RUN_DIR` names all that does not hold; fetch the run directory again from "
    "where it was recorded, or repeat the run",
)
CHANGE_LOST = ErrorCode(
    "change-lost",
    EvidenceError,
    "The record speaks of a change, and `change.patch` is gone, cannot be read, or is another one.",
    hint="restore change.patch from the original run directory; check it with `repotrial run verify`",
)


def verify_record(evidence: Evidence, directory: Path, *, action: str) -> None:
    """Refuse a run of which nothing can be concluded; `action` says what was to be, as in "be compared".

    Raises:
        RECORD_BROKEN: the record does not hold, or the harness never came to seal it.
    """
    breach = _find_problem(evidence, _FILES)
    if breach is not None:
        raise RECORD_BROKEN.error(f"{directory}: could not {action}: {breach}")


def find_breach(evidence: Evidence) -> str | None:
    """The first thing that keeps a record from being whole and unchanged, with its file; None if none."""
    return _find_problem(evidence, _FILES)


def find_gap(evidence: Evidence) -> str | None:
    """Why the trace does not tell all that happened, with its file; None if it does."""
    return _find_problem(evidence, _OF_TRACE)


def load_change(directory: Path) -> bytes:
    """The change that was judged, as a patch; empty where the run left none, or ended before.

    Raises:
        RUN_DIRECTORY_MISSING: there is no run.
        CHANGE_LOST: there was a change, and the file does not have it.
    """
    paths = build_run_paths(directory)
    evidence = load_evidence(paths.root)
    change = evidence.change
    recorded = None if evidence.patch is None else evidence.patch.event.patch_digest
    if isinstance(change, Unknown):
        # Without a file: a change that the record says was empty, or a run that ended before there was one.
        if recorded == _EMPTY or (recorded is None and not os.path.lexists(paths.change)):
            return b""
        raise CHANGE_LOST.error(f"{paths.root}/{change.reason}; the record speaks of a change")
    if recorded is not None and digest_bytes(change) != recorded:
        raise CHANGE_LOST.error(
            f"{paths.change}: expected the change that was judged, {recorded}, found {digest_bytes(change)}"
        )
    return change


def _find_problem(evidence: Evidence, files: dict[str, str]) -> str | None:
    for problem in evidence.problems:
        file = files.get(problem.code)
        if file is not None:
            names_file = any(name in problem.message for name in _FILES.values())
            return problem.message if names_file else f"{file}: {problem.message}"
    if not evidence.facts.is_ended:
        return "trace.jsonl: expected events up to the sealing of the run, found that they end before it"
    return None
