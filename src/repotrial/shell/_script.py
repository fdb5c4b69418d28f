"""Shell scripts read by a grammar, not by patterns (ADR 0012): what would run, in which order, and where.

Nothing that an agent writes can make this raise or take long; what is not understood is marked as a fault,
and what the text does not say is marked as dynamic.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from repotrial.shell._emit import ShellLimits
from repotrial.shell._files import Collector
from repotrial.shell._model import ShellCommand, ShellFault, ShellScript, WrittenText
from repotrial.shell._source import build_source, parse_bytes
from repotrial.shell._walk import Walker
from repotrial.shell._words import Variables

_CACHED_CHARACTERS = 4096
_CACHED_LONG = 4


def parse_shell(text: str) -> ShellScript:
    """Read a script; never raises."""
    return _parse_cached(text) if len(text) <= _CACHED_CHARACTERS else _parse_long(text)


def _parse(text: str) -> ShellScript:
    collector = Collector()
    _parse_into(collector, text, scope=Variables({}, "."), limits=ShellLimits())
    return ShellScript(
        commands=tuple(collector.commands),
        assignments=tuple(collector.assignments),
        functions=tuple(collector.functions),
        written=tuple(collector.written),
        faults=tuple(collector.faults),
    )


# The same command is looked at by several rules and again when decisions are computed anew.
_parse_cached = lru_cache(maxsize=256)(_parse)
_parse_long = lru_cache(maxsize=_CACHED_LONG)(_parse)


def _parse_into(collector: Collector, text: str, *, scope: Variables, limits: ShellLimits) -> str | None:
    """Read a text into a collection of commands; answers what it would print, where that is known."""
    source = build_source(text)
    output: str | None = None
    for piece in source.pieces:
        root = parse_bytes(piece.data)
        walker = Walker(
            collector,
            source.original,
            piece.start,
            documents=source.documents,
            limits=limits,
            nested=_parse_nested,
        )
        output = walker.walk_all(root, scope)
    if source.unread_from is not None:
        collector.faults.append(
            ShellFault(start=source.unread_from, end=len(source.original), reason="too-long")
        )
    return output if len(source.pieces) == 1 else None


def _parse_nested(
    text: str,
    collector: Collector,
    scope: Variables,
    limits: ShellLimits,
    place: tuple[int, int, int | None],
) -> str | None:
    """Read text that stands inside an argument; places in it become places in the whole."""
    inner = Collector(collector.budget)
    output = _parse_into(inner, text, scope=scope, limits=limits)
    start, end, verbatim = place
    base = len(collector.commands)

    def move(command: ShellCommand) -> ShellCommand:
        first, last = (start, end) if verbatim is None else (verbatim + command.start, verbatim + command.end)
        return msgspec.structs.replace(
            command,
            start=first,
            end=last,
            sources=tuple(each + base for each in command.sources),
            substitutions=tuple(each + base for each in command.substitutions),
        )

    def move_text(written: WrittenText) -> WrittenText:
        first, last = (start, end) if verbatim is None else (verbatim + written.start, verbatim + written.end)
        is_known = verbatim is not None and written.text_start is not None
        place = (verbatim or 0) + (written.text_start or 0) if is_known else None
        return msgspec.structs.replace(written, start=first, end=last, text_start=place)

    collector.commands.extend(move(command) for command in inner.commands)
    for written in inner.written:
        collector.note(move_text(written))
    collector.assignments.extend(inner.assignments)
    collector.functions.extend((name, start, end) for name, _, _ in inner.functions)
    collector.faults.extend(ShellFault(start=start, end=end, reason=each.reason) for each in inner.faults)
    return output
