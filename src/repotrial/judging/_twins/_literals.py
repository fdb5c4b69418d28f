"""Other literals of the same type, written in the same way.

Everything here keeps one promise: an expression with these edits has a value that differs from its value
without them. What cannot promise that is left alone.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from repotrial._core.python_source import parse_python
from repotrial.judging._twins._functions import SourceEdit, SourceText

_Resolve: TypeAlias = Callable[[ast.Name], "list[SourceEdit] | None"]
"""Edits that change what a name stands for, where that is known."""

_EMPTY = {"[]": "[%s]", "()": "(%s,)", "{}": "{%s: %s}"}
_BUILDERS = frozenset(
    {"list", "tuple", "dict", "bytearray", "Decimal", "Path", "PurePath", "PurePosixPath", "dedent"}
)
"""Functions whose value changes with a letter or digit of their argument."""
_METHODS = frozenset({"encode", "strip", "lstrip", "rstrip", "split", "splitlines"})
"""Methods, called without arguments, of which the same holds for the text they belong to."""
_MAX_TRIES = 40
_LIKELY = 0.8
"""How often a text becomes shorter or longer rather than getting a strange letter."""


class LiteralChanger:
    """Finds edits that certainly change an expression's value."""

    def __init__(self, source: SourceText, function: ast.stmt, rng: random.Random, resolve: _Resolve) -> None:
        self._source = source
        self._rng = rng
        self._resolve = resolve
        self._constants = sorted(_iter_constants(source, source.tree))
        """Numbers and texts of the file as they are written there, as often as they are."""
        self._own = sorted(_iter_constants(source, function))
        """Those of the test."""

    def find(self, node: ast.expr) -> list[SourceEdit] | None:
        """Edits below `node`; None where no literal decides its value."""
        match node:
            case ast.Constant() | ast.JoinedStr():
                text = self._change_likely(node) or self.change_text(self._source.read(node))
                return None if text is None else [self._source.replace(node, text)]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float()) as number):
                return self.find(number)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return self._find_in_items(
                    node, [item for item in items if not isinstance(item, ast.Starred)]
                )
            case ast.Set(elts=items):
                return self._find_in_set(items)
            case ast.Dict(keys=keys, values=values):
                return self._find_in_dict(node, keys, values)
            case ast.BinOp():
                return self._find_in_operation(node)
            case ast.Call():
                return self._find_in_call(node)
            case ast.Name():
                return self._resolve(node)
            case _:
                return None

    def _find_first(self, nodes: Sequence[ast.expr]) -> list[SourceEdit] | None:
        order = list(nodes)
        self._rng.shuffle(order)
        return next((edits for edits in map(self.find, order) if edits is not None), None)

    def _find_in_items(self, node: ast.expr, items: Sequence[ast.expr]) -> list[SourceEdit] | None:
        filled = _EMPTY.get(self._source.read(node))
        if filled:
            text = filled.replace("%s", self._rng.choice(self._constants or ["0"]))
            return [self._source.replace(node, text)]
        # Something where nothing was would always be wrong, if nothing never took the place of something.
        if _has_one_constant(node) and self._rng.random() < 1 / 2:
            empty = {ast.List: "[]", ast.Tuple: "()", ast.Dict: "{}"}[type(node)]
            return [self._source.replace(node, empty)]
        return self._find_first(items)

    def _find_in_set(self, items: Sequence[ast.expr]) -> list[SourceEdit] | None:
        values = {item.value for item in items if isinstance(item, ast.Constant)}
        # An element that is there twice, or that another expression may give, would not be missed.
        return self._find_first(items) if len(values) == len(items) else None

    def _find_in_dict(
        self, node: ast.expr, keys: Sequence[ast.expr | None], values: Sequence[ast.expr]
    ) -> list[SourceEdit] | None:
        if all(isinstance(key, ast.Constant) for key in keys):
            return self._find_in_items(node, values)
        # A later item may take the place of an earlier one, but nothing comes after the last.
        return self.find(values[-1]) if keys[-1] is not None else None

    def _find_in_operation(self, node: ast.BinOp) -> list[SourceEdit] | None:
        match node.op, node.left, node.right:
            case ast.Add(), left, right:
                # A literal in its place is less conspicuous than one where a name was.
                first, second = (left, right) if isinstance(right, ast.Name) else (right, left)
                return self.find(first) or self.find(second)
            case ast.Sub(), left, right:
                numbers = [side for side in (right, left) if _is_number(side)]
                return self.find(numbers[0]) if numbers else None
            case ast.Mult(), sequence, ast.Constant(value=int() as times) if times > 0:
                return self.find(sequence)
            case ast.Mult(), ast.Constant(value=int() as times), sequence if times > 0:
                return self.find(sequence)
            case _:
                return None

    def _find_in_call(self, node: ast.Call) -> list[SourceEdit] | None:
        match node:
            case ast.Call(func=ast.Attribute(attr="join", value=ast.Constant()), args=[ast.List() as items]):
                return self.find(items) if items.elts else None
            case ast.Call(func=ast.Attribute(attr=name, value=ast.Constant() as text), args=[], keywords=[]):
                return self.find(text) if name in _METHODS and text.value else None
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[argument], keywords=[]):
                if name == "approx":
                    return self._find_far(argument)
                if name == "Decimal":
                    return self._find_digit(argument)
                if name in {"set", "frozenset"} and isinstance(argument, ast.List | ast.Tuple | ast.Set):
                    return self._find_in_set(argument.elts)
                return self.find(argument) if name in _BUILDERS else None
            case _:
                return None

    def _find_digit(self, node: ast.expr) -> list[SourceEdit] | None:
        """Another digit: without the last one, the number may be the same."""
        if not isinstance(node, ast.Constant):
            return self.find(node)
        old = self._source.read(node)
        known = self._find_known(old, str(node.value))
        is_other = known is not None and known.strip("'\"0") != old.strip("'\"0")
        text = known if is_other else self.change_text(old)
        return self.find(node) if text is None else [self._source.replace(node, text)]

    def _find_far(self, node: ast.expr) -> list[SourceEdit] | None:
        """A number far enough away for every tolerance that is not stated."""
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                far = number * 2 + self._rng.randint(2, 9)
                return [self._source.replace(node, repr(far))]
            case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]):
                return self._find_far(first)
            case _:
                return None

    def _change_likely(self, node: ast.expr) -> str | None:
        """Another value that the same inputs could have given; None where a stranger has to do.

        A comparison of a test with its twin shows letters that occur nowhere else in the test. A letter less,
        one that follows in the same file too, and a neighboring number look as right as the original.
        """
        text = self._source.read(node)
        match node:
            case ast.Constant(value=int(number)) if text.isdecimal() and text == str(number):
                return str(number + (self._rng.choice((-1, 1)) if number else 1))
            case ast.Constant(value=str(old)) if (known := self._find_known(text, old)) is not None:
                return known
            case ast.Constant(value=str(old)) if self._rng.random() < _LIKELY:
                candidate = self._shift_end(text)
                return candidate if candidate is not None and _is_other_text(old, candidate) else None
            case _:
                return None

    def _find_known(self, text: str, old: str) -> str | None:
        """Another text of the same form, from where the text itself stands as well: the test, or the file.

        Of two texts, the one that is known from other places would be the right one.
        """
        is_own = self._own.count(text) > 1
        if not is_own and self._constants.count(text) <= 1:
            return None
        form = _describe_form(old)
        alike = [
            other
            for other in (self._own if is_own else self._constants)
            if other[0] == text[0]
            and other != text
            and "\\" not in other
            and _describe_form(other[1:-1]) == form
        ]
        return self._rng.choice(alike) if alike else None

    def _shift_end(self, text: str) -> str | None:
        """The literal without its last letter, or with one more."""
        index = max((index for index, character in enumerate(text) if character.isalnum()), default=None)
        if index is None:
            return None
        if self._rng.random() < 1 / 2:
            return text[:index] + text[index + 1 :]
        file = self._source.data.decode()
        following = [second for first, second in pairwise(file) if first == text[index] and second.isalnum()]
        return text[: index + 1] + self._rng.choice(following) + text[index + 1 :] if following else None

    def change_text(self, text: str, *, times: int = 1) -> str | None:
        """The literal with so many letters or digits changed; None if it has too few."""
        known = {"True": "False", "False": "True", '""': f'"{self._letter()}"', "''": f"'{self._letter()}'"}
        if text in known:
            return known[text]
        places = [index for index, character in enumerate(text) if character.isalnum()]
        if not places:
            places = [index for index, character in enumerate(text) if character in " .,-+=:;!?<>|/*_"]
        changed, done = text, 0
        for index in self._rng.sample(places, min(len(places), _MAX_TRIES)):
            candidate = changed[:index] + self._other(changed[index]) + changed[index + 1 :]
            if _is_like(changed, candidate):
                changed, done = candidate, done + 1
            if done == times:
                return changed
        return None

    def _letter(self) -> str:
        return self._rng.choice("abcdefghijklmnopqrstuvwxyz")

    def _other(self, character: str) -> str:
        for alphabet in ("123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"):
            if character in alphabet or (character, alphabet[0]) == ("0", "1"):
                return self._rng.choice(alphabet.replace(character, ""))
        if character.isalnum():
            neighbor = chr(ord(character) + self._rng.randint(1, 3))
            return neighbor if neighbor.isalnum() else chr(ord(character) - 1)
        return self._rng.choice("-.:_ ".replace(character, ""))


def do_differ(one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions certainly have different values."""
    match one, other:
        case ast.Constant(value=first), ast.Constant(value=second):
            return type(first) is type(second) and first != second
        case (ast.List(elts=first), ast.List(elts=second)) | (ast.Tuple(elts=first), ast.Tuple(elts=second)):
            has_stars = any(isinstance(item, ast.Starred) for item in (*first, *second))
            return len(first) == len(second) and not has_stars and any(map(do_differ, first, second))
        case _:
            return False


def _iter_constants(source: SourceText, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) in (int, str) and node.value != "":
            text = source.read(node)
            is_plain = text.isdecimal() or (text[0] in "'\"" and text[1:2] != text[0])
            if is_plain and "\n" not in text:
                yield text


def _describe_form(text: str) -> str:
    """The text with all words and all numbers alike: texts of one form differ in letters and digits alone."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "0", text))


def _has_one_constant(node: ast.expr) -> bool:
    match node:
        case ast.List(elts=[ast.Constant(value=value)]) | ast.Tuple(elts=[ast.Constant(value=value)]):
            return value != ""
        case ast.Dict(keys=[ast.Constant()], values=[ast.Constant()]):
            return True
        case _:
            return False


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _is_other_text(old: str, new: str) -> bool:
    try:
        value = getattr(_read_literal(new), "value", None)
    except (SyntaxError, ValueError):
        return False
    return isinstance(value, str) and value != old


def _is_like(old: str, new: str) -> bool:
    """Whether both are literals of one type and length with different values."""
    try:
        before, after = _read_literal(old), _read_literal(new)
    except (SyntaxError, ValueError):
        return False
    if isinstance(before, ast.Constant) and isinstance(after, ast.Constant):
        return _are_values_alike(before.value, after.value)
    if not (isinstance(before, ast.JoinedStr) and isinstance(after, ast.JoinedStr)):
        return False
    pairs = list(zip(before.values, after.values, strict=False))
    changed = [pair for pair in pairs if ast.dump(pair[0]) != ast.dump(pair[1])]
    return len(before.values) == len(after.values) and [
        _are_values_alike(getattr(first, "value", None), getattr(second, "value", None))
        for first, second in changed
        if isinstance(first, ast.Constant)
    ] == [True]


def _read_literal(text: str) -> ast.expr:
    match parse_python(f"({text})").body:
        case [ast.Expr(value=value)]:
            return value
        case _:
            raise ValueError("not one expression")


def _are_values_alike(before: object, after: object) -> bool:
    if type(before) is not type(after) or before == after:
        return False
    if isinstance(before, str | bytes) and isinstance(after, str | bytes):
        return len(before) == len(after)
    return isinstance(before, int | float | complex)
