"""Whether the record of a run is whole: what is missing must not look as if nothing had happened."""

from __future__ import annotations

import os
from pathlib import Path

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError, UsageError
from repotrial._core.files import find_obstacle
from repotrial.score._evidence import Evidence
from repotrial.score._load import load_evidence
from repotrial.trace import RunPaths

RUN_DIRECTORY_MISSING = ErrorCode(
    "run-directory-missing",
    UsageError,
    "The path does not name the directory of a run, so there is nothing to look at; nothing was written.",
    hint="name the directory that holds trace.jsonl and manifest.json",
)
NO_RUNS = ErrorCode(
    "no-runs",
    UsageError,
    "There are no runs in the directory, or none that is wanted.",
    hint="name the directory that `repotrial run start --runs` was given",
)


def build_run_paths(directory: Path) -> RunPaths:
    """The files of a run.

    Raises:
        RUN_DIRECTORY_MISSING: it is no directory, or one that no run was recorded in.
    """
    obstacle = find_obstacle(directory)
    if obstacle:
        raise RUN_DIRECTORY_MISSING.error(f"{directory}: expected a run directory, found {obstacle}")
    if not _is_run(directory):
        raise RUN_DIRECTORY_MISSING.error(
            f"{directory}: expected a run directory, found neither trace.jsonl nor spec.json in it",
            hint=_find_hint(directory),
        )
    return RunPaths(directory)


def find_run_directories(directory: Path) -> list[Path]:
    """Every run directory in a directory, by name; the directory itself, where it is one.

    Raises:
        RUN_DIRECTORY_MISSING: it is no directory.
        NO_RUNS: there are none in it.
    """
    obstacle = find_obstacle(directory)
    if not obstacle:
        found = [directory] if _is_run(directory) else _list_runs(directory)
        if not found:
            raise NO_RUNS.error(f"{directory}: expected a directory of runs, found no run in it")
        return found
    raise RUN_DIRECTORY_MISSING.error(
        f"{directory}: expected a directory of runs, found {obstacle}", hint=NO_RUNS.hint
    )


def _is_run(directory: Path) -> bool:
    paths = RunPaths(directory)
    return any(os.path.lexists(path) for path in (paths.trace, paths.spec, paths.seal))


def _list_runs(directory: Path) -> list[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=True))
    except OSError as error:
        raise RUN_DIRECTORY_MISSING.error(f"{directory}: expected runs, found: {error.strerror}") from error
    # Hidden ones are runs in the making.
    return [directory / name for name in names if not name.startswith(".") and _is_run(directory / name)]


def _find_hint(directory: Path) -> str:
    """Of a directory of runs, name one of them."""
    try:
        runs = _list_runs(directory)
    except UsageError:  # `run-directory-missing`
        runs = []
    if not runs:
        return RUN_DIRECTORY_MISSING.hint
    return f"it holds {len(runs)} run(s): name one, as {runs[0]}; `repotrial run list {directory}` shows all"


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
