"""The store of environments: images and package trees, made once, found by what they were made from.

    <store>/<kind>/sha256-<key>/<content>   the tree, as sandboxes see it
    <store>/<kind>/sha256-<key>/record.json what it is: digest of the tree, how it was made
    <store>/<kind>/sha256-<key>/executions  the programs that made it, for runs that use it
    <store>/<kind>/sha256-<key>/fingerprint what `lstat` said when the digest was last found right
    <store>/<kind>/<key>.lock               exclusive while it is made or removed, shared while it is used
    <store>/<kind>/.making-<key>-*          work in progress, or what a killed process left of it

An entry appears by one rename, after everything in it has reached the disk. Locks belong to open files, so
the kernel lets go of them whatever happens to the holder; the first to get the lock of a key removes what
others left behind. A use verifies the tree: by fingerprint where nothing was touched, by reading where
something was. The store belongs to the harness: its user can change everything in it, the record included.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from repotrial import __version__
from repotrial._core.canonical import Count, dump_checked
from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, EvidenceError, MachineError
from repotrial._core.files import sync_directory, sync_file_system, write_atomic
from repotrial._core.remove_tree import remove_tree
from repotrial.environment._executions import (
    HostExecution,
    load_executions,
    save_executions,
    tell_execution,
    telling,
)
from repotrial.environment._tree import protect_tree, summarize_tree, take_fingerprint

_EXECUTIONS = "executions"
_RECORD = "record.json"
_FINGERPRINT = "fingerprint"
_MAKING = ".making-"
_POLL_SECONDS = 0.05
_ENTRY_NAME = re.compile(r"sha256-([0-9a-f]{64})")
_MAKING_NAME = re.compile(r"\.making-([0-9a-f]{64})-.+")


STORE_BUSY = ErrorCode(
    "store-busy",
    MachineError,
    "Another process has been making the same environment for longer than this one may wait.",
    hint="wait for the other process, or look whether it hangs",
)
STORE_UNUSABLE = ErrorCode(
    "store-unusable",
    MachineError,
    "The directory of environments cannot be read or written, or the disk is full.",
    hint="name a directory of your own with enough free space",
)
STORE_TAMPERED = ErrorCode(
    "store-tampered",
    EvidenceError,
    "An environment in the store is no longer what was put there: a file was changed, added or removed.",
    hint="remove it with `repotrial cache prune` and make it anew; find out who changed it",
)


class StoreKind(Enum):
    """What an entry is; the value is the name of its directory in the store."""

    IMAGE = "images"
    INSTALLER = "installers"
    PYTHON = "python"
    NODE = "node"
    ARTIFACT = "artifacts"
    AGENT = "agents"

    @property
    def content(self) -> str:
        """Name of the tree inside an entry."""
        return "rootfs" if self is StoreKind.IMAGE else "tree"


class StoreRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an entry is and how it came about."""

    schema: Literal["repotrial/store-entry@1"] = "repotrial/store-entry@1"
    kind: StoreKind
    key: Digest
    """Digest of everything that it was made from; for an image, of its manifest."""
    tree_digest: Digest
    size_bytes: Count
    entries: Count
    made_by: str
    made_at_us: Count
    facts: dict[str, str | tuple[str, ...]] = {}
    """What the kind has to say: digests of layers, names of machine settings, versions of builders."""


class BrokenEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the store whose record cannot be read."""

    kind: StoreKind
    key: Digest
    problem: str


class StoreEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An environment that is there, whole and verified."""

    path: Path
    """The tree."""
    record: StoreRecord
    is_new: bool
    """Whether this very call made it."""


Facts = dict[str, str | tuple[str, ...]]
Build = Callable[[Path, int], Facts]
"""Fills an empty directory; the second argument is the lock, for programs that write there."""


class _StoreUse(NamedTuple):
    """By whom an entry is wanted."""

    used_at_us: int
    is_in_use: bool


class Store:
    """One directory of environments; any number of processes may share it."""

    def __init__(self, root: Path, *, wait_seconds: int = 3600) -> None:
        self.root = root
        self._wait_seconds = wait_seconds

    def find(self, kind: StoreKind, key: Digest) -> StoreEntry | None:
        """An entry, verified; None if there is none.

        Raises:
            STORE_TAMPERED: it is there, but not as it was made.
        """
        home = self._home(kind, key)
        if home.is_dir():
            with _lock(self._lock_path(kind, key), fcntl.LOCK_SH, wait_seconds=self._wait_seconds):
                if home.is_dir():
                    return _load_told(home, kind, key)
        return None

    def make(self, kind: StoreKind, key: Digest, build: Build) -> StoreEntry:
        """Find an entry or make it; of several processes that ask at once, one makes it and the others wait.

        Raises:
            STORE_TAMPERED: it is there, but not as it was made.
            STORE_BUSY: another process makes it and takes too long.
            STORE_UNUSABLE: the store cannot be written.
        """
        if (entry := self.find(kind, key)) is not None:
            return entry
        with _lock(self._lock_path(kind, key), fcntl.LOCK_EX, wait_seconds=self._wait_seconds) as lock:
            home = self._home(kind, key)
            if home.is_dir():
                return _load_told(home, kind, key)
            _sweep(home.parent, _bare(key))
            return self._make(kind, key, build, lock=lock)

    def locate(self, kind: StoreKind, key: Digest) -> Path:
        return self._home(kind, key) / kind.content

    @contextlib.contextmanager
    def hold(self, kind: StoreKind, key: Digest) -> Iterator[None]:
        """Keep an entry from being pruned for as long as the block lasts."""
        with _lock(self._lock_path(kind, key), fcntl.LOCK_SH, wait_seconds=self._wait_seconds):
            yield

    def describe_use(self, kind: StoreKind, key: Digest) -> _StoreUse:
        """When an entry was last asked for, and whether a process holds it now."""
        path = self._lock_path(kind, key)
        used_at_us = path.stat().st_mtime_ns // 1000 if path.exists() else 0
        with _try_lock(path) as is_locked:
            return _StoreUse(used_at_us=used_at_us, is_in_use=not is_locked)

    def _make(self, kind: StoreKind, key: Digest, build: Build, *, lock: int) -> StoreEntry:
        home = self._home(kind, key)
        aside = Path(tempfile.mkdtemp(dir=home.parent, prefix=f"{_MAKING}{_bare(key)}-"))
        try:
            aside.chmod(0o755)
            tree = aside / kind.content
            tree.mkdir()
            executions: list[HostExecution] = []
            with telling(executions.append):
                facts = build(tree, lock)
            save_executions(aside / _EXECUTIONS, executions)
            record = _finish(aside, kind, key, facts)
            aside.rename(home)
        except OSError as error:
            remove_tree(aside)
            raise STORE_UNUSABLE.error(f"{self.root}: expected to add an entry, found: {error}") from error
        except BaseException:
            remove_tree(aside)
            raise
        sync_directory(home.parent)
        _write_fingerprint(home, kind)
        return StoreEntry(path=home / kind.content, record=record, is_new=True)

    def _home(self, kind: StoreKind, key: Digest) -> Path:
        return self.root / kind.value / f"sha256-{_bare(key)}"

    def _lock_path(self, kind: StoreKind, key: Digest) -> Path:
        return self.root / kind.value / f"{_bare(key)}.lock"


def list_store(store: Store, *, kinds: Iterable[StoreKind] = StoreKind) -> list[StoreRecord | BrokenEntry]:
    """What is in a store, by kind and key; read from the records, without verifying the trees."""
    found: list[StoreRecord | BrokenEntry] = []
    for kind in kinds:
        for key, home in _iter_entries(store.root / kind.value):
            try:
                found.append(_load_record(home, kind, key))
            except EvidenceError as error:  # `store-tampered`
                found.append(BrokenEntry(kind=kind, key=key, problem=error.message))
    return found


def prune_store(
    store: Store, *, unused_seconds: int = 0, keys: Container[Digest] | None = None
) -> list[Digest]:
    """Remove what no process holds and none used for a while, and what killed processes left behind.

    With `keys`, no other entries than these. Returns the keys of the entries that were removed.
    """
    removed = []
    oldest = time.time() - unused_seconds
    for kind in StoreKind:
        directory = store.root / kind.value
        for key, home in list(_iter_entries(directory)):
            lock_path = store._lock_path(kind, key)  # noqa: SLF001 - same module
            if (keys is None or key in keys) and _remove_unused(lock_path, home, oldest):
                removed.append(key)
        for bare in _iter_leftovers(directory):
            with _try_lock(directory / f"{bare}.lock") as is_locked:
                if is_locked:
                    _sweep(directory, bare)
    return removed


def _remove_unused(lock_path: Path, home: Path, oldest: float) -> bool:
    with _try_lock(lock_path) as is_locked:
        if not is_locked or lock_path.stat().st_mtime > oldest:
            return False
        # Renamed first: an entry is never seen half removed.
        doomed = Path(tempfile.mkdtemp(dir=home.parent, prefix=f"{_MAKING}{lock_path.stem}-"))
        home.rename(doomed / "removed")
        remove_tree(doomed)
        lock_path.unlink()
        return True


def _iter_entries(directory: Path) -> Iterator[tuple[Digest, Path]]:
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if match := _ENTRY_NAME.fullmatch(path.name):
            yield f"sha256:{match[1]}", path


def _iter_leftovers(directory: Path) -> Iterator[str]:
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if match := _MAKING_NAME.fullmatch(path.name):
            yield match[1]


def _sweep(directory: Path, bare: str) -> None:
    """Remove unfinished work on a key; to be called with its lock, so that no process is at it."""
    for path in directory.glob(f"{_MAKING}{bare}-*"):
        remove_tree(path)


def _bare(key: Digest) -> str:
    return key.removeprefix("sha256:")


def _load_told(home: Path, kind: StoreKind, key: Digest) -> StoreEntry:
    """What made an entry belongs to the record of every run that uses it."""
    for execution in load_executions(home / _EXECUTIONS) or ():
        tell_execution(execution)
    return _load_verified(home, kind, key)


# -- entries ---------------------------------------------------------------------------------------------


def _finish(aside: Path, kind: StoreKind, key: Digest, facts: Facts) -> StoreRecord:
    tree = aside / kind.content
    protect_tree(tree)
    summary = summarize_tree(tree)
    record = StoreRecord(
        kind=kind,
        key=key,
        tree_digest=summary.digest,
        size_bytes=summary.size_bytes,
        entries=summary.entries,
        made_by=f"repotrial {__version__}",
        made_at_us=SystemClock().now_us(),
        facts=facts,
    )
    write_atomic(aside / _RECORD, dump_checked(msgspec.to_builtins(record)) + b"\n")
    sync_file_system(aside)
    return record


def _write_fingerprint(home: Path, kind: StoreKind) -> None:
    with contextlib.suppress(OSError):  # only a short cut: without it, the next use reads the tree
        write_atomic(home / _FINGERPRINT, take_fingerprint(home / kind.content).encode())


def _load_verified(home: Path, kind: StoreKind, key: Digest) -> StoreEntry:
    record = _load_record(home, kind, key)
    tree = home / kind.content
    try:
        is_untouched = (home / _FINGERPRINT).read_bytes() == take_fingerprint(tree).encode()
    except OSError:
        is_untouched = False
    if not is_untouched:
        _verify_content(tree, record)
        _write_fingerprint(home, kind)
    with contextlib.suppress(OSError):  # a store that is shared read-only has no clock of its own
        os.utime(home.parent / f"{_bare(key)}.lock")
    return StoreEntry(path=tree, record=record, is_new=False)


def _verify_content(tree: Path, record: StoreRecord) -> None:
    try:
        found = summarize_tree(tree).digest
    except OSError as error:
        raise STORE_TAMPERED.error(f"{tree}: expected a tree that can be read, found: {error}") from error
    if found != record.tree_digest:
        raise STORE_TAMPERED.error(f"{tree}: expected the tree {record.tree_digest}, found {found}")


def _load_record(home: Path, kind: StoreKind, key: Digest) -> StoreRecord:
    path = home / _RECORD
    try:
        record = msgspec.json.decode(path.read_bytes(), type=StoreRecord)
    except (OSError, msgspec.MsgspecError) as error:
        raise STORE_TAMPERED.error(f"{path}: expected the record of an entry, found: {error}") from error
    if record.key != key or record.kind is not kind:
        raise STORE_TAMPERED.error(
            f"{path}: expected the record of {key} ({kind.value}), found {record.key} ({record.kind.value})"
        )
    return record


# -- locks -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _lock(path: Path, operation: int, *, wait_seconds: int) -> Iterator[int]:
    deadline = time.monotonic() + wait_seconds
    while (handle := _open_locked(path, operation)) is None:
        if time.monotonic() > deadline:
            raise STORE_BUSY.error(f"{path}: expected the lock within {wait_seconds} s, found it taken")
        time.sleep(_POLL_SECONDS)
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def _try_lock(path: Path) -> Iterator[bool]:
    handle = _open_locked(path, fcntl.LOCK_EX)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            os.close(handle)


def _open_locked(path: Path, operation: int) -> int | None:
    """An open, locked file; None if the lock is taken, or if the file was removed meanwhile."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise STORE_UNUSABLE.error(f"{path}: expected to open a lock, found: {error}") from error
    try:
        fcntl.flock(handle, operation | fcntl.LOCK_NB)
        if os.fstat(handle).st_ino == path.stat().st_ino:
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(handle)
    return None
