r"""Untrusted text on its way to a screen.

What does not print is shown as an escape (`\x1b`, `\n`, `\u202e`): `str.isprintable` refuses control, format
(bidirectional and zero-width), surrogate, private and unassigned characters, and all separators except the
space. A renderer's own markup is the renderer's to escape.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_VERSION_DIGITS = 10
_CAP: Final = re.compile(r"\bcaps?\b|-cap\b|\bceiling\b|\brun-limit\b|\bconfiguration\.limits\b")
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{8})[0-9a-f]{56}")


def escape_unprintable(text: str, *, keep: str = "") -> str:
    """`text` with everything escaped that could move the cursor, reorder or hide; `keep` stays as it is."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in keep
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def list_some(items: Sequence[str], *, most: int) -> str:
    """`a, b and 7 more`: a message stays readable however many there are."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")


def neutralize(text: str, *, max_characters: int) -> str:
    """The same on one line, cut to a length."""
    shown = escape_unprintable(text[: max_characters + 1])
    return shown if len(shown) <= max_characters else shown[: max_characters - 1] + "…"


def mark_cap(text: str) -> str:
    """A text that names a cap says that it is a policy choice (Q10)."""
    is_marked = _CAP.search(text) is None or "policy choice" in text
    return text if is_marked else f"{text} (a cap is a policy choice)"


def shorten_version(version_id: str) -> str:
    """As much of a contract version as people see: enough to choose one with."""
    return version_id.removeprefix("sha256:")[:_VERSION_DIGITS]


def shorten_digests(text: str) -> str:
    """Digests by their first digits: enough to tell two apart by eye."""
    return _DIGEST.sub(r"\1", text)
