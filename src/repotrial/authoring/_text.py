"""Foreign text made safe to show: commit messages and file names come from strangers."""

from __future__ import annotations

import re
import unicodedata

# Escape sequences first, as a whole: without its ESC, `[31m` would stay behind as text.
_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_NEWLINES = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Zero-width joiners shape letters and emoji; every other format character only hides or reorders text.
_KEPT_FORMAT_CHARACTERS = frozenset("\u200c\u200d")
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")


def clean_text(text: str) -> str:
    """`text` with one kind of newline, and without escape sequences, controls and hidden characters."""
    text = _NEWLINES.sub("\n", _ESCAPE_SEQUENCE.sub("", text))
    return "".join(character for character in text if character in "\n\t" or _is_visible(character))


def clean_line(text: str) -> str:
    """`text` cleaned, on one line, with single spaces."""
    return " ".join(clean_text(text).split())


def shorten(text: str, limit: int) -> str:
    """`text`, cut at a word where it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    head, space, _ = cut.rpartition(" ")
    return (head.rstrip() if space and len(head) > limit // 2 else cut) + "…"


def build_slug(text: str, *, limit: int) -> str:
    """An identifier made of the words of `text`; empty if it has no ASCII letters or digits."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = _NOT_IN_SLUG.sub("-", ascii_text).strip("-")
    if len(slug) <= limit:
        return slug
    head, dash, _ = slug[: limit + 1].rpartition("-")
    return (head if dash else slug[:limit]).strip("-")


def _is_visible(character: str) -> bool:
    if character in _KEPT_FORMAT_CHARACTERS:
        return True
    return unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn"}
