"""An answer that grows."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from repotrial.wire._common import wrap_text
from repotrial.wire._json import Members
from repotrial.wire._model import ToolCall


class _CallDraft:
    def __init__(self, identifier: str | None, name: str) -> None:
        self.identifier = identifier
        self.name = name
        self.pieces: list[str] = []
        self.whole: bytes | None = None
        self.is_free_text = False
        self.is_hosted = False

    def build(self) -> ToolCall:
        text = "".join(self.pieces)
        arguments = text.encode() or b"{}"
        if self.is_free_text:
            arguments = wrap_text(text)
        return ToolCall(
            id=self.identifier,
            name=self.name,
            arguments=arguments if self.whole is None else self.whole,
        )


class AnswerDraft:
    """What is known of an answer so far; pieces are put together by the key of what they belong to."""

    def __init__(self) -> None:
        self.model: str | None = None
        self.role = "assistant"
        self.stop_reason: str | None = None
        self.usage: Members = {}
        self.is_ended = False
        self.has_error = False
        self.output_bytes = 0
        self._texts: dict[Hashable, list[str]] = {}
        self._reasoning: dict[Hashable, list[str]] = {}
        self._calls: dict[Hashable, _CallDraft] = {}
        self._unread: dict[str, None] = {}

    @property
    def is_held(self) -> bool:
        """Whether there is something in it that must be looked at before it goes on."""
        return bool(self._calls or self._unread)

    @property
    def has_said(self) -> bool:
        return bool(self._texts or self._reasoning)

    def has_call(self, key: Hashable) -> bool:
        return key in self._calls

    @property
    def last_call(self) -> Hashable | None:
        return next(reversed(self._calls), None)

    def add_text(self, key: Hashable, text: str) -> None:
        self._add(self._texts, key, text)

    def add_reasoning(self, key: Hashable, text: str) -> None:
        self._add(self._reasoning, key, text)

    def set_text(self, key: Hashable, text: str) -> None:
        """The whole text, where it is said at once or again at its end."""
        self._set(self._texts, key, text)

    def set_reasoning(self, key: Hashable, text: str) -> None:
        self._set(self._reasoning, key, text)

    def open_call(
        self,
        key: Hashable,
        *,
        identifier: str | None,
        name: str | None,
        is_free_text: bool = False,
        is_hosted: bool = False,
    ) -> None:
        """A call begins, or more is said about one that began; `is_hosted`: the provider carries it out."""
        call = self._calls.setdefault(key, _CallDraft(None, ""))
        call.identifier = call.identifier or identifier
        call.name = call.name or name or ""
        call.is_free_text = call.is_free_text or is_free_text
        call.is_hosted = call.is_hosted or is_hosted

    def add_hosted(self, key: Hashable, call: ToolCall) -> None:
        """The provider says at once what it did by itself."""
        self.open_call(key, identifier=call.id, name=call.name, is_hosted=True)
        self.set_call(key, call)

    def add_unread(self, shape: str) -> None:
        """Something of a shape that is not known here."""
        self._unread[shape[:200]] = None

    def add_arguments(self, key: Hashable, text: str) -> None:
        call = self._calls.setdefault(key, _CallDraft(None, ""))
        call.pieces.append(text)
        self.output_bytes += len(text.encode())

    def reopen_call(self, key: Hashable) -> None:
        """What was said of a call at its start is a stand-in: its arguments come in pieces."""
        self._calls[key].whole = None

    def set_call(self, key: Hashable, call: ToolCall) -> None:
        """The whole call, where it is said at once or again at its end."""
        draft = self._calls.setdefault(key, _CallDraft(None, ""))
        draft.identifier, draft.name = call.id, call.name
        if not draft.pieces and draft.whole is None:
            self.output_bytes += len(call.arguments)
        draft.whole = call.arguments

    def build_texts(self) -> tuple[str, ...]:
        return _join(self._texts)

    def build_reasoning(self) -> tuple[str, ...]:
        return _join(self._reasoning)

    def build_calls(self) -> tuple[ToolCall, ...]:
        return tuple(call.build() for call in self._calls.values() if not call.is_hosted)

    def build_hosted(self) -> tuple[ToolCall, ...]:
        return tuple(call.build() for call in self._calls.values() if call.is_hosted)

    @property
    def unread(self) -> tuple[str, ...]:
        return tuple(self._unread)

    def _add(self, place: dict[Hashable, list[str]], key: Hashable, text: str) -> None:
        place.setdefault(key, []).append(text)
        self.output_bytes += len(text.encode())

    def _set(self, place: dict[Hashable, list[str]], key: Hashable, text: str) -> None:
        if key not in place:
            self.output_bytes += len(text.encode())
        place[key] = [text]


def _join(pieces: dict[Hashable, list[str]]) -> tuple[str, ...]:
    return tuple(text for text in map("".join, pieces.values()) if text)


class DialectReader(Protocol):
    """Reads what one dialect sends."""

    def take_event(self, draft: AnswerDraft, event: Members) -> None:
        """One object of a stream."""
        ...

    def take_body(self, draft: AnswerDraft, body: Members) -> None:
        """An answer that came whole."""
        ...
