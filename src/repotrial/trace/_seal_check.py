"""Checking a seal: what holds, who vouches for it, and every file that is not what was sealed.

1. `seal.json` is a plain file of bounded size, one DSSE envelope with one signature, in canonical form.
2. Its payload is an in-toto statement whose predicate is a seal of a version that we know.
3. The signature is valid under the key in the predicate, and names that key.
4. That key is among the trusted ones; without any, the report says that the signer is unchecked.
5. `manifest.json` is that of the sealed run.
6. Every sealed file is there, plain, with the sealed digest, and no other file is there. Where bodies were
   taken out, the trace may be another file and their blobs may be gone: step 7 shows that nothing else is.
   Files that a custody log accounts for may be gone too; the log itself has to hold.
7. The trace has the sealed number of events and the sealed last hash.

All steps that can be taken are taken, and all problems are listed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial._core.errors import EvidenceError
from repotrial.signing import NoSigner, PublicKey, SignedStatement, Signer, TrustedSigner
from repotrial.trace._custody import CustodyReport
from repotrial.trace._files import TRACE_UNREADABLE
from repotrial.trace._rundir import RunPaths, SealableEntry, digest_regular, iter_sealable_entries
from repotrial.trace._seal import SEAL_VERSION, Seal, load_seal
from repotrial.trace._verify_chain import ChainReport, Truncated


class NoSeal(msgspec.Struct, frozen=True, kw_only=True):
    """There is none: the run was not finished, or it was taken away."""

    reason: str


class MalformedSeal(msgspec.Struct, frozen=True, kw_only=True):
    """The file is not a seal."""

    reason: str


class UnknownSealVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A seal of another release; nothing is said about it."""

    reason: str


class BadSignature(msgspec.Struct, frozen=True, kw_only=True):
    """The signature is not one over this content by the key that it names."""

    key_id: str


class OtherRun(msgspec.Struct, frozen=True, kw_only=True):
    """The seal was made for another run and put here."""

    sealed_run_id: str
    found_run_id: str


class FileChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A sealed file has other bytes now."""

    name: str
    expected: Digest
    found: Digest


class FileMissing(msgspec.Struct, frozen=True, kw_only=True):
    """A sealed file is gone."""

    name: str


class FileAddedAfterSealing(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the seal does not know."""

    name: str


class NotAPlainFile(msgspec.Struct, frozen=True, kw_only=True):
    """A link, pipe, socket, device or unreadable file stands where only plain files belong."""

    name: str


class FolderUnreadable(msgspec.Struct, frozen=True, kw_only=True):
    """A folder cannot be listed, so its files were not compared."""

    reason: str


class TraceCutOff(msgspec.Struct, frozen=True, kw_only=True):
    """The trace ends before the last sealed event."""

    sealed_count: Count
    found_count: Count


class CustodyBroken(msgspec.Struct, frozen=True, kw_only=True):
    """The custody log does not hold, so nothing that is missing is accounted for."""

    reason: str


RunSealProblem: TypeAlias = (
    NoSeal
    | MalformedSeal
    | UnknownSealVersion
    | BadSignature
    | OtherRun
    | FileChanged
    | FileMissing
    | FileAddedAfterSealing
    | NotAPlainFile
    | FolderUnreadable
    | CustodyBroken
    | TraceCutOff
)


class SealReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a seal is worth."""

    signer: Signer
    problems: tuple[RunSealProblem, ...]

    @property
    def is_intact(self) -> bool:
        """Whether everything is as it was when it was signed."""
        return not self.problems

    @property
    def is_trusted(self) -> bool:
        """Whether it is intact and its signer is trusted."""
        return self.is_intact and isinstance(self.signer, TrustedSigner)


def read_seal(paths: RunPaths) -> SignedStatement[Seal] | NoSeal | MalformedSeal | UnknownSealVersion:
    """Steps 1 and 2."""
    try:
        return load_seal(paths.seal)
    except EvidenceError as error:
        if error.code == TRACE_UNREADABLE:
            return NoSeal(reason=error.message)
        if error.code == SEAL_VERSION:
            return UnknownSealVersion(reason=error.message)
        return MalformedSeal(reason=error.message)


def check_signed_seal(
    paths: RunPaths,
    signed: SignedStatement[Seal],
    *,
    trusted_keys: Collection[PublicKey] | None,
    chain: ChainReport,
    custody: CustodyReport,
    run_id: str | None,
) -> SealReport:
    """Steps 3 to 7.

    Args:
        paths: The run directory.
        signed: Its seal.
        trusted_keys: Whose seal is believed.
        chain: The trace checked against the sealed head.
        custody: What was taken out since.
        run_id: Of the manifest; None if it cannot be read, which step 6 reports.
    """
    signer = signed.find_signer(signed.predicate.public_key, trusted_keys)
    problems: list[RunSealProblem] = []
    if isinstance(signer, NoSigner):
        problems.append(BadSignature(key_id=signed.key_id))
    if run_id is not None and run_id != signed.predicate.run_id:
        problems.append(OtherRun(sealed_run_id=signed.predicate.run_id, found_run_id=run_id))
    if custody.problem is not None:
        problems.append(CustodyBroken(reason=custody.problem))
    found = _iter_file_problems(paths, signed)
    problems += (
        each
        for each in found
        if not _is_withdrawal(each, paths, chain) and not _is_accounted(each, signed, custody)
    )
    if isinstance(chain.status, Truncated):
        problems.append(TraceCutOff(sealed_count=signed.predicate.event_count, found_count=chain.count))
    return SealReport(signer=signer, problems=tuple(problems))


def _is_accounted(problem: RunSealProblem, signed: SignedStatement[Seal], custody: CustodyReport) -> bool:
    """Whether a file is gone as the custody log says, which also has its sealed digest right."""
    if not isinstance(problem, FileMissing) or problem.name not in custody.gone:
        return False
    listed = {file.digest for entry in custody.entries for file in entry.before if file.name == problem.name}
    return listed == {signed.subjects[problem.name]}


def _is_withdrawal(problem: RunSealProblem, paths: RunPaths, chain: ChainReport) -> bool:
    """Whether a file differs only because bodies were taken out; the chain holds up to the sealed head."""
    if not chain.is_intact or not chain.withdrawn:
        return False
    match problem:
        case FileChanged(name=name):
            return name == paths.trace.name
        case FileMissing(name=name):
            folder, _, rest = name.partition("/")
            return folder == paths.blobs.name and f"sha256:{rest.replace('/', '')}" in chain.withdrawn
        case _:
            return False


def _iter_file_problems(paths: RunPaths, signed: SignedStatement[Seal]) -> Iterator[RunSealProblem]:
    missing = dict(signed.subjects)
    try:
        for entry in iter_sealable_entries(paths):
            yield from _iter_entry_problems(entry, missing.pop(entry.name, None))
    except EvidenceError as error:  # what lies in that folder and behind it was not seen
        if error.code != TRACE_UNREADABLE:
            raise
        yield FolderUnreadable(reason=error.message)
        return
    yield from (FileMissing(name=name) for name in sorted(missing))


def _iter_entry_problems(entry: SealableEntry, expected: Digest | None) -> Iterator[RunSealProblem]:
    if not entry.is_regular:
        yield NotAPlainFile(name=entry.name)
        return
    if expected is None:
        yield FileAddedAfterSealing(name=entry.name)
        return
    try:
        found = digest_regular(entry.path)
    except EvidenceError:  # `trace-unreadable`
        yield NotAPlainFile(name=entry.name)
        return
    if found != expected:
        yield FileChanged(name=entry.name, expected=expected, found=found)
