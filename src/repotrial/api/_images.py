"""Images that are kept on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from repotrial._core.digest import Digest
from repotrial.environment import KeptImage, Store
from repotrial.environment import import_image as _import_image
from repotrial.environment import list_images as _list_images
from repotrial.environment import remove_images as _remove_images


def import_image(cache: Path, file: str, *, digest: Digest | None = None) -> KeptImage:
    """Unpack an image from a file, without a daemon; contracts then name it by its digest.

    Args:
        cache: The cache directory.
        file: A path, or `oci:FILE` or `docker-archive:FILE`.
        digest: Which one, where the file has several.
    """
    return _import_image(file, store=Store(cache / "store"), digest=digest)


def list_images(cache: Path) -> list[KeptImage]:
    """The images that are kept, by digest."""
    return _list_images(Store(cache / "store"))


def remove_images(cache: Path, names: Iterable[str]) -> list[KeptImage]:
    """Remove images by digest, the beginning of one, or name; what was removed."""
    return _remove_images(names, store=Store(cache / "store"))
