"""Rules about the statement: an agent, and a person, can tell from it what must be true afterwards (C9)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import unescape

from repotrial.contract._lint._subject import Example, Finding, Subject, rule

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


_FILE = "statement.md"
_MIN_WORDS = 20
_MIN_SENTENCE_WORDS = 5
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^[ \t]*#{1,6}[ \t].*$", re.MULTILINE)
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.)\s)")
_EXPECTATION = re.compile(
    r"\b(?:must|should|shall|expect(?:s|ed)?|instead|return(?:s|ed)?|raise[sd]?|throws?|print(?:s|ed)?"
    r"|report(?:s|ed)?|reject(?:s|ed)?|accept(?:s|ed)?|keeps?|supports?|fail(?:s|ed)?|crash(?:es|ed)?"
    r"|panic(?:s|ked)?|hangs?|breaks?|needs? to|has to|have to|no longer|cannot|does not|do not|currently"
    r"|observed|actual|so that|ensure|allow|never|always|wrong(?:ly)?|incorrect(?:ly)?)\b",
    re.IGNORECASE,
)


@rule("empty-statement", "error", example=Example(file=_FILE, text="# Fix it\n\n<!-- describe the bug -->\n"))
def empty_statement(subject: Subject) -> Iterator[Finding]:
    """The statement has no text besides headings and comments.

    Why: with the title, it is all that the agent is told.

    Fix: say what is wrong or wanted, and how one sees that it is done.
    """
    if _is_empty(subject.loaded.statement):
        yield Finding(
            file=subject.contract.statement,
            message="expected a text that says what is wanted, found none",
            hint="write what is wrong, what is expected, and an example",
        )


@rule("vague-statement", "warning", example=Example(file=_FILE, text="Make wrapping better.\n"))
def vague_statement(subject: Subject) -> Iterator[Finding]:
    """The statement does not seem to say what must be true afterwards.

    Why: where the behavior is open, a check rejects honest work. This is a heuristic and reads English only:
    it looks for one sentence of at least five words, outside headings, comments and code, that speaks of an
    expectation or an observation (must, should, expected, returns, fails, instead …), and for twenty words
    altogether or a code example. It cannot tell whether the sentence is right, or enough.

    Fix: write the sentence, or list the behavior under `clarify.behavior`, which settles the question in any
    language.
    """
    if any(len(_WORD.findall(clean(text))) > 1 for text in subject.contract.clarify.behavior):
        return
    if _is_empty(subject.loaded.statement):
        return  # `empty-statement` speaks
    prose = _prose(subject.loaded.statement)
    missing = []
    if not any(_is_expectation(sentence) for sentence in _SENTENCE_END.split(prose)):
        missing.append("a sentence that states the behavior")
    if len(_WORD.findall(prose)) < _MIN_WORDS and not _has_example(subject.loaded.statement):
        missing.append(f"{_MIN_WORDS} words or an example")
    if missing:
        yield Finding(
            file=subject.contract.statement,
            line=1,
            message=f"expected {' and '.join(missing)}, found neither there nor in clarify.behavior "
            "(a heuristic, not a reading)",
            hint="say what must be true afterwards, or fill clarify.behavior",
        )


def _is_empty(statement: str) -> bool:
    return not _WORD.search(_HEADING.sub(" ", _COMMENT.sub(" ", clean(statement))))


def _prose(statement: str) -> str:
    without_comments = _COMMENT.sub(" ", clean(statement))
    return _HEADING.sub(" ", _FENCE.sub(" ", without_comments))


def _is_expectation(sentence: str) -> bool:
    return len(_WORD.findall(sentence)) >= _MIN_SENTENCE_WORDS and bool(_EXPECTATION.search(sentence))


def _has_example(statement: str) -> bool:
    fenced = _FENCE.findall(statement)
    return bool(fenced) or bool(re.search(r"`[^`\n]{4,}`|^(?: {4}|\t)\S|>>> ", statement, re.MULTILINE))


RULES = (empty_statement, vague_statement)
