"""Reads an answer, as events or whole, while it is forwarded, and says how much of it may be."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from repotrial.cost import TokenUsage
from repotrial.wire._anthropic import AnthropicReader
from repotrial.wire._chat import ChatReader
from repotrial.wire._draft import AnswerDraft, DialectReader
from repotrial.wire._gemini import GeminiReader
from repotrial.wire._json import Members, UnreadableJsonError, check_text, read_items, read_members
from repotrial.wire._model import Dialect, WireAnswer, WireRequest
from repotrial.wire._responses import ResponsesReader
from repotrial.wire._usage import read_usage

_DATA: Final = b"data"


class _StreamEvent(msgspec.Struct, frozen=True):
    """What stands between two empty lines."""

    data: bytes | None
    """The payload; None if there is none (comments, names of events alone)."""
    end: int
    """Where it ends in the stream, the empty line included."""


class _EventSplitter:
    """Cuts a stream into events, wherever its chunks are cut.

    Lines end with LF, CR or CRLF and with nothing else: U+2028 is a character like any other.
    """

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._data: list[bytes] = []
        self._position = 0
        self._is_after_return = False
        self._is_first = True

    def feed(self, chunk: bytes) -> list[_StreamEvent]:
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
        events: list[_StreamEvent] = []
        for line in lines:
            self._take_line(line, events)
        return events

    def finish(self) -> list[_StreamEvent]:
        """What stood behind the last empty line: some readers take it although the stream was cut."""
        events: list[_StreamEvent] = []
        rest = b"".join(self._pending)
        self._pending = []
        if rest:
            self._take_line(rest, events)
        if self._data:
            events.append(self._close())
        return events

    def _take_line(self, line: bytes, events: list[_StreamEvent]) -> None:
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

    def _close(self) -> _StreamEvent:
        data = b"\n".join(self._data) if self._data else None
        self._data = []
        return _StreamEvent(data, self._position)


_READERS: Final[dict[Dialect, Callable[[], DialectReader]]] = {
    "openai-chat": ChatReader,
    "openai-responses": ResponsesReader,
    "anthropic-messages": AnthropicReader,
    "gemini": GeminiReader,
}

_DONE: Final = b"[DONE]"
_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")


class AnswerReader:
    """Understands an answer piece by piece.

    `feed` is called with each piece before it is forwarded; then `safe_bytes` says up to where the answer may
    be forwarded, and `has_calls` whether the rest has to wait for `finish`.

    Args:
        request: What is answered.
        content_type: The header of the answer; None if it has none.
    """

    def __init__(self, request: WireRequest, *, content_type: str | None = None) -> None:
        self._dialect = request.dialect
        self._is_count_only = request.is_count_only
        self._reader = _READERS[request.dialect]()
        self._draft = AnswerDraft()
        self._splitter = _EventSplitter()
        self._whole: list[bytes] = []
        self._safe_bytes = 0
        self._has_unread = False
        # Asked for with every piece, and said once or twice.
        self._counted: Members | None = None
        self._usage = TokenUsage()
        self._form: Literal["events", "json"] | None = None
        kind = (content_type or "").partition(";")[0].strip().lower()
        self._is_announced = kind == "text/event-stream"

    @property
    def has_calls(self) -> bool:
        """A tool call has begun, or may have: in what is not yet, or not at all, understood."""
        return self._draft.is_held or self._has_unread or self._form == "json"

    @property
    def is_garbled(self) -> bool:
        """An event of a stream is no JSON: what the agent would make of it is not known."""
        return self._has_unread and self._form == "events"

    @property
    def safe_bytes(self) -> int:
        """How many of the bytes so far hold no part of a tool call: all whole events before the first one."""
        return self._safe_bytes

    @property
    def is_complete(self) -> bool:
        """The end of the answer was seen; what a plain body holds is only known when it has ended."""
        return self._draft.is_ended and not self._draft.has_error and not self._has_unread

    @property
    def usage(self) -> TokenUsage:
        """What the provider says so far; all is None if it has not said anything."""
        if self._draft.usage is not self._counted:
            self._counted = self._draft.usage
            self._usage = read_usage(self._dialect, self._counted)
        return self._usage

    @property
    def seen_output_bytes(self) -> int:
        """Bytes of text, reasoning and arguments so far, for an estimate."""
        return self._draft.output_bytes

    def feed(self, data: bytes) -> None:
        """Read the next piece."""
        if self._form == "events":
            self._take_events(self._splitter.feed(data))
            return
        self._whole.append(data)
        if self._form is None:
            self._form = _find_form(b"".join(self._whole), self._is_announced)
            if self._form == "events":
                self._take_events(self._splitter.feed(b"".join(self._whole)))

    def finish(self) -> WireAnswer:
        """What was understood; called once, when nothing more will come, also where the stream was cut."""
        if self._form == "events":
            self._take_events(self._splitter.finish())
        elif not self._take_whole(b"".join(self._whole)):
            # Agents read a stream as one whatever its header says.
            self._take_events(self._splitter.feed(b"".join(self._whole)))
            self._take_events(self._splitter.finish())
        draft = self._draft
        return WireAnswer(
            model=draft.model,
            role=draft.role,
            texts=draft.build_texts(),
            reasoning=draft.build_reasoning(),
            calls=draft.build_calls(),
            hosted=draft.build_hosted(),
            unread=draft.unread,
            stop_reason=draft.stop_reason,
            usage=None if self.usage == TokenUsage() else self.usage,
            is_complete=self.is_complete,
        )

    def _take_events(self, events: list[_StreamEvent]) -> None:
        for event in events:
            self._take_event(event)
            if not self._draft.is_held and not self._has_unread and self._form == "events":
                self._safe_bytes = event.end

    def _take_event(self, event: _StreamEvent) -> None:
        data = b"" if event.data is None else event.data.strip()
        if data == _DONE:
            self._draft.is_ended = True
            return
        if not data:
            return
        if isinstance(self._reader, ChatReader) and self._reader.take_plain(self._draft, data):
            return
        try:
            members = read_members(check_text(data))
        except UnreadableJsonError:
            self._has_unread = True
            return
        self._reader.take_event(self._draft, members)

    def _take_whole(self, data: bytes) -> bool:
        try:
            data = check_text(data.removeprefix(codecs.BOM_UTF8))
            if data.lstrip()[:1] == b"[":
                # Gemini streams a list where no events are asked for.
                for item in read_items(data):
                    self._reader.take_event(self._draft, read_members(item))
            else:
                members = read_members(data)
                self._reader.take_body(self._draft, members)
                self._draft.is_ended |= self._is_count_only and not self._draft.has_error
        except UnreadableJsonError:
            return False
        return True


def _find_form(start: bytes, is_announced: bool) -> Literal["events", "json"] | None:  # noqa: FBT001
    """What the first bytes are, whatever the header says: agents differ in which of them they believe."""
    text = start.removeprefix(codecs.BOM_UTF8).lstrip()
    if not text:
        return None
    if text[:1] in (b"{", b"["):
        return "json"
    if is_announced or text.startswith(_FIELDS):
        return "events"
    # A field's name that is cut in two, or nothing that is known: it is kept back until it is whole.
    return None if any(field.startswith(text) for field in _FIELDS) else "json"
