"""Finds the places where a line may end.

A paragraph becomes a list of chunks. A line may end between any two chunks and nowhere else, except inside a
chunk that is too long for every line (see `split_long`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# After a hyphen that stands between two letters: "well-|known", but neither "-v" nor "2024-05-01".
_AFTER_HYPHEN = re.compile(r"(?<=[^\W\d_]-)(?=[^\W\d_])")


@dataclass(frozen=True)
class Chunk:
    """A piece of text that stays on one line."""

    text: str
    space_before: bool
    """Whether a space stands before it, unless it begins a line."""


def split_chunks(paragraph: str) -> Iterator[Chunk]:
    """The chunks of a paragraph, in order; runs of white space are reduced to `space_before`."""
    for word in paragraph.split():
        space_before = True
        for part in _AFTER_HYPHEN.split(word):
            yield Chunk(part, space_before=space_before)
            space_before = False


def split_long(text: str, room: int) -> tuple[str, str]:
    """Cut a chunk that is too long for a line: what fits into `room`, and the rest."""
    return text[:room], text[room:]
