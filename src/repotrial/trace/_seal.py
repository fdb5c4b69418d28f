"""The seal: an in-toto statement about a finished run, signed in a DSSE envelope.

It holds the number of events and the hash of the last one (a bare chain cannot show that it is complete) and
the digest of every file. The public key is inside too: it shows that nothing changed since the signature.
Whether the signer is to be trusted is decided by a key that came another way.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.clock import Clock, SystemClock
from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, EvidenceError, MachineError, UsageError
from repotrial.signing import SignedStatement, SigningKey, StatementKind
from repotrial.trace._event import EventHash, TraceHead
from repotrial.trace._files import open_regular, write_once
from repotrial.trace._manifest import Manifest
from repotrial.trace._manifest_file import load_manifest
from repotrial.trace._payloads.common import Name
from repotrial.trace._payloads.course import RunId, RunOpened
from repotrial.trace._reader import find_bound_manifest, iter_events
from repotrial.trace._rundir import RunPaths, digest_regular, iter_sealable_entries
from repotrial.trace._trace_file import TRACE_LOCKED, lock_trace
from repotrial.trace._verify_chain import Intact, check_chain

# in-toto's TypeURI is any RFC 3986 URI, unresolvable ones included; this one claims no host that others
# may own. The last part is the version.
SEAL_PREDICATE_TYPE: Final = "urn:repotrial:seal:1"

MAX_SEAL_BYTES = 64 * 1024 * 1024

TRUST_LIMITS = (
    "The seal shows that these files are the ones that the holder of the key sealed; it does not show that "
    "the holder recorded truthfully, nor that runs were not left out."
)


SEAL_EXISTS = ErrorCode(
    "seal-exists",
    UsageError,
    "The run directory is sealed already; a run is sealed once.",
    hint="verify the run; start a new run in a new directory",
)
UNSEALABLE = ErrorCode(
    "unsealable",
    EvidenceError,
    "A run directory cannot be sealed: its chain does not hold, its parts disagree, or it is in use.",
    hint="verify the run to see what is wrong; an unsealed run stays readable",
)
SEAL_INVALID = ErrorCode(
    "seal-invalid",
    EvidenceError,
    "A seal does not have the form of one.",
    hint="the file was edited or is not a seal; take it from the original run directory",
)
SEAL_VERSION = ErrorCode(
    "seal-version",
    EvidenceError,
    "A seal is of a version that this release does not know.",
    hint="verify it with the release that wrote it, or with a newer one",
)


class Seal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is signed about a run: the statement's predicate."""

    run_id: RunId
    contract_version_id: Digest
    event_count: Count
    head_hash: EventHash
    """Hash of the last event."""
    manifest_digest: Digest
    sealed_at_us: Count
    harness_version: Name
    public_key: Name
    """The signer's, in PEM: to check the signature, not to trust it."""
    trust_limits: Name
    """What the seal does not show, in a sentence."""

    @property
    def head(self) -> TraceHead:
        return TraceHead(count=self.event_count, hash=self.head_hash)


_KIND: Final = StatementKind(
    predicate=Seal, predicate_type=SEAL_PREDICATE_TYPE, invalid=SEAL_INVALID, unknown=SEAL_VERSION
)


def seal_run(
    paths: RunPaths,
    key: SigningKey,
    *,
    harness_version: str,
    head: TraceHead | None = None,
    clock: Clock | None = None,
) -> Seal:
    """Check a finished run directory, sign what it holds, and write `seal.json`.

    Args:
        paths: Where the run is.
        key: Signs.
        harness_version: Of the program that seals.
        head: Where the writer of this trace ended, if it was in this process. It is signed as it is: a trace
            that was changed since is refused by every reader. None checks the chain on the disk first.
        clock: Tells when.

    Raises:
        SEAL_EXISTS: it has a seal.
        UNSEALABLE: the trace is being written or does not hold, or the parts do not belong together.
        EvidenceError: the manifest or a file cannot be read.
        TRACE_WRITE: the machine does not let us write.
    """
    with _writer_excluded(paths):
        if os.path.lexists(paths.seal):
            raise SEAL_EXISTS.error(f"{paths.seal}: expected no seal yet, found one")
        manifest = load_manifest(paths.manifest)
        subjects = dict(_iter_subjects(paths))
        end = head or _verify_chain(paths, manifest)
        manifest_digest = subjects[paths.manifest.name]
        _check_opening(paths, manifest_digest)
        seal = Seal(
            run_id=manifest.run_id,
            contract_version_id=manifest.contract.version_id,
            event_count=end.count,
            head_hash=end.hash,
            manifest_digest=manifest_digest,
            sealed_at_us=(clock or SystemClock()).now_us(),
            harness_version=harness_version,
            public_key=key.public_key.pem,
            trust_limits=TRUST_LIMITS,
        )
        _write(paths.seal, _KIND.sign(seal, subjects=subjects, key=key))
    return seal


def _verify_chain(paths: RunPaths, manifest: Manifest) -> TraceHead:
    chain = check_chain(paths.trace, run_id=manifest.run_id, expected=None)
    if not isinstance(chain.status, Intact) or chain.head is None:
        raise UNSEALABLE.error(f"{paths.trace}: expected an intact chain, found {chain.status}")
    return chain.head


def _write(path: Path, data: bytes) -> None:
    if len(data) > MAX_SEAL_BYTES:
        raise UNSEALABLE.error(
            f"{path}: expected a seal of at most {MAX_SEAL_BYTES} bytes, found {len(data)}",
            hint="the run left too many files; raise the writer's inline_bytes, so that fewer become blobs",
        )
    try:
        write_once(path, data)
    except FileExistsError as error:
        raise SEAL_EXISTS.error(f"{path}: expected no seal yet, found one") from error


def load_seal(path: Path) -> SignedStatement[Seal]:
    """Read a seal without believing it.

    Raises:
        TRACE_UNREADABLE: it is missing or not a plain file.
        SEAL_INVALID: it does not have the form of a seal.
        SEAL_VERSION: it is of another version.
    """
    with open_regular(path) as stream:
        data = stream.read(MAX_SEAL_BYTES + 1)
    if len(data) > MAX_SEAL_BYTES:
        raise SEAL_INVALID.error(f"{path}: expected at most {MAX_SEAL_BYTES} bytes, found more")
    return parse_seal(data, name=path.name)


def parse_seal(data: bytes, *, name: str = "seal.json") -> SignedStatement[Seal]:
    """The same, from bytes; `name` is what messages call them."""
    return _KIND.parse(data, name=name)


def _iter_subjects(paths: RunPaths) -> Iterator[tuple[str, Digest]]:
    for entry in iter_sealable_entries(paths):
        if not entry.is_regular:
            raise UNSEALABLE.error(
                f"{entry.path}: expected plain files in a run directory, found something else"
            )
        # A seal that survives a power cut must not speak of files that do not.
        yield entry.name, digest_regular(entry.path, is_durable=True)


def _check_opening(paths: RunPaths, manifest_digest: Digest) -> None:
    first = next(iter_events(paths.trace), None)
    if first is None or not isinstance(first.payload, RunOpened):
        raise UNSEALABLE.error(
            f"{paths.trace}: expected run-opened as the first event, found another or none"
        )
    bound = find_bound_manifest(iter_events(paths.trace))
    if bound != manifest_digest:
        raise UNSEALABLE.error(
            f"{paths.trace}: expected a trace of the manifest {manifest_digest}, "
            f"found one of {bound or 'none'}"
        )


@contextlib.contextmanager
def _writer_excluded(paths: RunPaths) -> Iterator[None]:
    """Hold the writer's lock, so that nothing is appended between counting and signing."""
    if not paths.root.is_dir():  # taking the lock would make one
        raise UNSEALABLE.error(f"{paths.root}: expected a run directory, found none")
    try:
        lock = lock_trace(paths)
    except MachineError as error:
        if error.code != TRACE_LOCKED:
            raise
        raise UNSEALABLE.error(
            f"{paths.trace}: expected a closed trace, found one that is being written"
        ) from error
    try:
        yield
    finally:
        os.close(lock)
