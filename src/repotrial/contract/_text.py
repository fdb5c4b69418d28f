"""Bytes to text to values, strictly: UTF-8 without a byte order mark, TOML, JSON without repeated keys."""

from __future__ import annotations

import codecs
import json
import re
import tomllib
from bisect import bisect_right
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import TYPE_CHECKING, Any

from repotrial.contract._problems import Place, Problem, enclosing_field, render_field

if TYPE_CHECKING:
    from tree_sitter import Node


_KEYS = {"bare_key", "quoted_key", "dotted_key"}
_TABLES = {"table", "table_array_element"}
_MOST_STEPS = 16
"""Deeper than any field of a document of ours; what is below is found at the table around it."""


class LineIndex:
    """Lines of all keys, tables and array items of one document, by their dotted path."""

    def __init__(self, document: bytes) -> None:
        self._document = document

    def locate(self, field: str) -> int | None:
        """Line of the field, counted from 1; of the nearest table around it where it does not stand there."""
        while field:
            line = self._scan.lines.get(field)
            if line is not None:
                return line
            field = enclosing_field(field)
        return None

    @property
    def first_repeat(self) -> tuple[str, int, int] | None:
        """The first key or table that is written twice, with both lines."""
        return self._scan.repeat

    @cached_property
    def _scan(self) -> _Scan:
        import tree_sitter_toml
        from tree_sitter import Language, Parser

        tree = Parser(Language(tree_sitter_toml.language())).parse(self._document)
        return _Scan(self._document, tree.root_node)


class _Scan:
    """One pass over the syntax tree."""

    def __init__(self, document: bytes, root: Node) -> None:
        self._document = document
        self._line_starts = [0, *(match.end() for match in re.finditer(rb"\n", document))]
        self.lines: dict[str, int] = {}
        self.repeat: tuple[str, int, int] | None = None
        self._written: dict[Place, int] = {}
        self._lengths: dict[Place, int] = {}
        """How many elements each array of tables has so far."""
        for node in root.named_children:
            if node.type == "pair":
                self._add_pair(node, ())
            elif node.type in _TABLES:
                self._add_table(node)

    def _add_table(self, node: Node) -> None:
        parts = [
            part for child in node.named_children if child.type in _KEYS for part in self._key_parts(child)
        ]
        place: Place = ()
        for part in parts[:-1]:
            place = self._latest((*place, part))
            self._note(place, node)
        if parts:
            place = (*place, parts[-1])
            if node.type == "table_array_element":
                position = self._lengths.get(place, 0)
                self._lengths[place] = position + 1
                self._note(place, node)
                place = (*place, position)
            self._write(place, node)
        for child in node.named_children:
            if child.type == "pair":
                self._add_pair(child, place)

    def _latest(self, place: Place) -> Place:
        """A header's key that names an array of tables means its last element."""
        length = self._lengths.get(place)
        return place if length is None else (*place, length - 1)

    def _add_pair(self, node: Node, base: Place) -> None:
        # A stack instead of recursion: the depth of a document is its author's choice.
        pending = [(node, base)]
        while pending:
            pair, outer = pending.pop()
            children = _named(pair)
            if not children or children[0].type not in _KEYS:
                continue
            parts = self._key_parts(children[0])
            place = outer
            for part in parts[:-1]:
                place = (*place, part)
                self._note(place, pair)
            place = (*place, *parts[-1:])
            self._write(place, pair)
            pending.extend(self._pairs_inside(children[-1], place))

    def _pairs_inside(self, value: Node, place: Place) -> list[tuple[Node, Place]]:
        """The pairs of all inline tables in a value; items of arrays are noted on the way."""
        pairs: list[tuple[Node, Place]] = []
        pending = [(value, place)]
        while pending:
            node, outer = pending.pop()
            if node.type == "inline_table":
                pairs.extend((child, outer) for child in reversed(_named(node)) if child.type == "pair")
            elif node.type == "array" and len(outer) < _MOST_STEPS:
                for position, item in enumerate(_named(node)):
                    self._note((*outer, position), item)
                    pending.append((item, (*outer, position)))
        return pairs

    def _key_parts(self, node: Node) -> list[str]:
        parts: list[str] = []
        pending = [node]
        while pending:
            key = pending.pop()
            if key.type == "dotted_key":
                pending.extend(reversed(_named(key)))
            elif key.type in _KEYS:
                parts.append(
                    _key_text(self._document[key.start_byte : key.end_byte].decode(errors="replace"))
                )
        return parts

    def _line_of(self, node: Node) -> int:
        # Not `start_point`: in tree-sitter 0.26.0 it frees what it does not own and ends the process
        # (py-tree-sitter issue 472).
        return bisect_right(self._line_starts, node.start_byte)

    def _note(self, place: Place, node: Node) -> None:
        self.lines.setdefault(render_field(place), self._line_of(node))

    def _write(self, place: Place, node: Node) -> None:
        line = self._line_of(node)
        first = self._written.setdefault(place, line)
        field = render_field(place)
        if first != line and self.repeat is None:
            self.repeat = (field, first, line)
        # A table that was only implied by a longer header before is now written itself.
        self.lines[field] = first


def _named(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


def _key_text(written: str) -> str:
    if not written.startswith(('"', "'")):
        return written
    try:
        return next(iter(tomllib.loads(f"{written} = 0")))
    except tomllib.TOMLDecodeError:
        return written


MAX_KEY_PARTS = 32
"""Most parts of one dotted key. tomllib needs memory in the square of it: 500,000 parts end the process."""

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"(?:\.[ \t]*{_PART}[ \t]*){{{MAX_KEY_PARTS}}}")
_LONG_NUMBER = re.compile(r"[0-9][0-9_]{4000,}")
_POSITION = re.compile(r"\s*\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)\Z")
_DUPLICATE_WORDS = ("Cannot overwrite", "twice", "Cannot mutate", "already")


def decode_text(data: bytes, *, file: str) -> str | Problem:
    """UTF-8, or the problem with its byte offset."""
    if data.startswith(codecs.BOM_UTF8):
        return Problem(
            code="file-not-utf8",
            severity="error",
            file=file,
            line=1,
            message="expected UTF-8 text, found a byte order mark at byte 0",
            hint="save the file as UTF-8 without a byte order mark",
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return Problem(
            code="file-not-utf8",
            severity="error",
            file=file,
            line=data.count(b"\n", 0, error.start) + 1,
            message=f"expected UTF-8 text, found byte 0x{data[error.start]:02x} at byte offset {error.start}",
            hint="save the file as UTF-8",
        )


def parse_toml(text: str, *, file: str) -> dict[str, Any] | Problem:
    """The value of a TOML document; fractions are exact decimals."""
    long_key = _LONG_KEY.search(text)
    if long_key is not None:
        return _syntax(
            "toml-syntax",
            file,
            _line_at(text, long_key.start()),
            f"expected keys of at most {MAX_KEY_PARTS} dotted parts, found a longer one",
        )
    try:
        return tomllib.loads(text, parse_float=_parse_decimal)
    except tomllib.TOMLDecodeError as error:
        return _toml_problem(text, str(error), file)
    except RecursionError:
        return _syntax("toml-syntax", file, None, "expected a flat document, found hundreds of nested levels")
    except ValueError as error:
        # int() refuses thousands of digits; a date such as 2024-02-31 arrives here as well.
        number = _LONG_NUMBER.search(text)
        line = None if number is None else _line_at(text, number.start())
        found = f"{error}" if number is None else "an integer of thousands of digits"
        return _syntax("toml-syntax", file, line, f"expected a TOML value, found: {found}")


def parse_json(text: str, *, file: str) -> object | Problem:
    """The value of a JSON document; a repeated key, `NaN` and `Infinity` are refused."""
    try:
        value: object = json.loads(
            text, parse_float=_parse_decimal, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys
        )
    except json.JSONDecodeError as error:
        return _syntax(
            "json-syntax", file, error.lineno, f"expected JSON, found: {error.msg} (column {error.colno})"
        )
    except RecursionError:
        return _syntax("json-syntax", file, None, "expected JSON, found thousands of levels of nesting")
    except ValueError as error:
        return _syntax("json-syntax", file, None, f"expected strict JSON, found: {error}")
    return value


def _toml_problem(text: str, words: str, file: str) -> Problem:
    position = _POSITION.search(words)
    line = column = None
    if position is not None:
        words = words[: position.start()]
        line = int(position["line"]) if position["line"] else text.count("\n") + 1
        column = position["column"]
    if any(word in words for word in _DUPLICATE_WORDS):
        repeat = LineIndex(text.encode()).first_repeat
        if repeat is not None:
            field, first, second = repeat
            return _syntax(
                "toml-syntax",
                file,
                second,
                f"expected each key and table once, found {field!r} again (first on line {first})",
                field=field,
            )
    where = f" (column {column})" if column else ""
    return _syntax("toml-syntax", file, line, f"expected TOML, found: {_lower_first(words)}{where}")


def _syntax(code: str, file: str, line: int | None, message: str, *, field: str = "") -> Problem:
    return Problem(code=code, severity="error", file=file, line=line, field=field, message=message)


def _lower_first(words: str) -> str:
    return words[:1].lower() + words[1:]


def _line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _parse_decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent that even a decimal cannot hold
        return Decimal("Infinity")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"the number {name}")


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key[:80]!r} twice in one object")
            seen.add(key)
    return value
