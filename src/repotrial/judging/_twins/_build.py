"""A test file with its twins.

The source is edited, not written anew: a twin has the layout, quotes and comments of the test it copies, so
that nothing but the expected value tells the two apart. Half of the pairs swap names, since names
of tests that come with the repository are known: where a candidate forges results by name, it forges twins.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from repotrial._core.python_source import parse_python
from repotrial.judging._twins._functions import (
    SourceEdit,
    SourceText,
    TestFunction,
    find_imported,
    find_tests,
)
from repotrial.judging._twins._model import SkippedTest, Twin, TwinnedFile
from repotrial.judging._twins._scope import TestScope, find_constants
from repotrial.judging._twins._twist import Twist, find_twist

_HELPER = """\
def {name}(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float, complex)):
        other = value + {step} + abs(value)
        return object() if other == value else other
    if isinstance(value, str):
        return value[:-1] + chr(ord(value[-1]) ^ 1) if value else "{letter}"
    if isinstance(value, (bytes, bytearray)):
        return value[:-1] + bytes([value[-1] ^ 1]) if value else type(value)(b"{letter}")
    if type(value) in (list, tuple):
        return value[:-1] + type(value)([{name}(value[-1])]) if value else type(value)([{step}])
    if type(value) in (set, frozenset):
        return value ^ {{"{letter}{step}"}}
    if type(value) is dict:
        return {{**value, "{letter}{step}": value.get("{letter}{step}", {step}) == {step}}}
    return object()
"""
"""Changes a value at run time; one of a type that it does not know becomes an object that equals nothing."""

# fmt: off
_WORDS = (
    "empty", "single", "several", "first", "last", "short", "long", "nested", "plain", "mixed", "large",
    "small", "order", "input", "output", "value", "text", "line", "name", "path", "item", "list", "key",
    "default", "option", "result", "error", "limit", "start", "end", "before", "after", "with",
    "without", "keeps", "returns", "accepts", "rejects", "handles", "reads", "writes", "case", "form",
    "state", "count", "size", "again", "never", "always", "other", "same", "own",
)
# fmt: on
_ENOUGH_WORDS = 24
_MIN_WORDS = 3
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _NameMaker:
    """Makes names from the words of the file's own tests."""

    def __init__(self, tree: ast.Module, tests: list[str], rng: random.Random) -> None:
        self._rng = rng
        self._taken = _identifiers(tree)
        own = sorted({word for test in tests for word in _split(test)})
        self._words = own if len(own) >= _ENOUGH_WORDS else sorted({*own, *_WORDS})
        self._lengths = [max(_MIN_WORDS, len(_split(test))) for test in tests] or [_MIN_WORDS]

    def make_test_name(self, like: str) -> str:
        """A name in the style of `like` (`test_a_b` or `testAB`) that the file does not use."""
        while True:
            words = self._pick(self._rng.choice(self._lengths))
            if like.startswith("test_") or not like[4:5].isupper():
                name = "test_" + "_".join(words)
            else:
                name = "test" + "".join(word.capitalize() for word in words)
            if self._take(name):
                return name

    def make_helper_name(self) -> str:
        """A name for a function that is no test."""
        while True:
            name = "_".join(["as", *self._pick(2)])
            if self._take(name):
                return name

    def _pick(self, count: int) -> list[str]:
        return [self._rng.choice(self._words) for _ in range(count)]

    def _take(self, name: str) -> bool:
        is_free = name not in self._taken and name.isidentifier()
        self._taken.add(name)
        return is_free


def _split(test: str) -> list[str]:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", test.removeprefix("test"))
    return [word.lower() for word in spaced.split("_") if word]


def _identifiers(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        for field in ("id", "name", "attr", "arg", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                found.add(value)
    return found


def build_python_twins(
    source: bytes, *, path: str, seed: int, taken: AbstractSet[str] = frozenset()
) -> TwinnedFile:
    """The file with a twin for every test whose expectation can be made wrong for certain.

    Args:
        source: The test file.
        path: Where it stands in the workspace; part of the random stream.
        seed: Of this run; it tells twins from tests, so it is secret.
        taken: Names that other files import: tests that are collected there too keep their names.
    """
    try:
        text = SourceText(source)
        rng = random.Random(f"{seed}:{path}")  # noqa: S311 - repeatable
        return _Builder(text, path, rng, taken=taken).build(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # ways of saying "not a program"
        reason = "the file is no Python that this interpreter reads"
        return TwinnedFile(
            path=path, source=source, twins=(), skipped=(SkippedTest(original=path, reason=reason),)
        )


def list_imported(source: bytes) -> frozenset[str]:
    """Names that a file takes from others; none where it is no Python."""
    try:
        return find_imported(SourceText(source).tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


class _Builder:
    def __init__(self, text: SourceText, path: str, rng: random.Random, *, taken: AbstractSet[str]) -> None:
        self._text = text
        self._path = path
        self._rng = rng
        self._tests = find_tests(text.tree, taken)
        self._names = _NameMaker(text.tree, [test.node.name for test in self._tests], rng)
        self._constants = find_constants(text.tree)
        self._helper = self._names.make_helper_name()
        self._edits: list[SourceEdit] = []
        self._insertions: list[tuple[int, SourceEdit]] = []
        """With their columns: where a class ends, its own methods come before what follows the class."""
        self._twins: list[Twin] = []
        self._skipped: list[SkippedTest] = []

    def build(self, source: bytes) -> TwinnedFile:
        for test in self._tests:
            self._add_twin(test)
        if any(twin.kind == "helper" for twin in self._twins):
            self._add_helper()
        insertions = [edit for _, edit in sorted(self._insertions, key=lambda item: -item[0])]
        twinned = self._text.apply([*self._edits, *insertions])
        parse_python(twinned)
        return TwinnedFile(
            path=self._path,
            source=twinned.encode(self._text.encoding) if self._twins else source,
            twins=tuple(self._twins),
            skipped=tuple(self._skipped),
        )

    def _add_twin(self, test: TestFunction) -> None:
        scope = TestScope(self._text, test.node, self._constants, self._rng)
        twist = None if test.obstacle else find_twist(self._text, test.node, scope, self._rng, self._helper)
        renaming = self._find_name(test)
        obstacle = test.obstacle or self._find_obstacle(twist, renaming)
        if obstacle or twist is None or renaming is None:
            self._skipped.append(SkippedTest(original=test.qualified_name, reason=obstacle))
            return
        random_name = self._names.make_test_name(test.node.name)
        rename = SourceEdit(*renaming, random_name)
        is_swapped = not test.is_shared and self._rng.random() < 1 / 2
        if is_swapped:
            self._edits += twist.edits
        self._insert_copy(test, [rename] if is_swapped else [rename, *twist.edits])
        self._twins.append(self._describe(test, twist, random_name, is_swapped=is_swapped))

    def _find_obstacle(self, twist: Twist | None, renaming: tuple[int, int] | None) -> str:
        if twist is None:
            return "no assertion that certainly runs can be made wrong"
        if renaming is None:
            return "its name is not written as Python knows it"
        try:
            "".join(edit.text for edit in twist.edits).encode(self._text.encoding)
        except UnicodeEncodeError:
            return "a wrong expectation cannot be written in the file's encoding"
        return ""

    def _describe(self, test: TestFunction, twist: Twist, random_name: str, *, is_swapped: bool) -> Twin:
        real_name = test.node.name
        return Twin(
            path=self._path,
            original=test.qualified_name,
            name=real_name if is_swapped else random_name,
            true_name=random_name if is_swapped else real_name,
            kind=twist.kind,
            line=twist.line,
        )

    def _find_name(self, test: TestFunction) -> tuple[int, int] | None:
        """Where the function's name stands."""
        start, end = self._text.span(test.node)
        found = re.compile(rb"(?:async\s+)?def\s+(" + test.node.name.encode() + rb")\s*[(\[]").match(
            self._text.data, start, end
        )
        return found.span(1) if found else None

    def _insert_copy(self, test: TestFunction, edits: Iterable[SourceEdit]) -> None:
        start, end = self._text.line_start(test.first_line), self._text.line_start(test.last_line + 1)
        copy = self._text.apply(list(edits), start=start, end=end).rstrip("\r\n")
        blank = self._text.newline * (2 if test.node.col_offset else 3)
        places = self._find_places(test)
        place = self._rng.choice(places)
        if place == test.first_line:
            self._insert(start, copy + blank, column=test.node.col_offset)
        else:
            text = blank[len(self._text.newline) :] + copy + self._text.newline
            self._insert(self._text.line_start(place), text, column=test.node.col_offset)

    def _find_places(self, test: TestFunction) -> list[int]:
        """Lines before which the copy may stand: its decorators mean the same there as at the test."""
        places = [test.first_line, test.last_line + 1]
        for statement in test.siblings[test.index + 1 :]:
            if not isinstance(statement, _DEFINITIONS):
                break
            places.append((statement.end_lineno or statement.lineno) + 1)
        return places

    def _insert(self, place: int, text: str, *, column: int) -> None:
        if place and not self._text.data[:place].endswith((b"\n", b"\r")):
            text = self._text.newline + text
        self._insertions.append((column, SourceEdit(place, place, text)))

    def _add_helper(self) -> None:
        step, letter = self._rng.randint(2, 9), self._rng.choice("abcdefghkmnprstuvwx")
        helper = _HELPER.format(name=self._helper, step=step, letter=letter)
        first = next(
            node
            for node in self._text.tree.body
            if any(isinstance(item, _DEFINITIONS) for item in ast.walk(node))
        )
        line = min(node.lineno for node in ast.walk(first) if isinstance(node, ast.expr | ast.stmt))
        text = f"{helper}\n\n".replace("\n", self._text.newline)
        self._insert(self._text.line_start(line), text, column=0)
