"""One layer of an image: a tar stream whose members are judged, then written into the root file system.

Ownership and extended attributes are left out: programs in a sandbox have one user. Times of files are kept
in seconds: byte code of Python is held against the time of its source. Permissions are reduced to "executable
or not", and everything is readable, so that set-user-id bits and private files mean nothing and its maker can
remove the store. Device nodes and fifos are skipped and counted.
"""

from __future__ import annotations

import errno
import gzip
import tarfile
from collections.abc import Iterator

from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.tar import LIBRARY_ERRORS, ForwardStream, Readable, StreamLimitError, iter_members
from repotrial.environment._images._blobs import IMAGE_UNREADABLE, DigestStream, ImageLimits
from repotrial.environment._images._rootfs import IMAGE_UNSAFE_MEMBER, Components, RootFs, render_name

_CHUNK_BYTES = 1 << 20
_BLOCK_BYTES = 512
_LATEST_SECONDS = 2**32 - 1
"""The latest time that every file system keeps, and that byte code has room for."""
_WHITEOUT = b".wh."
_OPAQUE = b".wh..wh..opq"
_GZIP = (".gzip", "+gzip")
_PLAIN = (".tar",)
_LAYER_ERRNOS = {
    None,
    errno.ENAMETOOLONG,
    errno.EINVAL,
    errno.EILSEQ,
    errno.ENOTDIR,
    errno.ENOENT,
    errno.EEXIST,
}


IMAGE_TOO_LARGE = ErrorCode(
    "image-too-large",
    ContractError,
    "An image unpacks to more files or bytes than allowed, as a decompression bomb would.",
    hint="use a smaller image; if it is meant to be so large, raise the limits",
)
IMAGE_COMPRESSION = ErrorCode(
    "image-compression",
    ContractError,
    "A layer is compressed in a way that this version cannot read.",
    hint="convert it: `skopeo copy --dest-compress-format gzip oci-archive:IN.tar oci-archive:OUT.tar`",
)


class LayerWriter:
    """Writes the layers of one image, in order, and keeps count over all of them."""

    def __init__(self, rootfs: RootFs, limits: ImageLimits) -> None:
        self._rootfs = rootfs
        self._limits = limits
        self._entries = 0
        self._bytes = 0
        self.skipped: dict[str, int] = {}
        """Members that were left out, by kind."""

    def write(self, blob: DigestStream, *, media_type: str, layer_digest: Digest) -> None:
        """Unpack one layer and verify both of its digests, compressed and plain.

        Raises:
            IMAGE_DIGEST_MISMATCH: the bytes are not those that were promised.
            IMAGE_UNSAFE_MEMBER: a member leads out of the image.
            IMAGE_TOO_LARGE: a limit is reached.
            IMAGE_UNREADABLE: it is no tar stream, or cut short.
            IMAGE_COMPRESSION: its compression is not known.
        """
        self._rootfs.begin_layer()
        try:
            plain = DigestStream(_decompress(blob, media_type), digest=layer_digest)
            room = self._limits.total_bytes - self._bytes + 4 * _BLOCK_BYTES * self._limits.entries
            self._unpack(ForwardStream(plain, max_bytes=room))
            plain.verify()
        except StreamLimitError as error:
            raise IMAGE_TOO_LARGE.error(f"layer {layer_digest}: expected less, found {error}") from error
        except LIBRARY_ERRORS as error:
            if not _is_blamed_on_layer(error):
                raise
            raise IMAGE_UNREADABLE.error(
                f"layer {layer_digest}: expected a whole tar stream that can be unpacked, "
                f"found: {type(error).__name__}: {error}"
            ) from error
        blob.verify()

    def _unpack(self, forward: ForwardStream) -> None:
        with tarfile.open(fileobj=forward, mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
            for info in iter_members(archive):
                self._entries += 1
                if self._entries > self._limits.entries:
                    raise IMAGE_TOO_LARGE.error(
                        f"expected at most {self._limits.entries} members, found more"
                    )
                self._add(archive, info)
        # The library takes a damaged header for the end; the end is marked by empty blocks.
        if not forward.ended_with_mark:
            raise EOFError("the end mark is missing")
        while forward.read(_CHUNK_BYTES):
            pass

    def _add(self, archive: tarfile.TarFile, info: tarfile.TarInfo) -> None:
        path = self._judge_name(info.name)
        name = path[-1] if path else b""
        if name == _OPAQUE:
            self._rootfs.hide_children(path[:-1])
        elif name.startswith(_WHITEOUT):
            self._hide(path)
        elif info.isdir():
            self._rootfs.add_directory(path)
        elif info.issym():
            self._rootfs.add_symlink(path, _judge_target(info, path))
        elif info.islnk():
            self._rootfs.add_hard_link(path, self._judge_name(info.linkname))
        elif info.isreg():
            self._rootfs.add_file(
                path,
                self._iter_content(archive, info),
                is_executable=bool(info.mode & 0o111),
                modified_at=min(max(0, int(info.mtime)), _LATEST_SECONDS),
            )
        else:
            kind = {tarfile.FIFOTYPE: "fifo", tarfile.CHRTYPE: "device", tarfile.BLKTYPE: "device"}.get(
                info.type, "other"
            )
            self.skipped[kind] = self.skipped.get(kind, 0) + 1

    def _hide(self, path: Components) -> None:
        hidden = path[-1].removeprefix(_WHITEOUT)
        if hidden in {b"", b".", b".."}:
            raise IMAGE_UNSAFE_MEMBER.error(f"expected a whiteout of a plain name, found {render_name(path)}")
        self._rootfs.hide((*path[:-1], hidden))

    def _judge_name(self, name: str) -> Components:
        raw = name.encode("utf-8", "surrogateescape")
        if raw.startswith(b"/") or b"\0" in raw:
            raise IMAGE_UNSAFE_MEMBER.error(f"expected a relative name, found {render_name((raw,))}")
        components = tuple(part for part in raw.split(b"/") if part not in {b"", b"."})
        if b".." in components:
            raise IMAGE_UNSAFE_MEMBER.error(f"expected a name inside the image, found {render_name((raw,))}")
        if len(raw) > self._limits.path_bytes or len(components) > self._limits.depth:
            raise IMAGE_TOO_LARGE.error(
                f"expected names of at most {self._limits.path_bytes} bytes and {self._limits.depth} "
                f"components, found {render_name((raw[:100],))}…"
            )
        return components

    def _iter_content(self, archive: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[bytes]:
        self._bytes += info.size
        if not 0 <= info.size <= self._limits.file_bytes or self._bytes > self._limits.total_bytes:
            raise IMAGE_TOO_LARGE.error(
                f"expected files of at most {self._limits.file_bytes} bytes, "
                f"{self._limits.total_bytes} in all, found {info.size} more"
            )
        content = archive.extractfile(info)
        assert content is not None
        left = info.size
        while left > 0:
            chunk = content.read(min(left, _CHUNK_BYTES))
            if not chunk:
                raise EOFError("a member ends too early")
            left -= len(chunk)
            yield chunk


def _judge_target(info: tarfile.TarInfo, path: Components) -> bytes:
    target = info.linkname.encode("utf-8", "surrogateescape")
    if not target or b"\0" in target:
        raise IMAGE_UNSAFE_MEMBER.error(f"expected a link with a target, found {render_name(path)}")
    return target


def _decompress(blob: DigestStream, media_type: str) -> Readable:
    if media_type.endswith(_GZIP):
        return gzip.GzipFile(fileobj=blob)
    if media_type.endswith(_PLAIN):
        return blob
    raise IMAGE_COMPRESSION.error(
        f"expected a layer in plain tar or gzip, found {media_type or 'no media type'}"
    )


def _is_blamed_on_layer(error: BaseException) -> bool:
    """A name that no file system takes is the layer's fault; a full disk is not."""
    return not isinstance(error, OSError) or error.errno in _LAYER_ERRNOS
