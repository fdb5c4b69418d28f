"""Text as a leak would be read: the same words, whatever the spacing, quotes, fences or hidden characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import unescape

GRAM = 5
"""Tokens by which a passage is looked up; shorter ones say too little to be called a leak."""

_TOKEN = re.compile(r"\w+|[^\w\s]")
_QUOTES = "'\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2032"
_FOLD_MARKS = str.maketrans(dict.fromkeys(_QUOTES, '"') | dict.fromkeys("`\\", ""))
_PATH_BACKSLASH = re.compile(r"\\(?=[A-Za-z0-9])")
_LINE_PREFIX = frozenset(">+-*|$#")
_OPENING = frozenset({"return", "if", "elif", "while", "await", "yield", "let", "const", "var", "final", "}"})
_CLOSING = frozenset(":;{,")


def clean(text: str) -> str:
    """What a reader sees: entities and compatibility forms resolved, invisible characters dropped."""
    text = unicodedata.normalize("NFKC", unescape(text))
    return text if text.isascii() else "".join(char for char in text if unicodedata.category(char) != "Cf")


def fold(text: str) -> str:
    """One spelling: clean, without case, escapes and backticks, and with one kind of quote."""
    return clean(text).casefold().translate(_FOLD_MARKS)


def iter_folded_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with its index, folded, with slashes in paths whatever the platform of the author."""
    for index, line in enumerate(text.split("\n")):
        yield index, fold(_PATH_BACKSLASH.sub("/", line))


def tokenize(line: str) -> list[str]:
    """The words and marks of a line, without the marks that quote, list or diff it."""
    tokens = _TOKEN.findall(fold(line))
    start = 0
    while start < len(tokens) and tokens[start] in _LINE_PREFIX:
        start += 1
    return tokens[start:]


def code_tokens(line: str) -> list[str]:
    """What a line of code says, without the keyword that opens it and the mark that ends it."""
    tokens = tokenize(line)
    while tokens and tokens[0] in _OPENING:
        tokens.pop(0)
    while tokens and tokens[-1] in _CLOSING:
        tokens.pop()
    return tokens


@dataclass(frozen=True)
class TokenText:
    """A text as one run of tokens, so that a passage is found however it was wrapped."""

    text: str

    @cached_property
    def _tokens(self) -> list[tuple[str, int]]:
        return [
            (token, index) for index, line in enumerate(self.text.split("\n")) for token in tokenize(line)
        ]

    @cached_property
    def _places(self) -> dict[tuple[str, ...], list[int]]:
        words = [token for token, _ in self._tokens]
        places: dict[tuple[str, ...], list[int]] = {}
        for start in range(len(words) - GRAM + 1):
            places.setdefault(tuple(words[start : start + GRAM]), []).append(start)
        return places

    def find(self, passage: Sequence[str]) -> int | None:
        """Index of the line where `passage` (at least GRAM tokens) begins."""
        for start in self._places.get(tuple(passage[:GRAM]), ()):
            window = [token for token, _ in self._tokens[start : start + len(passage)]]
            if window == list(passage):
                return self._tokens[start][1]
        return None
