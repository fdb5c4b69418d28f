"""Where the fields of a TOML document stand.

tomllib gives values without positions, so the lines come from a second parse (tree-sitter), which happens
only when somebody asks for a line.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from repotrial.contract._finding import Place, enclosing_field, render_field

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
