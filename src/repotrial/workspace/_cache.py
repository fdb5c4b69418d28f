"""The cache of bases: made once, even if many ask at once; removed only when not in use.

    <root>/CACHEDIR.TAG        the label: without it nothing here is ours, and nothing is touched
    <root>/entries/<key>/      a base; its directory is locked, shared, by each user
    <root>/products/<key>      digest of what Setup with network last made; stays when the base goes
    <root>/making/<key>.lock   exclusive while a base is made
    <root>/making/<key>.<n>/   a base in the making, or being removed; locked by the process at work

An entry appears by one rename after everything in it is on the disk, and goes by one rename before anything
in it is removed. Locks belong to open files: the kernel releases them when a process dies, however it dies,
so what is unlocked below `making` was left by a dead process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, MachineError, UsageError
from repotrial._core.files import sync_directory, sync_file_system, write_atomic
from repotrial._core.remove_tree import remove_tree
from repotrial.isolation import Account
from repotrial.source import DEFAULT_OPTIONS, SourceOptions
from repotrial.workspace._base import (
    BASE_TAMPERED,
    UNBOUNDED,
    Base,
    BaseLabel,
    BaseRequest,
    Setup,
    build_fingerprint,
)
from repotrial.workspace._prepare import make_entry
from repotrial.workspace._setup_record import load_setup_record

_TAG = "CACHEDIR.TAG"
# The first line is the one that backup programs look for.
_LABEL = b"Signature: 8a477f597d28d172789f06886806bc55\n# RepoTrial: prepared bases, format 1\n"
_KEY = re.compile(r"[0-9a-f]{64}")
_LOCK = re.compile(r"[0-9a-f]{64}\.lock")
_WORK = re.compile(r"[0-9a-f]{64}\.[A-Za-z0-9_]+")
_PRIVATE = 0o700
_PASSABLE = 0o711


CACHE_FOREIGN = ErrorCode(
    "cache-foreign",
    UsageError,
    "The directory named as the cache holds other things, so nothing in it may be changed or removed.",
    hint="name an empty directory, or one that RepoTrial made",
)
CACHE_UNUSABLE = ErrorCode(
    "cache-unusable",
    MachineError,
    "The cache of prepared bases cannot be read or written, or the disk is full.",
    hint="name a directory of your own with enough room, or run `repotrial cache prune`",
)


class CacheEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A base as `cache list` shows it."""

    label: BaseLabel
    used_at_us: int
    """When it was last asked for."""
    is_in_use: bool
    recordings: Path | None = None
    """Where answers to steps of Setup are kept; None if none were recorded."""


class BaseCache:
    """One cache directory; any number of processes may share it.

    Args:
        root: The directory; made if it does not exist.
        owner: The account that sandboxes run as, where the harness is root.
        options: Limits for resolving repositories.

    Raises:
        CACHE_FOREIGN: the directory is in use for something else.
        CACHE_UNUSABLE: the machine does not let us.
    """

    def __init__(
        self, root: Path, *, owner: Account | None = None, options: SourceOptions = DEFAULT_OPTIONS
    ) -> None:
        self.root = root
        # To be told one's own account is to be told nothing: no files change hands.
        self._owner = None if owner is None or owner.uid == os.geteuid() else owner
        self._options = options
        self._entries = root / "entries"
        self._making = root / "making"
        self._products = root / "products"
        with _reported(root):
            self._open()
            self._sweep()

    def prepare_base(self, request: BaseRequest, *, setup: Setup | None = None) -> Base:
        """Find a base or make it; the caller closes it after use.

        Raises:
            BASE_MISMATCH: the repository is not the locked one.
            BASE_NOT_SEALED: the tree would show other history.
            BASE_TAMPERED: the base in the cache was changed.
        """
        key = request.build_key(setup_digest=None if setup is None else setup.digest, owner=self._owner)
        with _reported(self.root):
            while (base := self._acquire(key)) is None:
                with self._making_alone(key):
                    if not self._entry(key).exists():
                        self._make(key, request, setup)
            return base

    def list_entries(self) -> list[CacheEntry]:
        """What is in the cache, the longest unused first."""
        with _reported(self.root):
            found = [self._describe(path) for path in self._iter_entries()]
        return sorted((entry for entry in found if entry is not None), key=lambda entry: entry.used_at_us)

    def prune(self, *, unused_seconds: int = 0, max_bytes: int | None = None) -> list[CacheEntry]:
        """Remove bases that are not in use, the longest unused first.

        Args:
            unused_seconds: Leave alone what was used within this time.
            max_bytes: Stop as soon as what is left takes no more room; None: go on to the end.

        Returns:
            What was removed.
        """
        removed = []
        entries = self.list_entries()
        left_bytes = sum(entry.label.size_bytes for entry in entries)
        oldest_us = time.time_ns() // 1000 - unused_seconds * 1_000_000
        with _reported(self.root):
            self._sweep()
            for entry in entries:
                if max_bytes is not None and left_bytes <= max_bytes:
                    break
                if entry.used_at_us <= oldest_us and self._remove(self._entry(entry.label.key)):
                    removed.append(entry)
                    left_bytes -= entry.label.size_bytes
        return removed

    # -- the directory ---------------------------------------------------------------------------------------

    def _open(self) -> None:
        # Another account has to come through, but has no business listing what is here.
        mode = _PRIVATE if self._owner is None else _PASSABLE
        self.root.mkdir(parents=True, exist_ok=True)
        tag = self.root / _TAG
        if not tag.is_file():
            # Another process may be at the same point: its directories are no foreign ones.
            if {path.name for path in self.root.iterdir()} - {_TAG, "entries", "making", "products"}:
                raise CACHE_FOREIGN.error(f"{self.root}: expected an empty directory, found other files")
            tag.write_bytes(_LABEL)
        elif tag.read_bytes() not in {_LABEL, b""}:
            raise CACHE_FOREIGN.error(
                f"{self.root}: expected a cache of ours, found the {_TAG} of another one"
            )
        for directory in (self.root, self._entries):
            directory.mkdir(exist_ok=True)
            directory.chmod(mode)
        self._making.mkdir(_PRIVATE, exist_ok=True)

    def _entry(self, key: Digest) -> Path:
        return self._entries / key.removeprefix("sha256:")

    def _iter_entries(self) -> Iterator[Path]:
        return (path for path in sorted(self._entries.iterdir()) if _KEY.fullmatch(path.name))

    def _sweep(self) -> None:
        """Remove what dead processes left; only names that we give, only where the lock is free."""
        for path in sorted(self._making.iterdir()):
            if _LOCK.fullmatch(path.name):
                _remove_stale_lock(path)
            elif _WORK.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                handle = _lock(path, fcntl.LOCK_EX)
                if handle is not None:
                    remove_tree(path)
                    os.close(handle)

    # -- use -------------------------------------------------------------------------------------------------

    def _acquire(self, key: Digest) -> Base | None:
        entry = self._entry(key)
        handle = _lock(entry, fcntl.LOCK_SH, is_patient=True)
        if handle is None:
            return None
        try:
            label = _load_label(entry, key)
            base = Base(entry, label, owner=self._owner, lock=handle)
            if (entry / "fingerprint").read_text() != build_fingerprint(base.path, limits=UNBOUNDED):
                # Touched, moved or restored from a backup: then the content decides.
                base.verify()
            os.utime(entry / "used")
        except BaseException:
            os.close(handle)
            raise
        return base

    def _describe(self, entry: Path) -> CacheEntry | None:
        try:
            label = _load_label(entry, f"sha256:{entry.name}")
            used_at_us = (entry / "used").stat().st_mtime_ns // 1000
        except FileNotFoundError:  # removed at this moment
            return None
        handle = _lock(entry, fcntl.LOCK_EX)
        if handle is not None:
            os.close(handle)
        recordings = entry / "recordings"
        return CacheEntry(
            label=label,
            used_at_us=used_at_us,
            is_in_use=handle is None,
            recordings=recordings if recordings.is_dir() else None,
        )

    def _remove(self, entry: Path) -> bool:
        handle = _lock(entry, fcntl.LOCK_EX)
        if handle is None:
            return False
        try:
            # The lock goes with the directory; a process that waits for it sees that it is no entry any more.
            # A name that nothing has: an empty directory there would be unlocked, and could be swept.
            doomed = self._making / f"{entry.name}.{secrets.token_hex(8)}"
            entry.rename(doomed)
            remove_tree(doomed)
        finally:
            os.close(handle)
        return True

    # -- making ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _making_alone(self, key: Digest) -> Iterator[None]:
        path = self._making / f"{key.removeprefix('sha256:')}.lock"
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_at(handle, path):
                break
            os.close(handle)  # its last holder removed it
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(handle)

    def _make(self, key: Digest, request: BaseRequest, setup: Setup | None) -> None:
        aside = Path(tempfile.mkdtemp(dir=self._making, prefix=f"{key.removeprefix('sha256:')}."))
        handle = _lock(aside, fcntl.LOCK_EX)
        if handle is None:  # swept before it was locked: make it again
            return
        try:
            aside.chmod(0o755)
            memory = self._products / key.removeprefix("sha256:")
            make_entry(
                aside,
                request,
                setup=setup,
                owner=self._owner,
                options=self._options,
                previous_product=memory.read_text().strip() if memory.is_file() else None,
            )
            sync_file_system(aside)
            record = load_setup_record(aside / "network")
            aside.rename(self._entry(key))
            sync_directory(self._entries)
            if record is not None:
                write_atomic(memory, f"{record.product_digest}\n".encode())
        except BaseException:
            remove_tree(aside)
            raise
        finally:
            os.close(handle)


@contextlib.contextmanager
def _reported(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CACHE_UNUSABLE.error(f"{root}: expected a cache directory, found: {error}") from error


def _lock(directory: Path, operation: int, *, is_patient: bool = False) -> int | None:
    """A locked directory; None if it is not there, or if the lock is taken and we do not wait."""
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, operation if is_patient else operation | fcntl.LOCK_NB)
        if _is_at(handle, directory):
            return handle
    except BlockingIOError:
        pass
    os.close(handle)
    return None


def _remove_stale_lock(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(handle, path):
            path.unlink()
    except BlockingIOError:  # someone is making that base
        pass
    finally:
        os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file still has its name: it may have been moved while we waited for its lock."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _load_label(entry: Path, key: Digest) -> BaseLabel:
    try:
        label = msgspec.json.decode((entry / "label").read_bytes(), type=BaseLabel)
    except msgspec.MsgspecError as error:
        raise BASE_TAMPERED.error(f"{entry}: expected a label of ours, found: {error}") from error
    if label.key != key:
        raise BASE_TAMPERED.error(f"{entry}: expected the label of {key}, found that of {label.key}")
    return label
