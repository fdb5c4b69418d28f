"""Source text with the positions of its syntax tree."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence

import msgspec

from repotrial._core.python_source import parse_python


class Edit(msgspec.Struct, frozen=True):
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

    def replace(self, node: ast.expr, text: str) -> Edit:
        """The edit that writes `text` in the node's place."""
        return Edit(*self.span(node), text)

    def apply(self, edits: Sequence[Edit], *, start: int = 0, end: int | None = None) -> str:
        """A stretch of the source with the edits in it."""
        stop = len(self.data) if end is None else end
        parts: list[bytes] = []
        position = start
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            parts += [self.data[position : edit.start], edit.text.encode()]
            position = edit.end
        return b"".join([*parts, self.data[position:stop]]).decode()
