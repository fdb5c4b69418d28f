"""From a run directory to evidence, and whether its record is whole. Nothing is executed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ContractError, ErrorCode, EvidenceError, UsageError
from repotrial._core.files import find_obstacle
from repotrial.contract import ContractRecord, RunSpec, parse_record, parse_run_spec
from repotrial.policy import list_declared_places
from repotrial.score._evidence import Evidence, InvalidReason, SealState, TraceFacts
from repotrial.score._walk import collect_facts
from repotrial.signing import NoSigner
from repotrial.trace import (
    MAX_CHANGE_BYTES,
    AspectVerdict,
    BlobStore,
    CouldNotBeChecked,
    DoesNotHold,
    Event,
    Holds,
    Manifest,
    RunPaths,
    RunVerification,
    check_run,
    iter_events,
)

_MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
_Document = TypeVar("_Document")
Revision: TypeAlias = Callable[[Event], Event]
"""Puts what is to be judged in the place of an event that was verified as it is on record."""


NO_RUN_DIRECTORY = ErrorCode(
    "no-run-directory",
    EvidenceError,
    "There is no run directory at that path.",
    hint="name a directory that a run left: it holds spec.json, contract.json and trace.jsonl",
)


def load_evidence(run_directory: Path, *, revise: Revision | None = None) -> Evidence:
    """Read and verify what a run left, as far as it goes; what is missing or wrong becomes a problem.

    The seal is optional and no key is needed: whose seal it is, `run verify` says.

    Args:
        run_directory: What the run left.
        revise: For a verdict by another judge; None judges the events as they are on record.

    Raises:
        NO_RUN_DIRECTORY: there is no such directory.
    """
    if not run_directory.is_dir():
        raise NO_RUN_DIRECTORY.error(f"{run_directory}: expected a run directory, found none")
    paths = RunPaths(run_directory)
    record = _read(paths.contract, parse_record)
    spec = _read(paths.spec, parse_run_spec)
    manifest_data = _read(paths.manifest, bytes)
    change = _read(paths.change, bytes, max_bytes=MAX_CHANGE_BYTES)
    verification = check_run(paths, trusted_keys=None)
    manifest = verification.manifest
    if isinstance(manifest, Unknown):
        manifest = Unknown(reason=manifest.reason.replace(f"{paths.root}/", ""))
    places = () if isinstance(record, Unknown) else list_declared_places(record.contract)
    facts, trace_problems = _collect(paths, verification, revise, places)
    archived, archive_problems = _read_archived(paths, verification)
    is_gone = paths.change.name in verification.custody.gone
    documents: list[tuple[Path, object]] = [(paths.contract, record), (paths.spec, spec)]
    problems = [
        *_iter_absent(*documents, *(() if is_gone else ((paths.change, change),))),
        *archive_problems,
        *_iter_verification_problems(verification, has_seal=os.path.lexists(paths.seal)),
        *trace_problems,
        *_iter_mismatches(manifest, record, spec),
        *_iter_change_problems(change, facts),
    ]
    head = verification.chain_report.head
    return Evidence(
        run_id=manifest.run_id if isinstance(manifest, Manifest) else manifest,
        manifest=manifest,
        manifest_digest=manifest_data if isinstance(manifest_data, Unknown) else digest_bytes(manifest_data),
        record=record,
        spec=spec,
        change=change,
        facts=facts,
        head=Unknown(reason="no event of the trace holds") if head is None else head,
        seal=_find_seal_state(paths, verification),
        verification=verification,
        problems=tuple(_relocate(problem, run_directory) for problem in problems),
        archived_card=None if problems or revise is not None else archived,
    )


def _read_archived(
    paths: RunPaths, verification: RunVerification
) -> tuple[bytes | None, list[InvalidReason]]:
    """The card of a run whose evidence is gone in part; it must be the one that the custody log names."""
    last = verification.custody.last
    if last is None:
        return None, []
    data = _read(paths.score, bytes)
    if isinstance(data, bytes) and digest_bytes(data) == last.score_digest:
        return data, []
    found = data.reason if isinstance(data, Unknown) else digest_bytes(data)
    message = f"score.json: expected {last.score_digest} as in the custody log, found {found}"
    return None, [InvalidReason(code="custody", message=message)]


def _relocate(problem: InvalidReason, run_directory: Path) -> InvalidReason:
    """The same run says the same, wherever its directory lies."""
    message = problem.message.replace(f"{run_directory}/", "")
    return msgspec.structs.replace(problem, message=message)


def _read(
    path: Path, parse: Callable[[bytes], _Document], *, max_bytes: int = _MAX_DOCUMENT_BYTES
) -> _Document | Unknown:
    try:
        return parse(_read_regular(path, max_bytes))
    except OSError as error:
        return Unknown(reason=f"{path.name}: expected a file, found: {error.strerror}")
    except (ContractError, EvidenceError) as error:
        return Unknown(reason=f"{path.name}: {error.message}")


def _read_regular(path: Path, max_bytes: int) -> bytes:
    # Never wait on a pipe, never follow a link out of the directory.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise NO_RUN_DIRECTORY.error("expected a plain file, found something else")
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise NO_RUN_DIRECTORY.error(f"expected at most {max_bytes} bytes, found more")
    return data


def _find_seal_state(paths: RunPaths, verification: RunVerification) -> SealState:
    if not os.path.lexists(paths.seal):
        return "absent"
    # Without a key it is unknown whose it is; its files are as it says, or the run is invalid.
    is_readable = not isinstance(verification.seal_report.signer, NoSigner)
    return "intact" if is_readable and not verification.seal_report.problems else "unchecked"


def _collect(
    paths: RunPaths, verification: RunVerification, revise: Revision | None, places: tuple[str, ...]
) -> tuple[TraceFacts, list[InvalidReason]]:
    events: Iterator[Event] = islice(
        iter_events(paths.trace, allow_torn_tail=True), verification.chain_report.count
    )
    if revise is not None:
        events = map(revise, events)
    try:
        return collect_facts(events, BlobStore(paths.blobs), places=places), []
    except EvidenceError as error:
        return TraceFacts(), [InvalidReason(code="trace", message=error.message)]


def _iter_absent(*documents: tuple[Path, object]) -> Iterator[InvalidReason]:
    for path, document in documents:
        if isinstance(document, Unknown):
            yield InvalidReason(code=f"no-{path.stem}", message=document.reason)


def _iter_verification_problems(verification: RunVerification, *, has_seal: bool) -> Iterator[InvalidReason]:
    """Chain, completeness and identity must hold; a seal may be absent, but not broken."""
    yield from _iter_aspect("chain", verification.chain)
    yield from _iter_aspect("completeness", verification.completeness)
    yield from _iter_aspect("identity", verification.identity)
    if has_seal and isinstance(verification.seal, DoesNotHold):
        yield from _iter_aspect("seal", verification.seal)


def _iter_aspect(code: str, verdict: AspectVerdict) -> Iterator[InvalidReason]:
    match verdict:
        case Holds():
            return
        case DoesNotHold(findings=findings) | CouldNotBeChecked(findings=findings):
            for finding in findings:
                yield InvalidReason(code=code, message=finding.text, seq=finding.seq)


def _iter_mismatches(
    manifest: Manifest | Unknown, record: ContractRecord | Unknown, spec: RunSpec | Unknown
) -> Iterator[InvalidReason]:
    """Contract, specification and manifest must speak of the same thing (C2, P2)."""
    if isinstance(manifest, Unknown):
        return
    bound = manifest.contract
    claims: list[tuple[str, object, object]] = []
    if isinstance(record, ContractRecord):
        lock = record.lock
        claims += [
            ("contract.json: id", bound.id, record.contract.id),
            ("contract.json: version id", bound.version_id, lock.version_id),
            ("contract.json: statement digest", bound.statement_digest, lock.statement_digest),
        ]
        if not isinstance(manifest.repository, Unknown):
            tree = manifest.repository.tree_digest
            claims.append(("contract.json: tree digest", tree, lock.repository.tree_digest))
    if isinstance(spec, RunSpec):
        claims += [
            ("spec.json: contract", bound.id, spec.contract_id),
            ("spec.json: version id", bound.version_id, spec.contract_version_id),
            ("spec.json: statement digest", bound.statement_digest, spec.statement_digest),
            ("spec.json: agent", manifest.agent.name, spec.agent.name),
            ("spec.json: root seed", manifest.seeds.root, spec.root_seed),
        ]
    for name, expected, found in claims:
        if expected != found:
            message = f"{name}: expected {expected} as in the manifest, found {found}"
            yield InvalidReason(code="identity", message=message)


def _iter_change_problems(change: bytes | Unknown, facts: TraceFacts) -> Iterator[InvalidReason]:
    if len(facts.patches) != 1:
        message = f"expected one application of the change, found {len(facts.patches)}"
        yield InvalidReason(code="patch-application", message=message)
    elif isinstance(change, bytes) and digest_bytes(change) != facts.patches[0].event.patch_digest:
        expected = facts.patches[0].event.patch_digest
        message = f"change.patch: expected {expected} as in the trace, found {digest_bytes(change)}"
        yield InvalidReason(code="change", message=message, seq=facts.patches[0].seq)


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
