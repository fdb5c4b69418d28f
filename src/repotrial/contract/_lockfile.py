"""The lock file: built from a loaded contract, written, read, and held against the directory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ContractError, ErrorCode
from repotrial.contract._check_document import check_major
from repotrial.contract._contract import (
    CONTRACT_FILE,
    LOCK_FILE,
    LOCK_SCHEMA,
    ArchiveRepository,
    Contract,
    ContractLock,
    DirectoryRepository,
    FilePin,
    GitRepository,
    LoadedContract,
    RepositoryPin,
)
from repotrial.contract._convert import convert_collecting
from repotrial.contract._environment import AllowListNetwork
from repotrial.contract._problems import Problem, describe, quote
from repotrial.contract._rules_files import pins_below
from repotrial.contract._text import decode_text, parse_json
from repotrial.contract._version import (
    build_part_digests,
    canonical_parts,
    compute_scoring_digest,
    compute_statement_digest,
    version_of_parts,
)

_RELOCK = "run `repotrial contract lock`, and look at what changed before you commit it"
_REMAKE = "run `repotrial contract lock`, which writes a new one"
_OTHER_MAJOR = f"use the RepoTrial that wrote it, or delete {LOCK_FILE} and run `repotrial contract lock`"


CONTRACT_UNPINNED_IMAGE = ErrorCode(
    "contract-unpinned-image",
    ContractError,
    "An image is named by a tag. Tags move, so that the environment would not be the same tomorrow.",
    hint="write the reference as name@sha256:…; the registry or `skopeo inspect` tells the digest",
)
CONTRACT_PIN_MISMATCH = ErrorCode(
    "contract-pin-mismatch",
    ContractError,
    "The repository resolved to something else than the contract says.",
    hint="correct the commit or digest in [repository], or the source that it is fetched from",
)


def build_lock(loaded: LoadedContract, pin: RepositoryPin) -> ContractLock:
    """Everything pinned, and the version id over it.

    Raises:
        CONTRACT_UNPINNED_IMAGE: an image reference has no digest.
        CONTRACT_PIN_MISMATCH: `pin` is not what the contract names.
    """
    contract = loaded.contract
    for field, image in contract.environment.iter_image_references():
        if not image.is_pinned:
            raise CONTRACT_UNPINNED_IMAGE.error(
                f"{CONTRACT_FILE}: {field}.reference: expected an image with its digest, "
                f"found {describe(image.reference)}"
            )
    mismatch = _find_pin_mismatch(contract, pin)
    if mismatch is not None:
        raise CONTRACT_PIN_MISMATCH.error(f"{CONTRACT_FILE}: {mismatch}")
    return _assemble(loaded, pin)


def _assemble(loaded: LoadedContract, pin: RepositoryPin) -> ContractLock:
    contract = loaded.contract
    parts = build_part_digests(canonical_parts(contract, pin=pin, files=loaded.files))
    return ContractLock(
        schema=LOCK_SCHEMA,
        id=contract.id,
        version_id=version_of_parts(parts),
        parts=parts,
        repository=pin,
        files=loaded.files,
        statement_digest=compute_statement_digest(contract, loaded.statement),
        scoring_digest=compute_scoring_digest(contract),
        reference_digest=None if loaded.reference is None else digest_bytes(loaded.reference),
        replay=find_replay_label(contract, loaded.files),
    )


def find_replay_label(contract: Contract, files: tuple[FilePin, ...]) -> Literal["replayable", "conditional"]:
    """C12: what needs the network and is not recorded cannot be replayed."""
    networks = [contract.policy.network, *(step.network for step in contract.setup)]
    networks += [check.network for check in contract.checks]
    live = (network for network in networks if isinstance(network, AllowListNetwork))
    return "replayable" if all(is_recorded(network, files) for network in live) else "conditional"


def is_recorded(network: AllowListNetwork, files: tuple[FilePin, ...]) -> bool:
    """Whether what the hosts answered lies beside the contract already."""
    return network.recording is not None and bool(pins_below(network.recording, files))


def read_lock(data: bytes) -> ContractLock | list[Problem]:
    """Read a lock, or say everything that is wrong with it."""
    text = decode_text(data, file=LOCK_FILE)
    if isinstance(text, Problem):
        return [text]
    value = parse_json(text, file=LOCK_FILE)
    if isinstance(value, Problem):
        return [value]
    if isinstance(value, dict):
        refusal = check_major(value, known=LOCK_SCHEMA)
        if refusal is not None:
            return [refusal.to_problem(LOCK_FILE, hint=_OTHER_MAJOR)]
    conversion = convert_collecting(value, ContractLock, is_json=True)
    if conversion.document is not None:
        return conversion.document
    return [finding.to_problem(LOCK_FILE, hint=_REMAKE) for finding in conversion.findings]


def check_lock(loaded: LoadedContract) -> list[Problem]:
    """What in the lock is not true of the directory any more; the repository itself is not looked at."""
    return loaded.find_once(_iter_lock_problems)


def _iter_lock_problems(loaded: LoadedContract) -> Iterator[Problem]:
    lock = loaded.lock
    if lock is None:
        yield Problem(
            code="lock-missing",
            severity="warning",
            file=LOCK_FILE,
            message="expected a lock with the version id, found none",
            hint="run `repotrial contract lock`",
        )
        return
    found = _assemble(loaded, lock.repository)
    yield from _iter_identity(lock, found)
    yield from _iter_pin_mismatch(loaded.contract, lock.repository)
    yield from _iter_files(lock, found)
    yield from _iter_version(lock, found)


def _iter_identity(lock: ContractLock, found: ContractLock) -> Iterator[Problem]:
    for field in ("id", "statement_digest", "scoring_digest", "reference_digest", "replay"):
        if getattr(lock, field) != getattr(found, field):
            yield _stale(field, getattr(lock, field), getattr(found, field))


def _iter_pin_mismatch(contract: Contract, pin: RepositoryPin) -> Iterator[Problem]:
    mismatch = _find_pin_mismatch(contract, pin)
    if mismatch is not None:
        yield Problem(
            code="lock-stale",
            severity="error",
            file=LOCK_FILE,
            field="repository",
            message=f"the lock is of another snapshot: {mismatch}",
            hint=_RELOCK,
        )


def _iter_files(lock: ContractLock, found: ContractLock) -> Iterator[Problem]:
    locked, present = ({pin.path: pin for pin in files} for files in (lock.files, found.files))
    for path in sorted(locked.keys() | present.keys()):
        before, after = locked.get(path), present.get(path)
        if before != after:
            yield _stale(f"files[{path}]", _pin_words(before), _pin_words(after))
    if locked == present and lock.files != found.files:
        yield _stale("files", "each file once, sorted by path,", "another order, or one file twice")


def _iter_version(lock: ContractLock, found: ContractLock) -> Iterator[Problem]:
    if found.version_id != lock.version_id:
        locked = msgspec.structs.asdict(lock.parts)
        parts = msgspec.structs.asdict(found.parts)
        changed = [name for name, digest in parts.items() if digest != locked[name]]
        what = ", ".join(changed) if changed else "only the version id itself"
        yield _stale("version_id", lock.version_id, f"{found.version_id} (changed: {what})")
    elif found.parts != lock.parts:
        yield _stale("parts", "digests that make up the version id", "others")


def _find_pin_mismatch(contract: Contract, pin: RepositoryPin) -> str | None:
    match contract.repository:
        case GitRepository(commit=commit) if commit != pin.commit:
            return f"repository.commit: expected {commit}, found {pin.commit}"
        case ArchiveRepository(digest=str() as digest) if digest != pin.archive_digest:
            return f"repository.digest: expected {digest}, found {pin.archive_digest}"
        case GitRepository(submodules=declared):
            pinned = {module.path: module.commit for module in pin.submodules}
            other = next((module for module in declared if pinned.get(module.path) != module.commit), None)
            if other is None:
                return None
            found = pinned.get(other.path, "no such submodule")
            return f"repository.submodules: expected {quote(other.path)} at {other.commit}, found {found}"
        case ArchiveRepository() | DirectoryRepository():
            return None


def _pin_words(pin: FilePin | None) -> str | None:
    return None if pin is None else pin.digest + (" (executable)" if pin.is_executable else "")


def _stale(field: str, locked: str | None, found: str | None) -> Problem:
    return Problem(
        code="lock-stale",
        severity="error",
        file=LOCK_FILE,
        field=field,
        message=f"expected {locked or 'nothing'} as locked, found {found or 'nothing'}",
        hint=_RELOCK,
    )
