"""From `index.json` to one manifest and its configuration: documents of the OCI image specification.

Foreign documents, so unknown fields pass; sizes and digests are those that everything else is held against.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, MachineError
from repotrial.environment._images._blobs import (
    IMAGE_UNREADABLE,
    BlobSource,
    ImageLimits,
    name_blob_file,
    read_document,
)

_MAX_INDEX_DEPTH = 3
_INDEX_TYPES = {
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
}

_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")

_Size = Annotated[int, msgspec.Meta(ge=0)]


IMAGE_PLATFORM = ErrorCode(
    "image-platform",
    MachineError,
    "An image has nothing for this kind of machine, or leaves open which of its parts is meant.",
    hint="save the image for this machine's platform, or pin the digest of the manifest that is meant",
)


class _Platform(msgspec.Struct, frozen=True):
    architecture: str = ""
    os: str = ""
    variant: str = ""


class _Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """A pointer to a blob."""

    digest: Digest
    size: _Size
    media_type: str = ""
    platform: _Platform = _Platform()
    annotations: dict[str, str] | None = None


class _Index(msgspec.Struct, frozen=True):
    manifests: tuple[_Descriptor, ...]


class _ImageManifest(msgspec.Struct, frozen=True):
    """What an image consists of."""

    config: _Descriptor
    layers: tuple[_Descriptor, ...]


class _RunConfig(msgspec.Struct, frozen=True, rename="pascal"):
    env: tuple[str, ...] | None = None
    working_dir: str | None = None
    user: str | None = None


class _RootFs(msgspec.Struct, frozen=True):
    diff_ids: tuple[Digest, ...] = ()


class _ConfigDocument(msgspec.Struct, frozen=True):
    architecture: str = ""
    os: str = ""
    config: _RunConfig | None = None
    rootfs: _RootFs = _RootFs()


class ImageConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What an image says about its use; its entry point is not ours to run."""

    variables: dict[str, str]
    working_directory: str
    user: str
    """Noted only: programs in a sandbox have one user."""
    platform: str
    layer_digests: tuple[Digest, ...]
    """Digest of each layer, unpacked."""


class ImageLayer(msgspec.Struct, frozen=True, kw_only=True):
    """One layer, and what is known of its bytes before they are read."""

    name: str
    """Its file in the layout or archive."""
    plain_digest: Digest
    """Of the tar stream, unpacked."""
    digest: Digest | None = None
    """Of the file itself; an archive of Docker's has none."""
    size_bytes: int | None = None
    media_type: str
    """Its end says how it is compressed."""


class SelectedImage(msgspec.Struct, frozen=True, kw_only=True):
    """One image of a layout, its documents verified."""

    digest: Digest
    """Of the manifest; of the configuration where there is no manifest with digests."""
    other_digests: tuple[Digest, ...]
    """Of the indexes that led to it, and of its configuration: a reference may name one of these."""
    config_digest: Digest
    config: ImageConfig
    layers: tuple[ImageLayer, ...]
    names: tuple[str, ...] = ()
    """What the archive calls it."""


def select_image(
    source: BlobSource, *, digest: Digest | None, wanted: str, limits: ImageLimits
) -> SelectedImage:
    """Find one image: by the digest of its manifest or of an index above it, and by platform.

    Raises:
        IMAGE_UNREADABLE: a document is missing or makes no sense.
        IMAGE_DIGEST_MISMATCH: a document has other bytes than promised.
        IMAGE_PLATFORM: nothing, or more than one thing, fits.
    """
    found = _collect(source, None, (), limits)
    if digest is not None:
        found = [(item, path) for item, path in found if digest in {item.digest, *path}]
        if not found:
            raise IMAGE_UNREADABLE.error(f"expected an image {digest} in the layout, found none")
    fitting = {item.digest: (item, path) for item, path in found if _fits(item.platform, wanted)}
    if len(fitting) != 1:
        shown = ", ".join(sorted(f"{item.digest} ({_shown(item.platform)})" for item, _ in found)) or "none"
        raise IMAGE_PLATFORM.error(f"expected one image for {wanted}, found {len(fitting)} among: {shown}")
    ((manifest_digest, (descriptor, index_digests)),) = fitting.items()
    manifest = decode_document(
        read_document(source, manifest_digest, limits), _ImageManifest, manifest_digest
    )
    config_digest = manifest.config.digest
    config = build_config(
        read_document(source, config_digest, limits),
        config_digest,
        layers=len(manifest.layers),
        wanted=wanted,
        limits=limits,
    )
    return SelectedImage(
        digest=manifest_digest,
        other_digests=(*index_digests, config_digest),
        config_digest=config_digest,
        config=config,
        names=tuple(dict.fromkeys(filter(None, map((descriptor.annotations or {}).get, _NAMES)))),
        layers=tuple(
            ImageLayer(
                name=name_blob_file(layer.digest),
                plain_digest=plain,
                digest=layer.digest,
                size_bytes=layer.size,
                media_type=layer.media_type,
            )
            for layer, plain in zip(manifest.layers, config.layer_digests, strict=True)
        ),
    )


_Found = list[tuple[_Descriptor, tuple[Digest, ...]]]


def _collect(
    source: BlobSource, digest: Digest | None, path: tuple[Digest, ...], limits: ImageLimits
) -> _Found:
    """Every manifest that an index leads to, with the digests of the indexes on the way."""
    if len(path) > _MAX_INDEX_DEPTH:
        raise IMAGE_UNREADABLE.error(f"expected indexes nested at most {_MAX_INDEX_DEPTH} deep, found more")
    index = decode_document(read_document(source, digest, limits), _Index, digest or "index.json")
    found: _Found = []
    for item in index.manifests:
        if len(found) > limits.layers:
            raise IMAGE_UNREADABLE.error(f"expected at most {limits.layers} images in a layout, found more")
        if item.media_type in _INDEX_TYPES:
            found += _collect(source, item.digest, (*path, item.digest), limits)
        else:
            found.append((item, path))
    return found


def _fits(found: _Platform, wanted: str) -> bool:
    """An index may leave the platform out; the configuration has it in any case."""
    return not (found.os or found.architecture) or f"{found.os}/{found.architecture}" == bare_platform(wanted)


def bare_platform(wanted: str) -> str:
    """Without the variant: `linux/arm64/v8` is the only arm64 there is."""
    return "/".join(wanted.split("/")[:2])


def _shown(found: _Platform) -> str:
    return f"{found.os}/{found.architecture}" if found.os or found.architecture else "platform not named"


_T = TypeVar("_T")


def decode_document(data: bytes, kind: type[_T], name: str) -> _T:
    """A foreign JSON document.

    Raises:
        IMAGE_UNREADABLE: it is not what it should be.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise IMAGE_UNREADABLE.error(f"{name}: expected an OCI document, found: {error}") from error


def build_config(data: bytes, name: str, *, layers: int, wanted: str, limits: ImageLimits) -> ImageConfig:
    """What an image says about its use.

    Args:
        data: The document.
        name: How messages name it.
        layers: How many layers the image has.
        wanted: This machine's platform.
        limits: What it may unpack to.

    Raises:
        IMAGE_UNREADABLE: the document makes no sense.
        IMAGE_PLATFORM: the image is for another kind of machine.
    """
    document = decode_document(data, _ConfigDocument, name)
    if not layers == len(document.rootfs.diff_ids) <= limits.layers:
        raise IMAGE_UNREADABLE.error(
            f"{name}: expected a digest for each of {layers} layers (at most {limits.layers}), "
            f"found {len(document.rootfs.diff_ids)}"
        )
    run = document.config or _RunConfig()
    pairs = (item.partition("=") for item in run.env or ())
    platform = f"{document.os}/{document.architecture}"
    if platform not in {bare_platform(wanted), "/"}:
        raise IMAGE_PLATFORM.error(f"expected an image for {wanted}, found one for {platform}")
    return ImageConfig(
        variables={key: value for key, _, value in pairs if key},
        working_directory=run.working_dir or "/",
        user=run.user or "",
        platform=platform,
        layer_digests=document.rootfs.diff_ids,
    )
