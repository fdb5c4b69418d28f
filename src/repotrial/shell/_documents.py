"""Commands that stand in a here-document: a shell runs them while it fills the text in.

Only the grammar can tell where `$(…)` ends: comments, `case`, `${x%)}` and documents within it all hold
parentheses that close nothing. What is parsed for that is bounded; where the bound ends, that is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Literal

import msgspec
from tree_sitter import Node

from repotrial.shell._source import build_source, iter_substitution_nodes, parse_bytes

_MAX_CHARACTERS: Final = 4096
"""Of one substitution; the grammar's time for what it cannot read grows with the square."""
_MAX_CLOSINGS: Final = 12
_LEAST_COST: Final = 64
_OPENING = re.compile(r"\\.|\$\(\(|\$\(|`", re.DOTALL)
_INSIDE = re.compile(r"""\\.|'[^']*'|"(?:[^"\\]|\\.)*"|[()]""", re.DOTALL)
_BACKTICK = re.compile(r"\\.|`", re.DOTALL)
_CLOSING = re.compile(r"\)")
_WHOLE: Final = frozenset({"command_substitution", "arithmetic_expansion"})


class _Substitution(msgspec.Struct, frozen=True, kw_only=True):
    """What a shell runs to fill a text in."""

    text: str
    """The commands."""
    start: int | None = None
    """Where they stand to the letter; None where backslashes were taken off."""
    fault: Literal["unclear", "too-many"] | None = None
    """Why there may be more to it."""


class _Found(msgspec.Struct, frozen=True):
    end: int
    inner: tuple[_Substitution, ...]


def iter_substitutions(text: str, spend: Callable[[int], bool]) -> Iterator[_Substitution]:
    """Commands in `$(…)` and in backticks; without an end, all that follows.

    Args:
        text: The document.
        spend: Counts characters that are looked at; false where there were too many.
    """
    position = 0
    while (opening := _OPENING.search(text, position)) is not None:
        if opening[0].startswith("\\"):
            position = opening.end()
            continue
        find = _find_backticks if opening[0] == "`" else _find_parentheses
        found = find(text, opening.start(), spend)
        if found is None:
            yield _Substitution(text="", fault="too-many")
            return
        yield from found.inner
        position = found.end


def find_length(text: str, spend: Callable[[int], bool]) -> int | None:
    """How much of a text is the substitution that it begins with; None where too much was looked at."""
    found = _find_parentheses(text, 0, spend)
    return None if found is None else found.end


def unescape_backticks(text: str, *, is_quoted: bool) -> str:
    """Commands between backticks, as the shell reads them: a backslash before some characters goes."""
    return re.sub(r'\\([$`\\"])' if is_quoted else r"\\([$`\\])", r"\1", text)


def iter_misread_sums(root: Node) -> Iterator[int]:
    """Where `$((` stands in what is no syntax, in order."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "$((":
            yield node.start_byte
        elif node.has_error:
            waiting.extend(reversed(node.children))


def _find_backticks(text: str, start: int, spend: Callable[[int], bool]) -> _Found | None:
    closings = (each.start() for each in _BACKTICK.finditer(text, start + 1) if each[0] == "`")
    end = next(closings, len(text))
    if not spend(end - start + _LEAST_COST):
        return None
    return _Found(end + 1, (_read_backticks(text[start + 1 : end], start + 1),))


def _read_backticks(text: str, start: int) -> _Substitution:
    commands = unescape_backticks(text, is_quoted=False)
    return _Substitution(text=commands, start=start if commands == text else None)


def _find_parentheses(text: str, start: int, spend: Callable[[int], bool]) -> _Found | None:
    guessed = _guess_closing(text, start)
    last = min(start + _MAX_CHARACTERS, len(text))
    closings = (each.end() for each in _CLOSING.finditer(text, start, last))
    for end in dict.fromkeys((guessed or last, last, *islice(closings, _MAX_CLOSINGS))):
        if not spend(end - start + _LEAST_COST):
            return None
        if (found := _read_leading(text[start:end], start)) is not None:
            return found
    is_sum = text.startswith("$((", start) and guessed is not None
    if is_sum and _guess_closing(text, start + 2) == (guessed or 0) - 1:
        return _Found(start + 3, ())  # one that the grammar cannot read (`10#$x`); what it runs comes next
    # Where nothing closes it, all that follows is read, and nothing is left that could be missed.
    fault: Literal["unclear"] | None = None if guessed is None and last == len(text) else "unclear"
    commands = text[start + 2 : last if guessed is None else guessed - 1]
    return _Found(guessed or last, (_Substitution(text=commands, start=start + 2, fault=fault),))


def _guess_closing(text: str, start: int) -> int | None:
    """Where it would end if only quotes mattered."""
    depth = 0
    for found in _INSIDE.finditer(text, start, start + _MAX_CHARACTERS):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if not depth and found[0] == ")":
            return found.end()
    return None


def _read_leading(text: str, start: int) -> _Found | None:
    """The substitution that a text begins with; None where the grammar sees no whole one there."""
    node = _parse_leading(text)
    if node is None and text.startswith("$(("):
        # The grammar takes `$((a) | b)` for a sum unless a blank says that it is none.
        text, start = "$( " + text[2:], start - 1
        node = _parse_leading(text)
    if node is None:
        return None
    data = text.encode("utf-8", "surrogatepass")
    end = _count(data, node.end_byte)
    if _is_sum(node):
        inner = tuple(_read_node(data, each, start) for each in iter_substitution_nodes(node))
    else:
        inner = (_Substitution(text=text[2 : end - 1], start=start + 2),)
    return _Found(start + end, inner)


def _is_sum(node: Node) -> bool:
    """A shell takes `$((…))` for a sum wherever its parentheses match, whether it is one or not."""
    if node.type == "arithmetic_expansion":
        return True
    named = [each for each in node.children if each.is_named]
    return (
        len(named) == 1
        and named[0].type == "subshell"
        and (named[0].start_byte, named[0].end_byte) == (len("$( "), node.end_byte - 1)
    )


def _parse_leading(text: str) -> Node | None:
    pieces = build_source(text).pieces
    node: Node | None = parse_bytes(pieces[0].data) if pieces else None
    while node is not None and node.type not in _WHOLE:
        node = node.children[0] if node.children and not node.children[0].start_byte else None
    return None if node is None or node.has_error else node


def _read_node(data: bytes, node: Node, start: int) -> _Substitution:
    first = node.start_byte + (1 if data.startswith(b"`", node.start_byte) else 2)
    commands = data[first : node.end_byte - 1].decode("utf-8", "surrogatepass")
    place = start + _count(data, first)
    if first == node.start_byte + 1:
        return _read_backticks(commands, place)
    return _Substitution(text=commands, start=place)


def _count(data: bytes, end: int) -> int:
    return len(data[:end].decode("utf-8", "surrogatepass"))
