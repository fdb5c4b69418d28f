"""What the tar reader sees of untrusted bytes: in order, in small pieces, up to a limit.

Going forward only, no header can send the reader in circles; small pieces only, none can claim memory.
"""

from __future__ import annotations

import io
import lzma
import struct
import tarfile
import zlib
from collections.abc import Iterator
from typing import IO, Protocol

_PIECE_BYTES = 4 << 20
"""The most that the library may ask for at once: headers are small, contents are read in chunks."""
_SKIP_BYTES = 1 << 20
BLOCK_BYTES = 512


class StreamLimitError(ValueError):
    """More bytes than allowed; the opener of the stream turns it into an error with a code."""


# All that the standard library's readers are known to raise over bytes that are not an archive.
LIBRARY_ERRORS = (
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    IndexError,
    KeyError,
    RecursionError,
)


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class ForwardStream(io.RawIOBase):
    """A file for `tarfile` that only goes forward."""

    def __init__(self, stream: Readable, *, max_bytes: int) -> None:
        super().__init__()
        self._stream = stream
        self._max_bytes = max_bytes
        self._position = 0
        self._last_block = b""

    @property
    def ended_with_mark(self) -> bool:
        """Whether the last block read was empty, as at the end of every whole tar archive."""
        return self._last_block == bytes(BLOCK_BYTES)

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= _PIECE_BYTES:
            raise StreamLimitError(f"a header asks for {size} bytes at once")
        parts = []
        while size > 0 and (part := self._stream.read(size)):
            parts.append(part)
            size -= len(part)
        data = b"".join(parts)
        self._position += len(data)
        if self._position > self._max_bytes:
            raise StreamLimitError(f"more than {self._max_bytes} bytes")
        if len(data) == BLOCK_BYTES:
            self._last_block = data
        return data

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence != io.SEEK_SET or offset < self._position:
            raise tarfile.ReadError("a header that points backwards")
        while self._position < offset:
            if not self.read(min(_SKIP_BYTES, offset - self._position)):
                raise tarfile.ReadError("unexpected end of data")
        return self._position

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


def iter_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Members one by one, in constant memory: the library itself would keep every one that it saw."""
    while (info := archive.next()) is not None:
        archive.members = []  # type: ignore[attr-defined]  # there, but not in its stubs
        yield info


class ForwardFile(ForwardStream):
    """The same for a file, where skipping needs no reading."""

    def __init__(self, file: IO[bytes], *, size_bytes: int) -> None:
        super().__init__(file, max_bytes=size_bytes)
        self._file = file

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence != io.SEEK_SET or not self._position <= offset <= self._max_bytes:
            raise tarfile.ReadError("a header that points backwards, or beyond the end")
        self._position = self._file.seek(offset)
        return self._position
