"""`contract lock`: resolve the repository, pin everything, write the lock; or look whether it still holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from repotrial._core.errors import ContractError, ErrorCode, MachineError
from repotrial._core.files import write_atomic
from repotrial.contract import (
    CONTRACT_FILE,
    CONTRACT_INVALID,
    LOCK_FILE,
    ContractLock,
    LoadedContract,
    Problem,
    RepositoryPin,
    build_lock,
    check_lock,
    load_contract,
)
from repotrial.source import resolve_snapshot

LOCK_UNWRITABLE = ErrorCode(
    "lock-unwritable",
    MachineError,
    "The lock file cannot be written beside the contract.",
    hint="check the permissions and the free space of the contract directory",
)


class LockChange(msgspec.Struct, frozen=True, kw_only=True):
    """One value of the lock that is not what it was."""

    field: str
    """Dotted path in the lock; files by their path."""
    old: str | None
    """None if the lock did not have it."""
    new: str | None
    """None if the lock no longer has it."""

    def __str__(self) -> str:
        match self.old, self.new:
            case None, new:
                return f"{self.field}: added ({new})"
            case old, None:
                return f"{self.field}: removed ({old})"
            case old, new:
                return f"{self.field}: {old} -> {new}"


class LockResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `contract lock` did."""

    path: str
    """The lock file."""
    lock: ContractLock
    is_written: bool
    """False if the file held these very bytes already."""
    old_version_id: str | None
    """None if there was no lock."""
    changes: tuple[LockChange, ...]
    """Empty for the first lock: all of it is new then."""


def lock_contract(directory: Path, verify: Callable[[LoadedContract], None] | None = None) -> LockResult:
    """Pin the repository and every file that counts; write `contract.lock.json`, and nothing else.

    Args:
        directory: The contract.
        verify: Raises if what was loaded is not to be locked.

    Raises:
        CONTRACT_INVALID: the directory does not load; all problems are in it.
        ContractError: the repository cannot be resolved.
        LOCK_UNWRITABLE: the file system refuses.
    """
    loaded = _load_for_locking(directory)
    if verify is not None:
        verify(loaded)
    lock = build_lock(loaded, _resolve(loaded))
    path = directory / LOCK_FILE
    data = lock.to_bytes()
    is_written = _read(path) != data
    if is_written:
        try:
            write_atomic(path, data)
        except OSError as error:
            raise LOCK_UNWRITABLE.error(f"expected to write {path}, found: {error}") from error
    return LockResult(
        path=str(path),
        lock=lock,
        is_written=is_written,
        old_version_id=None if loaded.lock is None else loaded.lock.version_id,
        changes=() if loaded.lock is None else tuple(_iter_changes(_flatten(loaded.lock), _flatten(lock))),
    )


def _load_for_locking(directory: Path) -> LoadedContract:
    """A lock that is damaged, or in conflict after a merge, is no reason not to write a new one."""
    try:
        return load_contract(directory)
    except ContractError as error:
        # A lock of another major is the work of another release, which knows more than this one.
        if error.code != CONTRACT_INVALID or any(
            problem.file != LOCK_FILE or problem.code == "schema-unknown" for problem in error.details
        ):
            raise
        return load_contract(directory, lock_ignored=True)


def verify_lock(loaded: LoadedContract) -> list[Problem]:
    """Recompute every pin, the repository's too, and hold the lock against them; nothing is written.

    Returns:
        What does not hold; empty if the lock is what `lock_contract` would write.

    Raises:
        MachineError: this machine cannot resolve the repository.
    """
    problems = check_lock(loaded)
    if loaded.lock is None:
        return problems
    try:
        pin = _resolve(loaded)
    except ContractError as error:
        return [*problems, _build_repository_problem(loaded, error)]
    changes = list(_iter_changes(_flatten_pin(loaded.lock.repository), _flatten_pin(pin)))
    if not changes and loaded.lock.repository != pin:
        # A source for a submodule, or one twice: a fetch by the lock would go elsewhere.
        changes = [LockChange(field="repository.submodules", old="other entries", new="those of the commit")]
    return [*problems, *(_build_stale_problem(change) for change in changes)]


def _resolve(loaded: LoadedContract) -> RepositoryPin:
    return resolve_snapshot(loaded.contract.repository, base=loaded.directory).pin


def _iter_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[LockChange]:
    for field in sorted(before.keys() | after.keys()):
        if before.get(field) != after.get(field):
            yield LockChange(field=field, old=before.get(field), new=after.get(field))


def _flatten(lock: ContractLock) -> dict[str, str]:
    fields = {
        "schema": lock.schema,
        "id": lock.id,
        "version_id": lock.version_id,
        "statement_digest": lock.statement_digest,
        "scoring_digest": lock.scoring_digest,
        "reference_digest": lock.reference_digest,
        "replay": lock.replay,
        **{f"parts.{name}": digest for name, digest in msgspec.structs.asdict(lock.parts).items()},
        **_flatten_pin(lock.repository),
        **{
            f"files[{file.path}]": file.digest + (" (executable)" if file.is_executable else "")
            for file in lock.files
        },
    }
    return {field: value for field, value in fields.items() if value is not None}


def _flatten_pin(pin: RepositoryPin) -> dict[str, str]:
    fields = {
        "repository.tree_digest": pin.tree_digest,
        "repository.commit": pin.commit,
        "repository.archive_digest": pin.archive_digest,
        **{f"repository.submodules[{module.path}]": module.commit for module in pin.submodules},
    }
    return {field: value for field, value in fields.items() if value is not None}


def _build_stale_problem(change: LockChange) -> Problem:
    return Problem(
        code="lock-stale",
        severity="error",
        file=LOCK_FILE,
        field=change.field,
        message=f"expected {change.old or 'nothing'} as locked, found {change.new or 'nothing'}",
        hint="restore the repository, or run `repotrial contract lock` if the change is intended",
    )


def _build_repository_problem(loaded: LoadedContract, error: ContractError) -> Problem:
    return Problem(
        code=error.code,
        severity="error",
        file=CONTRACT_FILE,
        line=loaded.locate("repository"),
        field="repository",
        message=error.message,
        hint=error.hint,
    )


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
