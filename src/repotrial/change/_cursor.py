"""Reading a patch line by line: nothing is skipped, and a complaint says where."""

from __future__ import annotations

from typing import NoReturn

import msgspec

from repotrial._core.display import neutralize
from repotrial.change._model import PATCH_UNREADABLE

_SHOWN_CHARACTERS = 100
_MIB = 1024**2


class PatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How large a patch may be before it is refused."""

    patch_bytes: int = 768 * _MIB
    """All of it."""
    files: int = 50_000
    """Entries."""
    lines: int = 1_000_000
    """Lines added and removed; each becomes an object."""
    binary_bytes: int = 512 * _MIB
    """Content in the binary form, before and after, unpacked."""


DEFAULT_LIMITS = PatchLimits()


class Cursor:
    """A position in a patch."""

    def __init__(self, patch: bytes, limits: PatchLimits) -> None:
        if len(patch) > limits.patch_bytes:
            raise PATCH_UNREADABLE.error(
                f"expected a patch of at most {limits.patch_bytes} bytes, found {len(patch)}"
            )
        if patch and not patch.endswith(b"\n"):
            raise PATCH_UNREADABLE.error("expected a newline at the end of the patch, found none")
        self._patch = patch
        self._limits = limits
        self._lines_left = limits.lines
        self._binary_left = limits.binary_bytes
        self._number = 1
        self.position = 0
        """Offset of the next line."""

    @property
    def is_at_end(self) -> bool:
        return self.position >= len(self._patch)

    def starts_with(self, prefix: bytes) -> bool:
        """Whether the next line begins so."""
        return self._patch.startswith(prefix, self.position)

    def take(self, expected: str) -> bytes:
        """The next line, without its newline."""
        if self.is_at_end:
            self.fail(expected, b"the end of the patch")
        end = self._patch.index(b"\n", self.position)
        line = self._patch[self.position : end]
        self.position = end + 1
        self._number += 1
        return line

    def peek(self) -> bytes:
        """The next line's beginning, for a complaint."""
        if self.is_at_end:
            return b"the end of the patch"
        end = self._patch.index(b"\n", self.position)
        return self._patch[self.position : min(end, self.position + 4 * _SHOWN_CHARACTERS)]

    def spend_line(self) -> None:
        """Count a changed line."""
        self._lines_left -= 1
        if self._lines_left < 0:
            raise PATCH_UNREADABLE.error(
                f"expected at most {self._limits.lines} changed lines in a patch, found more"
            )

    def spend_binary(self, size: int) -> None:
        """Count unpacked content, before it is unpacked."""
        self._binary_left -= size
        if self._binary_left < 0:
            raise PATCH_UNREADABLE.error(
                f"expected at most {self._limits.binary_bytes} bytes of binary content, found more"
            )

    def fail(self, expected: str, found: bytes | None = None) -> NoReturn:
        """Refuse the patch; without `found`, for the line that comes next."""
        number = self._number if found is None else max(1, self._number - 1)
        shown = neutralize(
            (self.peek() if found is None else found)[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace"),
            max_characters=_SHOWN_CHARACTERS,
        )
        raise PATCH_UNREADABLE.error(f"patch line {number}: expected {expected}, found '{shown}'")
