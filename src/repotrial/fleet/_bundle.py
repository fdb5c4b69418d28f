"""Directories as one object: packed the same way each time, unpacked without believing what is inside."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial._core.tar import LIBRARY_ERRORS, iter_members

_LEVEL: Final = 1
_MAX_BYTES: Final = 64 * 1024**3
_PIECE: Final = 1024**2

BUNDLE_INVALID = ErrorCode(
    "bundle-invalid",
    EvidenceError,
    "A packed directory in a store is not one, or would leave its place.",
    hint="do not use it: it was not written by a worker of ours, or is damaged",
)


def pack_directory(target: Path, sources: Mapping[str, Path]) -> Digest:
    """Write files and directories into one archive under the given names; the same tree, the same bytes.

    The seal is the last file of a record, so that an archive that was cut off has none.
    """
    with target.open("xb") as file:
        with (
            gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_LEVEL, mtime=0, filename="") as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name, source in sorted(sources.items()):
                for path in _walk(source):
                    inner = path.relative_to(source).as_posix()
                    _add(archive, path, name if inner == "." else f"{name}/{inner}")
        file.flush()
    with target.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _walk(source: Path) -> Iterator[Path]:
    """Everything below, in order; the seal after all else (P11)."""
    yield source
    if source.is_symlink() or not source.is_dir():
        return
    for entry in sorted(source.iterdir(), key=lambda path: (path.name == "seal.json", path.name)):
        yield from _walk(entry)


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    info = archive.gettarinfo(path, name)
    if info.islnk():  # bodies that a record has twice are one file: each comes whole
        info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
    if not (info.isreg() or info.isdir() or info.issym()):
        return  # sockets and pipes are left behind
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    if info.isreg():
        with path.open("rb") as file:
            archive.addfile(info, file)
    else:
        archive.addfile(info)


def unpack(packed: Path, target: Path) -> None:
    """Unpack into a new directory: files, directories, and links that stay inside.

    Raises:
        BUNDLE_INVALID: it is no such archive, or something in it points outside.
    """
    target.mkdir(parents=True)
    try:
        with tarfile.open(packed, "r:gz") as archive:
            left = _MAX_BYTES
            for info in iter_members(archive):
                left -= info.size
                if left < 0:
                    raise BUNDLE_INVALID.error(f"{packed.name}: expected at most {_MAX_BYTES} bytes")
                _take(archive, tarfile.data_filter(info, str(target)), target)
    except LIBRARY_ERRORS as error:
        shutil.rmtree(target, ignore_errors=True)
        raise BUNDLE_INVALID.error(f"{packed.name}: expected a packed directory, found: {error}") from error


def _take(archive: tarfile.TarFile, info: tarfile.TarInfo, target: Path) -> None:
    path = target / info.name
    if info.isdir():
        path.mkdir(parents=True, exist_ok=True)
    elif info.issym():
        path.symlink_to(info.linkname)
    elif info.isreg():
        path.parent.mkdir(parents=True, exist_ok=True)
        source = archive.extractfile(info)
        if source is None:
            raise BUNDLE_INVALID.error(f"{info.name}: expected content, found none")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            shutil.copyfileobj(source, file, _PIECE)
        path.chmod(0o755 if (info.mode or 0) & 0o100 else 0o644)
    else:
        raise BUNDLE_INVALID.error(f"{info.name}: expected a file, a directory or a link, found another kind")
