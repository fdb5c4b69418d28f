"""Where an image's blobs lie: an OCI layout in a directory or in one tar file, or an archive of Docker's."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import posixpath
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

import msgspec

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.tar import LIBRARY_ERRORS, ForwardFile, Readable, iter_members

_GIB = 1024**3


class ImageLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds for one image, all layers together."""

    layers: int = 500
    entries: int = 2_000_000
    """Members of all layers, those that later layers remove included."""
    file_bytes: int = 16 * _GIB
    """One file's content, unpacked."""
    total_bytes: int = 64 * _GIB
    """All contents, unpacked."""
    path_bytes: int = 3000
    """One path; below PATH_MAX, so that there is room for the store's own."""
    depth: int = 200
    """Components of one path."""
    document_bytes: int = 4 * 1024**2
    """An index, a manifest or a configuration."""


DEFAULT_LIMITS = ImageLimits()


_INDEX = "index.json"
DOCKER_INDEX = "manifest.json"
"""Lists the images of an archive that `docker save` wrote."""
_GZIP_MAGIC = b"\x1f\x8b"


IMAGE_UNREADABLE = ErrorCode(
    "image-unreadable",
    ContractError,
    "An image is damaged, cut short, or not in one of the formats that are understood.",
    hint="save it anew: `skopeo copy --preserve-digests docker://NAME oci-archive:FILE.tar`",
)
IMAGE_DIGEST_MISMATCH = ErrorCode(
    "image-digest-mismatch",
    ContractError,
    "A part of an image has other bytes than its digest or its size promises.",
    hint="get the image again from where it came; if it happens again, do not trust that place",
)


class BlobSource(Protocol):
    """Named files of an image layout."""

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        ...

    def open(self, name: str) -> IO[bytes]:
        """A file by its path in the layout.

        Raises:
            IMAGE_UNREADABLE: it is not there, or not a plain file.
        """
        ...


class DigestStream(io.RawIOBase):
    """Bytes that are counted and digested while they are read."""

    def __init__(self, stream: Readable, *, digest: Digest | None, size_bytes: int | None = None) -> None:
        super().__init__()
        self._stream = stream
        self._digest = digest
        self._size_bytes = size_bytes
        self._hash = hashlib.sha256()
        self._count = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._hash.update(data)
        self._count += len(data)
        if self._size_bytes is not None and self._count > self._size_bytes:
            raise IMAGE_DIGEST_MISMATCH.error(
                f"blob {self._digest}: expected {self._size_bytes} bytes, found more"
            )
        return data

    def verify(self) -> None:
        """Read what is left, then compare.

        Raises:
            IMAGE_DIGEST_MISMATCH: size or digest are others than promised.
        """
        while self.read(1 << 20):
            pass
        if self._size_bytes not in {None, self._count}:
            raise IMAGE_DIGEST_MISMATCH.error(
                f"blob {self._digest}: expected {self._size_bytes} bytes, found {self._count}"
            )
        found = "sha256:" + self._hash.hexdigest()
        if self._digest is not None and found != self._digest:
            raise IMAGE_DIGEST_MISMATCH.error(f"blob {self._digest}: expected these bytes, found {found}")


def name_blob_file(digest: Digest) -> str:
    """Where an OCI layout keeps a blob."""
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def read_named(source: BlobSource, name: str, limits: ImageLimits) -> bytes:
    """A small document by its name in the layout.

    Raises:
        IMAGE_UNREADABLE: it is not there, or too large for a document.
    """
    with contextlib.closing(source.open(name)) as stream:
        data = stream.read(limits.document_bytes + 1)
    if len(data) > limits.document_bytes:
        raise IMAGE_UNREADABLE.error(f"{name}: expected at most {limits.document_bytes} bytes, found more")
    return data


def read_document(source: BlobSource, digest: Digest | None, limits: ImageLimits) -> bytes:
    """A JSON document of the layout: a blob by digest, verified, or the index at the top."""
    name = _INDEX if digest is None else name_blob_file(digest)
    data = read_named(source, name, limits)
    if digest is not None and (found := digest_bytes(data)) != digest:
        raise IMAGE_DIGEST_MISMATCH.error(f"{name}: expected these bytes, found {found}")
    return data


class _Layout:
    def __init__(self, root: Path) -> None:
        self._root = root

    def has(self, name: str) -> bool:
        return (self._root / name).is_file()

    def open(self, name: str) -> IO[bytes]:
        path = self._root / name
        try:
            # Without waiting: a fifo in place of a blob must not stop us.
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise IMAGE_UNREADABLE.error(
                f"{path}: expected a part of the image, found: {error.strerror}"
            ) from error
        stream = os.fdopen(handle, "rb")
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            stream.close()
            raise IMAGE_UNREADABLE.error(f"{path}: expected a plain file, found something else")
        return stream


class _Archive:
    def __init__(self, path: Path, members: dict[str, tuple[int, int]]) -> None:
        self._path = path
        self._members = members

    def has(self, name: str) -> bool:
        return name in self._members

    def open(self, name: str) -> IO[bytes]:
        if name not in self._members:
            raise IMAGE_UNREADABLE.error(f"{self._path}: expected a member {name}, found none")
        offset, size = self._members[name]
        stream = self._path.open("rb")
        stream.seek(offset)
        return io.BufferedReader(_Section(stream, size))


class _Section(io.RawIOBase):
    """A stretch of a file."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        super().__init__()
        self._stream = stream
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]  # typeshed's Buffer
        data = self._stream.read(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def open_layout(path: Path) -> BlobSource:
    """The files of a layout in a directory."""
    return _Layout(path)


def verify_oci(source: BlobSource, path: Path) -> None:
    """See that there is an OCI layout; what Docker wrote is told apart.

    Raises:
        IMAGE_UNREADABLE: there is none.
    """
    if source.has(_INDEX):
        return
    if source.has(DOCKER_INDEX):
        raise IMAGE_UNREADABLE.error(
            f"{path}: expected an OCI layout with index.json, found an archive as `docker save` writes it",
            hint=f'write image = "docker-archive:{path.name}"',
        )
    raise IMAGE_UNREADABLE.error(f"{path}: expected an OCI layout with index.json, found none")


def open_archive(path: Path, limits: ImageLimits) -> BlobSource:
    """A tar file with an image in it: an oci-archive, or what `docker save` writes.

    Raises:
        IMAGE_UNREADABLE: it is no tar file that can be read.
    """
    links: dict[str, str] = {}
    try:
        members = dict(_iter_members(path, limits, links))
    except LIBRARY_ERRORS as error:
        raise IMAGE_UNREADABLE.error(f"{path}: expected a tar file with an image, found: {error}") from error
    # Docker writes a layer that two images share once, and links to it; a link leads to a member or nowhere.
    members |= {name: members[target] for name, target in links.items() if target in members}
    return _Archive(path, members)


def _iter_members(
    path: Path, limits: ImageLimits, links: dict[str, str]
) -> Iterator[tuple[str, tuple[int, int]]]:
    with path.open("rb") as stream:
        if stream.read(2) == _GZIP_MAGIC:
            raise IMAGE_UNREADABLE.error(
                f"{path}: expected a plain tar file, found a compressed one", hint="run `gunzip` on it"
            )
        size = path.stat().st_size
        stream.seek(0)
        forward = ForwardFile(stream, size_bytes=size)
        with tarfile.open(fileobj=forward, mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
            for count, info in enumerate(iter_members(archive)):
                if count > 10 * limits.layers:
                    raise IMAGE_UNREADABLE.error(f"{path}: expected fewer than {count} members, found more")
                if info.isreg() and not info.issparse() and 0 <= info.size <= size:
                    yield info.name.removeprefix("./"), (info.offset_data, info.size)
                elif info.issym():
                    name = info.name.removeprefix("./")
                    links[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), info.linkname))
