"""Server-sent events, read as the bytes come."""

from __future__ import annotations

import codecs
from typing import Final

import msgspec

_DATA: Final = b"data"


class StreamEvent(msgspec.Struct, frozen=True):
    """What stands between two empty lines."""

    data: bytes | None
    """The payload; null where there is none (comments, names of events alone)."""
    end: int
    """Where it ends in the stream, the empty line included."""


class EventSplitter:
    """Cuts a stream into events, wherever its chunks are cut.

    Lines end with LF, CR or CRLF and with nothing else: U+2028 is a character like any other.
    """

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._data: list[bytes] = []
        self._position = 0
        self._is_after_return = False
        self._is_first = True

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Events that are whole now."""
        if not chunk:
            return []
        if b"\n" not in chunk and b"\r" not in chunk:
            # An LF that belongs to the CR before it did not come.
            self._is_after_return = False
            self._pending.append(chunk)
            return []
        lines = b"".join((*self._pending, chunk)).splitlines(keepends=True)
        self._pending = [] if lines[-1].endswith((b"\n", b"\r")) else [lines.pop()]
        events: list[StreamEvent] = []
        for line in lines:
            self._take_line(line, events)
        return events

    def finish(self) -> list[StreamEvent]:
        """What stood behind the last empty line: some readers take it although the stream was cut."""
        events: list[StreamEvent] = []
        rest = b"".join(self._pending)
        self._pending = []
        if rest:
            self._take_line(rest, events)
        if self._data:
            events.append(self._close())
        return events

    def _take_line(self, line: bytes, events: list[StreamEvent]) -> None:
        self._position += len(line)
        if line == b"\n" and self._is_after_return:
            # The second half of a CRLF that was cut in two; it belongs to the line before.
            self._is_after_return = False
            return
        self._is_after_return = line.endswith(b"\r")
        content = line.rstrip(b"\r\n")
        if self._is_first:
            content = content.removeprefix(codecs.BOM_UTF8)
            self._is_first = False
        if not content:
            events.append(self._close())
            return
        name, _, value = content.partition(b":")
        if name == _DATA:
            self._data.append(value.removeprefix(b" "))

    def _close(self) -> StreamEvent:
        data = b"\n".join(self._data) if self._data else None
        self._data = []
        return StreamEvent(data, self._position)
