"""Places in a text as characters and as bytes, without counting from its beginning each time."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Final

_STEP: Final = 1024
_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that are not the first of a character."""


class Offsets:
    """Where the characters of one text lie in its bytes."""

    def __init__(self, text: str) -> None:
        self._text = text
        blocks = (text[first : first + _STEP] for first in range(0, len(text), _STEP))
        sizes = (len(block.encode("utf-8", "surrogatepass")) for block in blocks)
        self._marks = [0] if text.isascii() else [0, *accumulate(sizes)][:-1]
        """Bytes before each block."""

    def to_bytes(self, place: int) -> int:
        """How many bytes stand before a character."""
        if self._text.isascii():
            return min(place, len(self._text))
        block = min(place // _STEP, len(self._marks) - 1)
        return self._marks[block] + len(self._text[block * _STEP : place].encode("utf-8", "surrogatepass"))

    def to_characters(self, place: int) -> int:
        """How many characters begin before a byte."""
        if self._text.isascii():
            return min(place, len(self._text))
        block = min(bisect_right(self._marks, place), len(self._marks)) - 1
        data = self._text[block * _STEP : (block + 1) * _STEP].encode("utf-8", "surrogatepass")
        begun = data[: place - self._marks[block]].translate(None, _CONTINUATIONS)
        return block * _STEP + len(begun)
