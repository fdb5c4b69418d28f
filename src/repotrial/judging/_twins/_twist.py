"""One assertion, made wrong."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from repotrial.judging._twins._functions import Function, SourceEdit, SourceText
from repotrial.judging._twins._literals import do_differ
from repotrial.judging._twins._model import TwinKind
from repotrial.judging._twins._scope import TestScope

_FindConstant: TypeAlias = Callable[[str], "ast.expr | None"]

RAISES = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
_SWALLOWS = frozenset({*RAISES, "suppress", "warns", "assertWarns", "assertWarnsRegex", "RaisesGroup"})
_LEAVES = (ast.Return, ast.Break, ast.Continue)
_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


_OPPOSITES: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: (r"==", "!="),
    ast.NotEq: (r"!=", "=="),
    ast.Lt: (r"<(?!=)", ">="),
    ast.LtE: (r"<=", ">"),
    ast.Gt: (r">(?!=)", "<="),
    ast.GtE: (r">=", "<"),
    ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"),
    ast.Is: (r"\bis\b", "is not"),
    ast.IsNot: (r"\bis\s+not\b", "is"),
}
_OPPOSITE_METHODS = {
    first: second
    for pair in (
        ("assertTrue", "assertFalse"),
        ("assertIn", "assertNotIn"),
        ("assertIs", "assertIsNot"),
        ("assertIsNone", "assertIsNotNone"),
        ("assertIsInstance", "assertNotIsInstance"),
        ("assertRegex", "assertNotRegex"),
        ("assertAlmostEqual", "assertNotAlmostEqual"),
        ("assertGreater", "assertLessEqual"),
        ("assertLess", "assertGreaterEqual"),
    )
    for first, second in (pair, pair[::-1])
} | {"assertNotEqual": "assertEqual"}
_EQUALITIES = frozenset(
    f"assert{kind}Equal" for kind in ("", "List", "Tuple", "Dict", "Set", "Sequence", "MultiLine", "Count")
) | {"assertCountEqual"}
# Built in, and seldom the base of a project's own exception.
_EXCEPTIONS = ("BufferError", "FloatingPointError", "ReferenceError", "EOFError", "ProcessLookupError")
_PLAIN_PATTERN = re.compile(r"[rR]?(['\"])[\w .,:'=-]+\1")
_MANY_LETTERS = 3
_SWAPPED = 0.6
"""How often items of a list change places, where that makes a difference."""


def iter_certain(body: Sequence[ast.stmt], find_constant: _FindConstant) -> Iterator[ast.stmt]:
    """The statements, those inside of others too, in order; ends where the test may end early."""
    for statement in body:
        yield statement
        yield from _iter_inside(statement, find_constant)
        if _may_leave(statement):
            return


def _iter_inside(statement: ast.stmt, find_constant: _FindConstant) -> Iterator[ast.stmt]:
    match statement:
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            if not any(_call_name(item.context_expr) in _SWALLOWS for item in items):
                yield from iter_certain(body, find_constant)
        case ast.For(iter=iterable, body=body) if _has_items(iterable, find_constant):
            yield from iter_certain(body, find_constant)
        case ast.Try(handlers=[], body=body):
            yield from iter_certain(body, find_constant)
        case _:
            return


def _call_name(node: ast.expr) -> str:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name
        case _:
            return ""


def _has_items(iterable: ast.expr, find_constant: _FindConstant) -> bool:
    match iterable:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return any(not isinstance(item, ast.Starred) for item in items)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
            return count > 0
        case ast.Call(func=ast.Name(id="enumerate"), args=[inner]):
            return _has_items(inner, find_constant)
        case ast.Name(id=name):
            constant = find_constant(name)
            return (
                constant is not None
                and not isinstance(constant, ast.Name)
                and _has_items(constant, find_constant)
            )
        case _:
            return False


def _may_leave(statement: ast.stmt) -> bool:
    """Whether control may leave the block here without a failure."""
    if isinstance(statement, (*_LEAVES, ast.Raise)):
        return True
    children = (
        node for node in ast.iter_child_nodes(statement) if isinstance(node, ast.stmt | ast.ExceptHandler)
    )
    if isinstance(statement, _INNER):
        return False
    return any(
        isinstance(node, _LEAVES)
        or (isinstance(node, ast.stmt) and _may_leave(node))
        or _handler_leaves(node)
        for node in children
    )


def _handler_leaves(node: ast.AST) -> bool:
    return isinstance(node, ast.ExceptHandler) and any(map(_may_leave, node.body))


@dataclass(frozen=True)
class Twist:
    """Edits that make a test wrong."""

    kind: TwinKind
    edits: list[SourceEdit]
    line: int


def find_twist(
    source: SourceText, function: Function, scope: TestScope, rng: random.Random, helper: str
) -> Twist | None:
    """The first assertion that a literal can make wrong, else the first that can be made wrong at all."""
    finder = _Finder(source, scope, rng, helper)
    fallback: Twist | None = None
    for statement in iter_certain(function.body, scope.find_constant):
        for twist in finder.iter_twists(statement):
            if twist.kind == "literal":
                return twist
            fallback = fallback or twist
    return fallback


class _Finder:
    def __init__(self, source: SourceText, scope: TestScope, rng: random.Random, helper: str) -> None:
        self._source = source
        self._scope = scope
        self._rng = rng
        self._helper = helper

    def iter_twists(self, statement: ast.stmt) -> Iterator[Twist]:
        match statement:
            case ast.Assert(test=test):
                yield from self._twist_truth(test)
            case ast.Expr(value=ast.Call() as call):
                yield from self._twist_method(call)
            case ast.With(items=items) | ast.AsyncWith(items=items):
                for item in items:
                    if isinstance(item.context_expr, ast.Call):
                        yield from self._twist_raises(item.context_expr)
            case _:
                return

    def _literal(self, node: ast.expr) -> Iterator[Twist]:
        edits = self._scope.changer.find(node)
        if edits is not None:
            yield Twist("literal", edits, node.lineno)

    def _swap(self, node: ast.expr) -> Iterator[Twist]:
        """Two items in each other's place, now and then: what explains the one list explains the other."""
        if not isinstance(node, ast.List | ast.Tuple) or self._rng.random() >= _SWAPPED:
            return
        items = node.elts
        texts = [self._source.read(item) for item in items]
        places = [
            (one, other)
            for one, other in combinations(range(len(items)), 2)
            if do_differ(items[one], items[other]) and not _is_sorted(_exchange(texts, one, other))
        ]
        # Of two lists, the one that is in order would be the right one.
        if places and not _is_sorted(texts):
            one, other = self._rng.choice(places)
            edits = [
                self._source.replace(items[one], texts[other]),
                self._source.replace(items[other], texts[one]),
            ]
            yield Twist("literal", edits, node.lineno)

    def _replace(self, kind: TwinKind, node: ast.expr, text: str) -> Twist:
        return Twist(kind, [self._source.replace(node, text)], node.lineno)

    def _twist_truth(self, test: ast.expr) -> Iterator[Twist]:
        match test:
            case ast.Compare():
                yield from self._twist_comparison(test)
            case ast.BoolOp(op=ast.And(), values=values):
                for value in values:
                    yield from self._twist_truth(value)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._replace("operator", test, f"({self._source.read(operand)})")
            case ast.Call() | ast.Name() | ast.Attribute() | ast.Subscript():
                yield self._replace("operator", test, f"not {self._source.read(test)}")
            case _:
                yield self._replace("operator", test, f"not ({self._source.read(test)})")

    def _twist_comparison(self, test: ast.Compare) -> Iterator[Twist]:
        expected, operator = test.comparators[-1], test.ops[-1]
        before = test.comparators[-2] if len(test.comparators) > 1 else test.left
        match operator:
            case ast.Eq():
                yield from self._swap(expected)
                yield from self._literal(expected)
                yield from self._literal(before) if before is test.left else ()
                yield self._replace("helper", expected, f"{self._helper}({self._source.read(expected)})")
            case ast.Is() if isinstance(expected, ast.Constant) and isinstance(expected.value, bool):
                yield from self._literal(expected)
            case ast.In() if isinstance(before, ast.Constant) and isinstance(before.value, str | bytes):
                changed = self._scope.changer.change_text(self._source.read(before), times=_MANY_LETTERS)
                if changed is not None:
                    yield self._replace("letters", before, changed)
        yield from self._reverse(before, operator, expected)

    def _reverse(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Iterator[Twist]:
        pattern, opposite = _OPPOSITES[type(operator)]
        start, end = self._source.span(left)[1], self._source.span(right)[0]
        between = self._source.data[start:end].decode()
        if "#" in between or len(re.findall(pattern, between)) != 1:
            return
        yield Twist("operator", [SourceEdit(start, end, re.sub(pattern, opposite, between))], right.lineno)

    def _twist_method(self, call: ast.Call) -> Iterator[Twist]:
        match call:
            case ast.Call(func=ast.Attribute(attr=name), args=[first, second, *_]) if name in _EQUALITIES:
                yield from self._swap(second) if name != "assertCountEqual" else ()
                yield from self._literal(second)
                yield from self._literal(first)
                yield self._replace("helper", second, f"{self._helper}({self._source.read(second)})")
            case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in _OPPOSITE_METHODS:
                opposite = f"{self._source.read(owner)}.{_OPPOSITE_METHODS[name]}"
                yield self._replace("operator", call.func, opposite)
            case _:
                yield from self._twist_raises(call)

    def _twist_raises(self, call: ast.Call) -> Iterator[Twist]:
        match call:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[expected, *others]) if (
                name in RAISES
            ):
                patterns = [keyword.value for keyword in call.keywords if keyword.arg == "match"]
                patterns += others[:1] if name == "assertRaisesRegex" else []
                for pattern in patterns:
                    yield from self._twist_pattern(pattern)
                known = self._source.read(expected)
                other = self._rng.choice([name for name in _EXCEPTIONS if name not in known])
                yield self._replace("exception", expected, other)
            case _:
                return

    def _twist_pattern(self, pattern: ast.expr) -> Iterator[Twist]:
        text = self._source.read(pattern)
        # Without special characters, a pattern matches itself alone.
        if isinstance(pattern, ast.Constant) and _PLAIN_PATTERN.fullmatch(text):
            changed = self._scope.changer.change_text(text, times=_MANY_LETTERS)
            if changed is not None:
                yield self._replace("letters", pattern, changed)


def _exchange(texts: Sequence[str], one: int, other: int) -> list[str]:
    changed = [*texts]
    changed[one], changed[other] = texts[other], texts[one]
    return changed


def _is_sorted(texts: Sequence[str]) -> bool:
    return list(texts) == sorted(texts)
