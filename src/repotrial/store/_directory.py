"""`file:` a directory that machines share. Hard links create, renames replace: both hold over NFS."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from repotrial._core.digest import Digest
from repotrial._core.files import describe_refusal, write_atomic
from repotrial.store._store import (
    MAX_SMALL_BYTES,
    STORE_DIGEST,
    STORE_MISSING,
    STORE_REFUSED,
    STORE_UNREACHABLE,
    Store,
    StoredObject,
)

_PIECE: Final = 1024**2


class DirectoryStore(Store):
    """Objects as files below a directory."""

    clock_us = 20_000  # a kernel's tick, twice

    def __init__(self, root: Path) -> None:
        super().__init__(f"file:{root}")
        self._root = root

    def create(self, key: str, data: bytes) -> bool:
        path = self._place(key)
        with self._explaining(key):
            try:
                write_atomic(path, data, may_replace=False)
            except FileExistsError:
                return path.read_bytes() == data
            return True

    def replace(self, key: str, data: bytes) -> None:
        with self._explaining(key):
            write_atomic(self._place(key), data, is_durable=False)

    def update(self, key: str, data: bytes, *, tag: str) -> bool | None:
        del key, data, tag
        return None  # no file system replaces a file on condition

    def read(self, key: str) -> bytes:
        with self._explaining(key), self._place(key).open("rb") as file:
            return file.read(MAX_SMALL_BYTES)

    def find(self, key: str) -> StoredObject | None:
        path = self._place(key)
        with self._explaining(key):
            try:
                return _describe(key, path.stat())
            except (FileNotFoundError, NotADirectoryError):
                return None

    def find_tag(self, key: str) -> str | None:
        del key
        return None

    def iter_objects(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        top = self._place(prefix)
        with self._explaining(prefix):
            yield from self._walk(top, prefix, after)

    def _walk(self, directory: Path, prefix: str, after: str) -> Iterator[StoredObject]:
        try:
            with os.scandir(directory) as entries:
                found = [entry for entry in entries if not entry.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return
        # As a bucket orders keys: a directory's name is followed by a slash.
        found.sort(key=lambda entry: f"{entry.name}/" if entry.is_dir() else entry.name)
        for entry in found:
            key = f"{prefix}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if f"{key}/\uffff" > after:
                    yield from self._walk(Path(entry.path), key, after)
            elif key > after:
                try:
                    yield _describe(key, entry.stat(follow_symlinks=False))
                except FileNotFoundError:
                    continue  # replaced at this moment: the next look sees it

    def upload(self, key: str, path: Path) -> Digest:
        place = self._place(key)
        aside = place.parent / f".{place.name}.{os.urandom(8).hex()}"
        with self._explaining(key):
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                with path.open("rb") as source, aside.open("xb") as target:
                    digest = _copy(source, target.write)
                    target.flush()
                    os.fsync(target.fileno())
                with aside.open("rb") as written:
                    found = _copy(written, len)
                if found != digest:
                    raise STORE_DIGEST.error(f"{self.url}/{key}: expected {digest}, found {found}")
                aside.replace(place)
            finally:
                aside.unlink(missing_ok=True)
        return digest

    def download(self, key: str, path: Path) -> Digest:
        with self._explaining(key), self._place(key).open("rb") as source, path.open("xb") as target:
            return _copy(source, target.write)

    def _place(self, key: str) -> Path:
        return self._root / self._count(key)

    @contextmanager
    def _explaining(self, key: str) -> Iterator[None]:
        where = f"{self.url}/{key}"
        try:
            yield
        except FileNotFoundError as error:
            raise STORE_MISSING.error(f"{where}: expected an object, found none") from error
        except PermissionError as error:
            raise STORE_REFUSED.error(
                f"{where}: expected access, found: {describe_refusal(error)}",
                hint="look at the owner and the mode of the directory",
            ) from error
        except OSError as error:
            raise STORE_UNREACHABLE.error(
                f"{where}: expected an answer, found: {describe_refusal(error)}"
            ) from error


def _copy(source: IO[bytes], write: Callable[[bytes], object]) -> Digest:
    found = hashlib.sha256()
    while piece := source.read(_PIECE):
        found.update(piece)
        write(piece)
    return f"sha256:{found.hexdigest()}"


def _describe(key: str, status: os.stat_result) -> StoredObject:
    return StoredObject(key=key, size_bytes=status.st_size, modified_us=status.st_mtime_ns // 1000)
