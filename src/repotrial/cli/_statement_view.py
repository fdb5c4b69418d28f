"""A statement on the screen: every word of it, in the order in which an agent reads it.

A Markdown renderer would be prettier and would lie: it leaves out comments, link targets, reference
definitions and surplus table cells, and turns entities into characters that reorder text. Whoever reviews a
contract has to see what is promised. So the text stays as it is; only the lines of a paragraph are joined, so
that it fits any width, and headings and code get a style.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.text import Text

from repotrial._core.display import escape_unprintable

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BEGINS_ANEW = re.compile(r"\s*(?:$|[#>|]|[-*+=_]{2,}\s*$|[-*+]\s|[0-9]{1,9}[.)]\s)| {0,3}(?:`{3}|~{3})")
"""Lines that do not continue the paragraph before them: headings, quotes, tables, rules, items, code."""
_STANDS_ALONE = re.compile(r"\s*(?:$|[#>|]|[-*+=_]{2,}\s*$)|(?: {4}|\t)")
"""Lines that the next one does not continue."""


def render_statement(statement: str) -> Text:
    """The statement for a terminal of any width."""
    text = Text()
    for line, style in _iter_lines(escape_unprintable(statement.strip("\n"), keep="\n\t")):
        text.append(f"{line}\n", style=style)
    text.rstrip()
    return text


def _iter_lines(statement: str) -> Iterator[tuple[str, str]]:
    paragraph: list[str] = []
    fence = ""
    for line in statement.split("\n"):
        if paragraph and not _BEGINS_ANEW.match(line):
            paragraph.append(line.strip())
            continue
        yield from _end(paragraph)
        mark = _FENCE.match(line)
        if fence:
            yield line, "cyan"
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            yield line, "cyan"
            fence = mark[1]
        elif _STANDS_ALONE.match(line):
            yield line, "bold" if line.lstrip().startswith("#") else ""
        else:
            paragraph.append(line.rstrip())
    yield from _end(paragraph)


def _end(paragraph: list[str]) -> Iterator[tuple[str, str]]:
    if paragraph:
        yield " ".join(paragraph), ""
        paragraph.clear()
