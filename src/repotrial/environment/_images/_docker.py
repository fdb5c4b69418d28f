"""Archives that `docker save` and `podman save` write: images, each with a configuration and layers.

They have no manifest with digests. The configuration has the digest of each layer, unpacked, so its own
digest, which Docker calls the image id, pins everything.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import msgspec

from repotrial._core.digest import Digest, digest_bytes
from repotrial.environment._images._blobs import (
    DOCKER_INDEX,
    IMAGE_DIGEST_MISMATCH,
    IMAGE_UNREADABLE,
    BlobSource,
    ImageLimits,
    read_named,
)
from repotrial.environment._images._manifest import (
    IMAGE_PLATFORM,
    ImageLayer,
    SelectedImage,
    build_config,
    decode_document,
)

_NAMED = re.compile(r"(?:blobs/sha256/)?([0-9a-f]{64})(?:\.json)?")
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}


class _DockerImage(msgspec.Struct, frozen=True, rename="pascal"):
    config: str
    layers: tuple[str, ...]
    repo_tags: tuple[str, ...] | None = None


def select_docker_image(
    source: BlobSource, path: Path, *, digest: Digest | None, wanted: str, limits: ImageLimits
) -> SelectedImage:
    """Find one image of an archive, by the digest of its configuration where there are several.

    Raises:
        IMAGE_UNREADABLE: a document is missing or makes no sense.
        IMAGE_DIGEST_MISMATCH: the configuration is not the one that its name promises.
        IMAGE_PLATFORM: it is for another kind of machine, or it is open which image is meant.
    """
    if not source.has(DOCKER_INDEX):
        raise IMAGE_UNREADABLE.error(
            f"{path}: expected an archive as `docker save` writes it, with {DOCKER_INDEX}, found none",
            hint=f'is it an OCI archive? Then write image = "oci:{path.name}"',
        )
    listed = decode_document(read_named(source, DOCKER_INDEX, limits), tuple[_DockerImage, ...], DOCKER_INDEX)
    if len(listed) > limits.layers:
        raise IMAGE_UNREADABLE.error(f"{path}: expected at most {limits.layers} images, found more")
    found = {}
    for image in listed:
        data = read_named(source, image.config, limits)
        found[_verify_config(image.config, data)] = (image, data)
    chosen = [key for key in found if digest in {None, key}]
    if len(chosen) != 1:
        shown = ", ".join(f"{key} ({_show_tags(image)})" for key, (image, _) in found.items()) or "none"
        raise IMAGE_PLATFORM.error(
            f"{path}: expected one image{'' if digest is None else ' ' + digest}, "
            f"found {len(chosen)} among: {shown}"
        )
    image, data = found[chosen[0]]
    config = build_config(data, image.config, layers=len(image.layers), wanted=wanted, limits=limits)
    return SelectedImage(
        digest=chosen[0],
        other_digests=(),
        config_digest=chosen[0],
        config=config,
        names=image.repo_tags or (),
        layers=tuple(
            ImageLayer(name=name, plain_digest=plain, media_type=_find_compression(source, name))
            for name, plain in zip(image.layers, config.layer_digests, strict=True)
        ),
    )


def _verify_config(name: str, data: bytes) -> Digest:
    found = digest_bytes(data)
    named = _NAMED.fullmatch(name)
    if named is not None and found != f"sha256:{named[1]}":
        raise IMAGE_DIGEST_MISMATCH.error(f"{name}: expected these bytes, found {found}")
    return found


def _find_compression(source: BlobSource, name: str) -> str:
    with contextlib.closing(source.open(name)) as stream:
        kind = _MAGIC.get(stream.read(2))
    return ".tar" if kind is None else f".tar+{kind}"


def _show_tags(image: _DockerImage) -> str:
    return ", ".join(image.repo_tags or ()) or "no name"
