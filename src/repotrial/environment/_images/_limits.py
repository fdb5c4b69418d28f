"""How large an image may be; the defaults hold the largest public images and refuse bombs."""

from __future__ import annotations

import msgspec

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
