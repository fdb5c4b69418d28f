"""The custody log: what was taken out of a run after sealing, by whom and why (P26).

Each line of `custody.jsonl` is signed and names the digest of the line before, the first that of the seal.
`begun` is written before anything goes, `done` after it: a cut leaves a run that verifies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, Literal

import msgspec
import orjson

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial.signing import NoSigner, PublicKey, SignedStatement, StatementKind, UnknownSigner
from repotrial.trace._body import withdraw_bodies
from repotrial.trace._files import LineReader, open_regular
from repotrial.trace._payloads.common import Name
from repotrial.trace._payloads.course import RunId
from repotrial.trace._rundir import RunPaths, digest_regular, iter_sealable_entries

_MAX_BYTES: Final = 256 * 1024**2
CUSTODY_INVALID = ErrorCode(
    "custody-invalid",
    EvidenceError,
    "The custody log of a run does not hold: a line is none, is not signed, or does not follow the others.",
    hint="take custody.jsonl from where the run was archived; without it, the run is not what was sealed",
)


class KeptFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sealed file of a run directory."""

    name: Name
    digest: Digest
    size_bytes: Count


class CustodyEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step of an approved move to another tier; `number` is that of the line, from 0."""

    run_id: RunId
    number: Count
    previous: Digest
    """Of the line before it; of `seal.json` for the first."""
    action: Literal["begun", "done"]
    tier: Name
    """The tier that the run is moved to."""
    plan_digest: Digest
    """Of the plan that was approved."""
    approved_by: Name
    reason: Name
    approved_at_us: Count
    at_us: Count
    """When this step was taken."""
    before: tuple[KeptFile, ...]
    """Every sealed file that was there."""
    after: tuple[KeptFile, ...]
    """Every sealed file that is left."""
    score_digest: Digest
    """Of `score.json`, computed from all the evidence before any of it went."""
    not_shown: tuple[str, ...]
    """What the run cannot show any more, in words."""
    changed_paths: tuple[str, ...] | None = None
    """Of the change that went: aggregates count them; None where it could not be read."""
    harness_version: Name
    public_key: Name
    """The signer's, in PEM: to check the signature, not to trust it."""


CUSTODY_KIND: Final = StatementKind(
    predicate=CustodyEntry,
    predicate_type="urn:repotrial:custody:1",
    invalid=CUSTODY_INVALID,
    unknown=CUSTODY_INVALID,
)


class CustodyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a custody log accounts for."""

    entries: tuple[CustodyEntry, ...] = ()
    key_ids: tuple[str, ...] = ()
    """Of those who signed."""
    problem: str | None = None
    """Why the log does not hold; nothing is accounted for then. None if it holds or there is none."""

    @property
    def last(self) -> CustodyEntry | None:
        return None if self.problem or not self.entries else self.entries[-1]

    @property
    def gone(self) -> frozenset[str]:
        """Names of files that may be missing."""
        before = {file.name for entry in self.entries for file in entry.before}
        return frozenset(before - {file.name for file in self.last.after}) if self.last else frozenset()


def read_custody(paths: RunPaths, trusted_keys: Collection[PublicKey] | None = None) -> CustodyReport:
    """Read and verify the log; an empty report if there is none. None as keys takes any valid signature."""
    if not paths.custody.exists() and not paths.custody.is_symlink():
        return CustodyReport()
    try:
        with open_regular(paths.custody) as stream:
            data = stream.read(_MAX_BYTES + 1)
        with open_regular(paths.seal) as stream:
            seal = digest_bytes(stream.read())
        found = list(_iter_entries(data, seal, trusted_keys))
    except EvidenceError as error:
        return CustodyReport(problem=error.message)
    entries = tuple(signed.predicate for signed in found)
    return CustodyReport(entries=entries, key_ids=tuple(sorted({signed.key_id for signed in found})))


def _iter_entries(
    data: bytes, seal: Digest, trusted_keys: Collection[PublicKey] | None
) -> Iterator[SignedStatement[CustodyEntry]]:
    if len(data) > _MAX_BYTES or not data.endswith(b"\n"):
        raise CUSTODY_INVALID.error("custody.jsonl: expected whole lines, found a torn one, or too many")
    previous = seal
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n")):
        name = f"custody.jsonl: line {number + 1}"
        signed = CUSTODY_KIND.parse(line, name=name)
        entry = signed.predicate
        signer = signed.find_signer(entry.public_key, trusted_keys)
        if isinstance(signer, NoSigner):
            raise CUSTODY_INVALID.error(f"{name}: expected a valid signature, found none")
        if isinstance(signer, UnknownSigner):
            raise CUSTODY_INVALID.error(
                f"{name}: expected a trusted key, found a signature by the unknown key {signer.key_id}"
            )
        if (entry.number, entry.previous) != (number, previous):
            raise CUSTODY_INVALID.error(
                f"{name}: expected number {number} behind {previous}, found {entry.number} behind "
                f"{entry.previous}"
            )
        if signed.subjects != {"seal.json": seal}:
            raise CUSTODY_INVALID.error(f"{name}: expected an entry about this seal, found another")
        previous = digest_bytes(line)
        yield signed


def list_sealed(paths: RunPaths) -> tuple[KeptFile, ...]:
    """Every file that the seal speaks of and that is there, by name."""
    found = [
        KeptFile(name=e.name, digest=digest_regular(e.path), size_bytes=e.path.lstat().st_size)
        for e in iter_sealable_entries(paths)
    ]
    return tuple(sorted(found, key=lambda file: file.name))


def iter_withdrawn_lines(paths: RunPaths) -> Iterator[bytes]:
    """The lines of a trace of version 2 with every body taken out; the hashes stay, and hold."""
    with open_regular(paths.trace) as stream:
        for line in LineReader(stream):
            yield orjson.dumps(withdraw_bodies(orjson.loads(line)), option=orjson.OPT_SORT_KEYS) + b"\n"
