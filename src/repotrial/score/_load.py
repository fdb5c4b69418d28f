"""From a run directory to evidence. Nothing is executed, and nothing outside of the directory is read."""

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
from repotrial._core.errors import ContractError, ErrorCode, EvidenceError
from repotrial.contract import ContractRecord, RunSpec, parse_record, parse_run_spec
from repotrial.score._evidence import Evidence, InvalidReason, SealState, TraceFacts
from repotrial.score._walk import collect_facts
from repotrial.trace import (
    MAX_CHANGE_BYTES,
    AspectVerdict,
    BlobStore,
    CouldNotBeChecked,
    DoesNotHold,
    Event,
    Holds,
    Manifest,
    NoSigner,
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
    facts, trace_problems = _collect(paths, verification, revise)
    problems = [
        *_iter_absent((paths.contract, record), (paths.spec, spec), (paths.change, change)),
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
        problems=tuple(_relocate(problem, run_directory) for problem in problems),
    )


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
    # Without a key nobody knows whose it is; its files are as it says, or the run is invalid.
    is_readable = not isinstance(verification.seal_report.signer, NoSigner)
    return "intact" if is_readable and not verification.seal_report.problems else "unchecked"


def _collect(
    paths: RunPaths, verification: RunVerification, revise: Revision | None
) -> tuple[TraceFacts, list[InvalidReason]]:
    events: Iterator[Event] = islice(
        iter_events(paths.trace, allow_torn_tail=True), verification.chain_report.count
    )
    if revise is not None:
        events = map(revise, events)
    try:
        return collect_facts(events, BlobStore(paths.blobs)), []
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
