"""Test functions of a module, as pytest and unittest collect them."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from repotrial._core.python_source import parse_python

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_NEVER_FAILS = ("xfail", "expectedFailure")
_NEVER_RUNS = ("mark.skip", "unittest.skip")


class SourceEdit(msgspec.Struct, frozen=True):
    """A stretch of the source and what takes its place; offsets count bytes of UTF-8."""

    start: int
    end: int
    text: str


class SourceText:
    """A module's source; raises SyntaxError where it is no Python."""

    def __init__(self, source: bytes) -> None:
        self.encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode(self.encoding)
        self.tree = parse_python(text)
        self.data = text.encode()
        """In UTF-8, whatever the file's own encoding: the tree counts columns so."""
        self.newline = "\r\n" if b"\r\n" in self.data else "\n"
        self._starts = [0]
        for line in self.data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where the node stands."""
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)

    def read(self, node: ast.expr | ast.stmt) -> str:
        """The node as it is written."""
        start, end = self.span(node)
        return self.data[start:end].decode()

    def line_start(self, line: int) -> int:
        """Offset of a line, counted from 1; of the end, for the line after the last."""
        return self._starts[min(line - 1, len(self._starts) - 1)]

    def replace(self, node: ast.expr, text: str) -> SourceEdit:
        """The edit that writes `text` in the node's place."""
        return SourceEdit(*self.span(node), text)

    def apply(self, edits: Sequence[SourceEdit], *, start: int = 0, end: int | None = None) -> str:
        """A stretch of the source with the edits in it."""
        stop = len(self.data) if end is None else end
        parts: list[bytes] = []
        position = start
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            parts += [self.data[position : edit.start], edit.text.encode()]
            position = edit.end
        return b"".join([*parts, self.data[position:stop]]).decode()


@dataclass(frozen=True)
class TestFunction:
    """A test where it stands."""

    __test__ = False

    node: Function
    qualified_name: str
    siblings: Sequence[ast.stmt]
    """The statements among which it stands."""
    index: int
    """Its place among them."""
    is_shared: bool
    """Whether a class inherits it, or another file takes it."""
    obstacle: str
    """Why it can have no twin; empty if it can."""

    @property
    def first_line(self) -> int:
        return min(node.lineno for node in (self.node, *self.node.decorator_list))

    @property
    def last_line(self) -> int:
        return self.node.end_lineno or self.node.lineno


def find_imported(tree: ast.Module) -> frozenset[str]:
    """Names that the file takes from others; a test among them is collected here too."""
    return frozenset(
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    )


def find_tests(tree: ast.Module, taken: AbstractSet[str] = frozenset()) -> list[TestFunction]:
    """Every test in the order of the file; `taken` are names that other files import."""
    bases = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for name in map(ast.unparse, node.bases)
    }
    return list(_iter_tests(tree.body, (), bases | taken, obstacle=""))


def _iter_tests(
    body: Sequence[ast.stmt], classes: tuple[str, ...], bases: set[str], *, obstacle: str
) -> Iterator[TestFunction]:
    last = {node.name: index for index, node in enumerate(body) if isinstance(node, Function)}
    for index, node in enumerate(body):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if _is_test(node):
                shadowed = "" if last[node.name] == index else "a later definition takes its place"
                yield TestFunction(
                    node=node,
                    qualified_name=".".join([*classes, node.name]),
                    siblings=body,
                    index=index,
                    is_shared=not bases.isdisjoint({*classes, node.name}),
                    obstacle=obstacle or shadowed or _find_obstacle(node.decorator_list),
                )
            case ast.ClassDef() if _is_test_class(node):
                inner = obstacle or _find_obstacle(node.decorator_list)
                yield from _iter_tests(node.body, (*classes, node.name), bases, obstacle=inner)
            case ast.If(body=inside, orelse=others) | ast.Try(body=inside, handlers=others):
                unsure = "another may stand in its place" if others else ""
                yield from _iter_tests(inside, classes, bases, obstacle=obstacle or unsure)
            case ast.With():
                yield from _iter_tests(node.body, classes, bases, obstacle=obstacle)
            case _:
                continue


def _is_test(node: Function) -> bool:
    is_fixture = any("fixture" in ast.unparse(decorator) for decorator in node.decorator_list)
    return node.name.startswith("test") and not is_fixture


def _is_test_class(node: ast.ClassDef) -> bool:
    if any(ast.unparse(base).endswith("TestCase") for base in node.bases):
        return True
    methods = Counter(item.name for item in node.body if isinstance(item, ast.FunctionDef))
    return node.name.startswith("Test") and not methods["__init__"]


def _find_obstacle(decorators: Sequence[ast.expr]) -> str:
    for decorator in decorators:
        name = ast.unparse(decorator).partition("(")[0]
        if name.endswith(_NEVER_FAILS):
            return "it is expected to fail"
        if name.endswith(_NEVER_RUNS):
            return "it is always skipped"
    return ""
