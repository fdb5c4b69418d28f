"""Images that are kept on this machine: brought in from files, listed, removed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.contract import DockerArchive, ImageArchive, ImageLayout
from repotrial.environment._images._blobs import (
    DEFAULT_LIMITS,
    DOCKER_INDEX,
    BlobSource,
    open_archive,
    open_layout,
)
from repotrial.environment._images._manifest import select_image
from repotrial.environment._images._open import open_image
from repotrial.environment._store import BrokenEntry, Store, StoreKind, StoreRecord, list_store, prune_store
from repotrial.syscalls import machine_platform

_PREFIX = re.compile(r"(?:sha256:)?[0-9a-f]{8,64}")
_SCHEMES = ("oci:", "oci-archive:", "docker-archive:")


IMAGE_UNKNOWN = ErrorCode(
    "image-unknown",
    UsageError,
    "No image that is kept here, or more than one, has this digest or name.",
    hint="`repotrial image list` has the digests; eight of their hexadecimal digits are enough",
)
IMAGE_IN_USE = ErrorCode(
    "image-in-use",
    UsageError,
    "An image was to be removed while a run uses it.",
    hint="wait for the run, then remove it",
)


class KeptImage(msgspec.Struct, frozen=True, kw_only=True):
    """One image as `image list` shows it."""

    digest: Digest
    """Of its manifest; of its configuration where it came from an archive of Docker's."""
    names: tuple[str, ...]
    """What its archive called it."""
    platform: str
    size_bytes: int
    """Unpacked."""
    is_new: bool = False
    """Whether this import brought it in."""
    is_in_use: bool = False
    skipped: tuple[str, ...] = ()
    """Members of its layers that were left out, by kind: devices, fifos."""
    other_digests: tuple[Digest, ...] = ()
    """Under which a contract may name it as well: of its index, of its configuration."""

    @property
    def reference(self) -> str:
        """What a contract writes as its `image`."""
        name = self.names[0].split("@")[0] if self.names else "local"
        repository, colon, tag = name.rpartition(":")
        return f"{repository if colon and '/' not in tag else name}@{self.digest}"


def import_image(file: str, *, store: Store, digest: Digest | None = None) -> KeptImage:
    """Unpack an image into the store.

    Args:
        file: A path, or `oci:FILE` or `docker-archive:FILE`; a path alone: the file says what it is.
        store: Where images are kept.
        digest: Which one, where the file has several.

    Raises:
        IMAGE_UNREADABLE: it is not an image.
        IMAGE_DIGEST_MISMATCH: some of its bytes are not those that its digests promise.
        IMAGE_UNSAFE_MEMBER: a layer tries to leave the image.
        IMAGE_PLATFORM: it is for another kind of machine, or has several images.
        IMAGE_TOO_LARGE: it is a bomb, or larger than allowed.
    """
    scheme = next((scheme for scheme in _SCHEMES if file.startswith(scheme)), "")
    path = Path(file.removeprefix(scheme)).absolute()
    image = _choose_kind(path, scheme=scheme, digest=digest)
    unpacked = open_image(image, base=path.parent, store=store)
    return _describe(unpacked.entry.record, store, is_new=unpacked.entry.is_new)


def _choose_kind(
    path: Path, *, scheme: str, digest: Digest | None
) -> ImageArchive | DockerArchive | ImageLayout:
    source: BlobSource
    if path.is_dir():
        source = open_layout(path)
        found = select_image(source, digest=digest, wanted=machine_platform(), limits=DEFAULT_LIMITS)
        return ImageLayout(path=path.name, digest=found.digest)
    source = open_archive(path, DEFAULT_LIMITS)
    # Newer releases of Docker write both; the OCI documents have digests for everything.
    is_docker = source.has(DOCKER_INDEX) and not source.has("index.json")
    if scheme == "docker-archive:" or (not scheme and is_docker):
        return DockerArchive(path=path.name, digest=digest)
    return ImageArchive(path=path.name, digest=digest)


def list_images(store: Store) -> list[KeptImage]:
    """Every image that is kept, by digest; one whose record is broken is left to `cache list`."""
    found = list_store(store, kinds=(StoreKind.IMAGE,))
    return [_describe(record, store) for record in found if not isinstance(record, BrokenEntry)]


def remove_images(names: Iterable[str], *, store: Store) -> list[KeptImage]:
    """Remove images by digest, the beginning of one, or name.

    Raises:
        IMAGE_UNKNOWN: a name stands for none of them, or for several; nothing is removed.
        IMAGE_IN_USE: a run uses one.
    """
    kept = list_images(store)
    chosen = {image.digest: image for image in (_find(name, kept) for name in names)}
    for image in chosen.values():
        if image.is_in_use:
            raise IMAGE_IN_USE.error(f"expected {image.digest} without a run that uses it, found one")
    removed = prune_store(store, keys=frozenset(chosen))
    return [image for digest, image in chosen.items() if digest in removed]


def _find(name: str, kept: list[KeptImage]) -> KeptImage:
    wanted = name.rpartition("@")[2]
    if _PREFIX.fullmatch(wanted):
        bare = wanted.removeprefix("sha256:")
        found = [
            image
            for image in kept
            if any(
                digest.removeprefix("sha256:").startswith(bare)
                for digest in (image.digest, *image.other_digests)
            )
        ]
    else:
        found = [image for image in kept if name in image.names]
    if len(found) != 1:
        shown = ", ".join(image.digest for image in found or kept) or "no image at all"
        raise IMAGE_UNKNOWN.error(f"expected one image {name!r}, found {len(found)}; kept: {shown}")
    return found[0]


def _describe(record: StoreRecord, store: Store, *, is_new: bool = False) -> KeptImage:
    facts = record.facts
    return KeptImage(
        digest=record.key,
        names=_list(facts.get("names")),
        platform=str(facts.get("platform", "")),
        size_bytes=record.size_bytes,
        is_new=is_new,
        is_in_use=store.describe_use(StoreKind.IMAGE, record.key).is_in_use,
        skipped=_list(facts.get("skipped")),
        other_digests=_list(facts.get("index_digests")),
    )


def _list(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()
