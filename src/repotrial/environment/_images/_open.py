"""Images of contracts: found in the store, or unpacked into it from an archive or a layout."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import msgspec

from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, MachineError
from repotrial.contract import DockerArchive, ImageArchive, ImageLayout, ImageReference
from repotrial.environment._executions import tell_obtained
from repotrial.environment._images._blobs import (
    DEFAULT_LIMITS,
    BlobSource,
    DigestStream,
    ImageLimits,
    open_archive,
    open_layout,
    verify_oci,
)
from repotrial.environment._images._docker import select_docker_image
from repotrial.environment._images._layer import LayerWriter
from repotrial.environment._images._manifest import ImageConfig, SelectedImage, bare_platform, select_image
from repotrial.environment._images._rootfs import RootFs
from repotrial.environment._store import BrokenEntry, Facts, Store, StoreEntry, StoreKind, list_store
from repotrial.syscalls import machine_platform

MOUNT_POINTS = (
    b"dev",
    b"home",
    b"opt/repotrial",
    b"proc",
    b"run",
    b"tmp",
    b"workspace",
)
"""Directories that a sandbox mounts something on; a read-only root cannot get them later."""

MOUNT_FILES = (b"etc/group", b"etc/hostname", b"etc/hosts", b"etc/passwd", b"etc/resolv.conf")
"""Files that a sandbox may lay its own over."""

_PINNED = re.compile(r"@(sha256:[0-9a-f]{64})$")


IMAGE_NOT_STORED = ErrorCode(
    "image-not-stored",
    MachineError,
    "A contract names an image in a registry that has not been imported on this machine.",
    hint="save it with `skopeo copy` or `podman save --format oci-archive`, then `repotrial image import`",
)


class UnpackedImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image, ready to be a root file system."""

    rootfs: Path
    digest: Digest
    """Of its manifest."""
    config: ImageConfig
    entry: StoreEntry


def open_image(
    image: ImageReference | ImageArchive | DockerArchive | ImageLayout,
    *,
    base: Path,
    store: Store,
    limits: ImageLimits = DEFAULT_LIMITS,
) -> UnpackedImage:
    """Unpack an image once; find it in the store ever after.

    Args:
        image: As the contract names it.
        base: The contract's directory.
        store: Where unpacked images are kept.
        limits: What it may unpack to.

    Raises:
        IMAGE_NOT_STORED: it lies in a registry, and is not in the store.
        IMAGE_UNREADABLE: the file or directory is not an image.
        IMAGE_DIGEST_MISMATCH: some of its bytes are not those that its digests promise.
        IMAGE_UNSAFE_MEMBER: a layer tries to leave the image.
        IMAGE_PLATFORM: it is for another kind of machine.
        IMAGE_TOO_LARGE: it is a bomb, or larger than allowed.
        STORE_TAMPERED: its copy in the store was changed.
    """
    if isinstance(image, ImageReference):
        return _find_reference(image, store)
    path = base / image.path
    source = open_layout(path) if isinstance(image, ImageLayout) else open_archive(path, limits)
    if isinstance(image, DockerArchive):
        selected = select_docker_image(
            source, path, digest=image.digest, wanted=machine_platform(), limits=limits
        )
    else:
        verify_oci(source, path)
        selected = select_image(source, digest=image.digest, wanted=machine_platform(), limits=limits)
    return _unpack(source, selected, path, store=store, limits=limits)


def _find_reference(image: ImageReference, store: Store) -> UnpackedImage:
    pin = _PINNED.search(image.reference)
    if pin is None:
        raise IMAGE_NOT_STORED.error(
            f"expected an image with a digest, found {image.reference!r}", hint="pin it: NAME@sha256:…"
        )
    platform = bare_platform(image.platform)
    for record in list_store(store):
        if isinstance(record, BrokenEntry):
            continue
        known = (record.key, *record.facts.get("index_digests", ()))
        if record.kind is StoreKind.IMAGE and pin[1] in known and record.facts.get("platform") == platform:
            entry = store.find(StoreKind.IMAGE, record.key)
            if entry is not None:
                return _describe(entry)
    raise IMAGE_NOT_STORED.error(
        f"expected the image {image.reference} ({image.platform}) in {store.root}, found none",
        hint=f"`skopeo copy --preserve-digests docker://{image.reference} oci-archive:image.tar` (or "
        f"`podman pull {image.reference}` and `podman save --format oci-archive -o image.tar "
        f"{image.reference}`), then `repotrial image import image.tar`; or put the file beside the contract "
        'and write image = "oci:image.tar"',
    )


def _unpack(
    source: BlobSource, selected: SelectedImage, path: Path, *, store: Store, limits: ImageLimits
) -> UnpackedImage:
    def build(tree: Path, _lock: int) -> Facts:
        started_us = SystemClock().now_us()
        rootfs = RootFs(tree)
        with contextlib.closing(rootfs):
            writer = LayerWriter(rootfs, limits)
            for layer in selected.layers:
                with contextlib.closing(source.open(layer.name)) as stream:
                    blob = DigestStream(stream, digest=layer.digest, size_bytes=layer.size_bytes)
                    writer.write(blob, media_type=layer.media_type, layer_digest=layer.plain_digest)
            _add_mount_points(rootfs)
        tell_obtained(
            "image",
            ("unpack", path.name),
            started_us=started_us,
            digest=selected.digest,
            size_bytes=sum(layer.size_bytes or 0 for layer in selected.layers),
        )
        return _build_facts(selected, writer)

    return _describe(store.make(StoreKind.IMAGE, selected.digest, build))


def _add_mount_points(rootfs: RootFs) -> None:
    for directory in MOUNT_POINTS:
        components = tuple(directory.split(b"/"))
        # One by one: a link on the way gives way as well.
        for length in range(1, len(components) + 1):
            rootfs.add_directory(components[:length])
    rootfs.add_directory((b"etc",))
    for file in MOUNT_FILES:
        rootfs.ensure_file(tuple(file.split(b"/")))


def _build_facts(selected: SelectedImage, writer: LayerWriter) -> Facts:
    config = selected.config
    return {
        "config": msgspec.json.encode(config, order="deterministic").decode(),
        "config_digest": selected.config_digest,
        "index_digests": selected.other_digests,
        "layers": tuple(layer.digest or layer.plain_digest for layer in selected.layers),
        "names": selected.names,
        "platform": config.platform,
        "skipped": tuple(f"{kind}: {count}" for kind, count in sorted(writer.skipped.items())),
    }


def _describe(entry: StoreEntry) -> UnpackedImage:
    config = msgspec.json.decode(str(entry.record.facts["config"]), type=ImageConfig)
    return UnpackedImage(rootfs=entry.path, digest=entry.record.key, config=config, entry=entry)
