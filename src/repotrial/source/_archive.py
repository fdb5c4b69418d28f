"""Archives: tar (plain, gzip, bzip2, xz) and zip, read once, each member judged before its content is read.

Nothing is extracted by the libraries. Members are turned into plain files and links; whatever git could not
hold either (devices, pipes, hard links, set-uid bits, sparse files) is refused, not adapted.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
from collections.abc import Callable, Generator, Iterator
from typing import IO

from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.tar import BLOCK_BYTES, LIBRARY_ERRORS, ForwardStream, Readable, StreamLimitError
from repotrial.source._directory import UNSUPPORTED_ENTRY
from repotrial.source._tree import TREE_LIMIT, UNSAFE_PATH, FileMode, Member, SnapshotLimits, render_path

_CHUNK_BYTES = 1 << 20
_XZ_MEMORY_BYTES = 256 << 20
_CENTRAL_DIRECTORY_BYTES = 64 << 20
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX


ARCHIVE_UNREADABLE = ErrorCode(
    "archive-unreadable",
    ContractError,
    "An archive is damaged, cut short, encrypted, or of a kind that is not supported.",
    hint="supported are .tar, .tar.gz, .tar.bz2, .tar.xz (also .tgz, .tbz2, .txz) and .zip",
)


_ARCHIVE_ERRORS = (*LIBRARY_ERRORS, zipfile.BadZipFile, NotImplementedError, RuntimeError)


def iter_archive(
    stream: IO[bytes], *, name: str, strip_components: int, limits: SnapshotLimits
) -> Generator[Member]:
    """Every file and link of an archive.

    Args:
        stream: The archive, at its beginning.
        name: Its file name; the ending says what it is.
        strip_components: Leading components to drop from each path.
        limits: What it may unpack to.

    Raises:
        ARCHIVE_UNREADABLE: it is not a whole archive of a supported kind.
        UNSAFE_PATH: a member's name is absolute or leads out of the tree.
        UNSUPPORTED_ENTRY: a member is not a plain file, directory or symbolic link.
        TREE_LIMIT: it is larger than the limits.
    """
    reader = next((read for suffix, read in _READERS.items() if name.lower().endswith(suffix)), None)
    if reader is None:
        raise ARCHIVE_UNREADABLE.error(
            f"expected one of {', '.join(ARCHIVE_SUFFIXES)}, found the name {name!r}"
        )
    with _readable(name):
        for path, mode, chunks in reader(stream, limits):
            stripped = _strip(path, strip_components, is_directory=mode is None)
            if stripped is None or mode is None:
                continue
            yield Member(path=stripped, mode=mode, chunks=_guard(chunks, name))


_Listing = Iterator[tuple[bytes, FileMode | None, Iterator[bytes]]]
"""Path, mode (None for a directory) and content of each member."""


@contextlib.contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except StreamLimitError as error:
        raise TREE_LIMIT.error(f"expected an archive within the limits in {name}, found {error}") from error
    except _ARCHIVE_ERRORS as error:
        raise ARCHIVE_UNREADABLE.error(
            f"expected a whole archive in {name}, found: {type(error).__name__}: {error}"
        ) from error


def _guard(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    with _readable(name):
        yield from chunks


def _strip(path: bytes, count: int, *, is_directory: bool) -> bytes | None:
    """Normalize `./a//b/` as unpackers do, and drop the leading components; None if nothing is left."""
    if path.startswith(b"/"):
        raise UNSAFE_PATH.error(f"expected relative names in the archive, found {render_path(path)}")
    components = [component for component in path.split(b"/") if component not in {b"", b"."}]
    if b".." in components:
        raise UNSAFE_PATH.error(f"expected names inside the tree, found {render_path(path)}")
    if not is_directory and len(components) <= count:
        raise ARCHIVE_UNREADABLE.error(
            f"expected more than {count} components in each name, found {render_path(path)}",
            hint="lower `strip_components`",
        )
    return b"/".join(components[count:]) or None


# -- tar -------------------------------------------------------------------------------------------------


class _XzStream(io.RawIOBase):
    """An xz reader with a memory limit, which the standard library's file object lacks."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream = stream
        self._decompressor = self._start()

    def read(self, size: int = -1, /) -> bytes:
        while True:
            if self._decompressor.eof:
                rest = self._decompressor.unused_data.lstrip(b"\0") or self._stream.read(_CHUNK_BYTES).lstrip(
                    b"\0"
                )
                if not rest:
                    return b""
                self._decompressor = self._start()
            elif self._decompressor.needs_input:
                rest = self._stream.read(_CHUNK_BYTES)
                if not rest:
                    raise EOFError("the compressed data ends too early")
            else:
                rest = b""
            if data := self._decompressor.decompress(rest, size):
                return data

    def _start(self) -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)


def _iter_tar(stream: Readable, limits: SnapshotLimits) -> _Listing:
    # Headers and padding come on top of the contents.
    forward = ForwardStream(stream, max_bytes=limits.total_bytes + 4 * BLOCK_BYTES * limits.entries)
    with tarfile.open(fileobj=forward, mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
        for count, info in enumerate(archive):
            if count >= limits.entries:
                raise TREE_LIMIT.error(f"expected at most {limits.entries} members, found more")
            path = info.name.encode("utf-8", "surrogateescape")
            yield path, *_judge_tar_member(archive, info, path)
    # The library takes a damaged header for the end; the end is two blocks of zeros.
    if not forward.ended_with_mark:
        raise ARCHIVE_UNREADABLE.error(
            "expected the archive's end mark, found that it is cut short or damaged"
        )
    # To the very end, where compressed formats keep their checksum.
    while forward.read(_CHUNK_BYTES):
        pass


def _judge_tar_member(
    archive: tarfile.TarFile, info: tarfile.TarInfo, path: bytes
) -> tuple[FileMode | None, Iterator[bytes]]:
    if info.isdir():
        return None, iter(())
    if info.issym():
        return FileMode.SYMLINK, iter([info.linkname.encode("utf-8", "surrogateescape")])
    if not info.isreg() or info.issparse():
        raise UNSUPPORTED_ENTRY.error(
            f"expected a file, directory or symbolic link, found type {info.type!r} at {render_path(path)}"
        )
    content = archive.extractfile(info)
    assert content is not None
    return _judge_mode(info.mode, path), _iter_content(content, info.size)


def _judge_mode(mode: int, path: bytes) -> FileMode:
    if mode & _SPECIAL_BITS:
        raise UNSUPPORTED_ENTRY.error(
            f"expected plain permissions, found {mode & 0o7777:o} at {render_path(path)}"
        )
    return FileMode.EXECUTABLE if mode & stat.S_IXUSR else FileMode.REGULAR


def _iter_content(content: IO[bytes], size: int) -> Iterator[bytes]:
    left = size
    while left > 0:
        chunk = content.read(min(left, _CHUNK_BYTES))
        if not chunk:
            raise EOFError("a member ends too early")
        left -= len(chunk)
        yield chunk


def _iter_gzip(stream: IO[bytes], limits: SnapshotLimits) -> _Listing:
    with gzip.GzipFile(fileobj=stream, mode="rb") as plain:
        yield from _iter_tar(plain, limits)


def _iter_bzip2(stream: IO[bytes], limits: SnapshotLimits) -> _Listing:
    with bz2.BZ2File(stream, mode="rb") as plain:
        yield from _iter_tar(plain, limits)


def _iter_xz(stream: IO[bytes], limits: SnapshotLimits) -> _Listing:
    with _XzStream(stream) as plain:
        yield from _iter_tar(plain, limits)


# -- zip -------------------------------------------------------------------------------------------------


class _ModestStream(io.RawIOBase):
    """What zipfile sees of an archive: pieces of a bounded size.

    The library reads the whole list of members at once, as long as the archive says that it is.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream = stream
        self._size = stream.seek(0, io.SEEK_END)

    def read(self, size: int = -1, /) -> bytes:
        left = max(0, self._size - self._stream.tell())
        wanted = left if size < 0 else min(size, left)
        if wanted > _CENTRAL_DIRECTORY_BYTES:
            raise TREE_LIMIT.error(
                f"expected a list of members of at most {_CENTRAL_DIRECTORY_BYTES} bytes, found {wanted}"
            )
        return self._stream.read(wanted)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


def _iter_zip(stream: IO[bytes], limits: SnapshotLimits) -> _Listing:
    with zipfile.ZipFile(_ModestStream(stream)) as archive:
        members = archive.infolist()
        if len(members) > limits.entries:
            raise TREE_LIMIT.error(f"expected at most {limits.entries} members, found {len(members)}")
        for info in members:
            path = _read_zip_name(info)
            yield path, *_judge_zip_member(archive, info, path)


def _read_zip_name(info: zipfile.ZipInfo) -> bytes:
    # Without the flag the library reads names as cp437, byte for byte; with it, as UTF-8.
    path = info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437")
    if b"\\" in path or b"\0" in path:
        raise UNSAFE_PATH.error(
            f"expected names with '/', found a backslash or NUL byte in {render_path(path)}"
        )
    return path


def _judge_zip_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: bytes
) -> tuple[FileMode | None, Iterator[bytes]]:
    mode = info.external_attr >> 16
    if path.endswith(b"/") or stat.S_ISDIR(mode):
        return None, iter(())
    if info.flag_bits & 0x1:
        raise ARCHIVE_UNREADABLE.error(
            f"expected a plain archive, found an encrypted member {render_path(path)}"
        )
    content = _iter_zip_content(archive, info)
    if stat.S_ISLNK(mode):
        return FileMode.SYMLINK, content
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG}:
        raise UNSUPPORTED_ENTRY.error(f"expected a file or link, found mode {mode:o} at {render_path(path)}")
    return _judge_mode(mode, path), content


def _iter_zip_content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as content:
        yield from _iter_content(content, info.file_size)
        # One read past the end makes the library compare the checksum.
        content.read(1)


_READERS: dict[str, Callable[[IO[bytes], SnapshotLimits], _Listing]] = {
    ".tar": _iter_tar,
    ".tar.gz": _iter_gzip,
    ".tgz": _iter_gzip,
    ".tar.bz2": _iter_bzip2,
    ".tbz2": _iter_bzip2,
    ".tar.xz": _iter_xz,
    ".txz": _iter_xz,
    ".zip": _iter_zip,
}

ARCHIVE_SUFFIXES = tuple(_READERS)
