"""Puts chunks on lines."""

import re
from dataclasses import dataclass

from textkit.chunks import Chunk, split_chunks, split_long

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")


@dataclass(frozen=True)
class _Options:
    width: int
    initial_indent: str
    subsequent_indent: str
    break_long_words: bool
    max_lines: int | None
    placeholder: str

    def check(self) -> None:
        for indent in (self.initial_indent, self.subsequent_indent):
            if len(indent) >= self.width:
                raise ValueError(f"width {self.width} leaves no room beside the indent {indent!r}")
        if self.max_lines is not None:
            if self.max_lines < 1:
                raise ValueError(f"max_lines must be at least 1, not {self.max_lines}")
            if len(self.placeholder.lstrip()) > self.room(self.max_lines - 1):
                raise ValueError(f"width {self.width} is too small for the placeholder {self.placeholder!r}")

    def indent(self, line_number: int) -> str:
        """What stands at the beginning of a line, counted from 0."""
        return self.subsequent_indent if line_number else self.initial_indent

    def room(self, line_number: int) -> int:
        """What a line has left for text."""
        return self.width - len(self.indent(line_number))


class _Lines:
    """The lines made so far, and the pieces of the one that is being filled."""

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._done: list[list[str]] = []
        self._pieces: list[str] = []
        self._left = options.room(0)

    def add(self, chunk: Chunk) -> None:
        space = " " if chunk.space_before and self._pieces else ""
        if len(space) + len(chunk.text) <= self._left:
            self._put(space + chunk.text)
        elif self._options.break_long_words and len(chunk.text) > self._next_room():
            self._add_broken(chunk.text, space)
        else:
            self._start_line()
            self._put(chunk.text)

    def _add_broken(self, text: str, space: str) -> None:
        if self._left <= len(space):
            self._start_line()
            space = ""
        while text:
            head, text = split_long(text, self._left - len(space))
            self._put(space + head)
            space = ""
            if text:
                self._start_line()

    def _put(self, piece: str) -> None:
        self._pieces.append(piece)
        self._left -= len(piece)

    def _next_room(self) -> int:
        """What the next line has for text that has nothing on it yet: this one, if it is empty."""
        return self._options.room(len(self._done) + bool(self._pieces))

    def _start_line(self) -> None:
        if self._pieces:
            self._done.append(self._pieces)
        self._pieces = []
        self._left = self._options.room(len(self._done))

    def finish(self) -> list[str]:
        self._start_line()
        limit = self._options.max_lines
        if limit is not None and len(self._done) > limit:
            self._done = [*self._done[: limit - 1], self._cut(self._done[limit - 1], limit - 1)]
        return [self._options.indent(number) + "".join(pieces) for number, pieces in enumerate(self._done)]

    def _cut(self, pieces: list[str], line_number: int) -> list[str]:
        """The pieces of the last permitted line, fewer where the placeholder needs the room."""
        placeholder = self._options.placeholder
        room = self._options.room(line_number)
        kept = list(pieces)
        while kept and sum(map(len, kept)) + len(placeholder) > room:
            kept.pop()
        return [*kept, placeholder] if kept else [placeholder.lstrip()]


def wrap(
    text: str,
    width: int = 70,
    *,
    initial_indent: str = "",
    subsequent_indent: str = "",
    break_long_words: bool = True,
    max_lines: int | None = None,
    placeholder: str = " [...]",
) -> list[str]:
    """The lines of one paragraph; an empty paragraph has none."""
    options = _Options(width, initial_indent, subsequent_indent, break_long_words, max_lines, placeholder)
    options.check()
    lines = _Lines(options)
    for chunk in split_chunks(text):
        lines.add(chunk)
    return lines.finish()


def fill(text: str, width: int = 70, *, initial_indent: str = "", subsequent_indent: str = "") -> str:
    """Wrap each paragraph of a text; paragraphs are separated by one blank line."""
    paragraphs = (
        wrap(paragraph, width, initial_indent=initial_indent, subsequent_indent=subsequent_indent)
        for paragraph in _BLANK_LINES.split(text)
    )
    return "\n\n".join("\n".join(lines) for lines in paragraphs if lines)


def shorten(text: str, width: int, *, placeholder: str = " [...]") -> str:
    """The text on one line of at most `width`, cut at a chunk where it is too long."""
    lines = wrap(text, width, max_lines=1, placeholder=placeholder, break_long_words=False)
    return lines[0] if lines else ""
