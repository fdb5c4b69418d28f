"""Lines of a runner's output."""

from __future__ import annotations

from collections.abc import Iterator


def iter_lines(data: bytes) -> Iterator[str]:
    """Lines as runners end them; a carriage return inside a line starts no new one, and any byte is kept."""
    for line in data.split(b"\n"):
        yield line.removesuffix(b"\r").decode(errors="surrogateescape")
