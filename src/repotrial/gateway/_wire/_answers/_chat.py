"""Answers in the form of OpenAI Chat Completions."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import msgspec

from repotrial._core.canonical import Count
from repotrial.gateway._wire._answers._draft import AnswerDraft
from repotrial.gateway._wire._json import Members, find_count, find_items, find_members, find_text


class _PlainDelta(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    content: str
    role: str | None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None


class _PlainChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    delta: _PlainDelta
    index: Count = 0
    finish_reason: None = None
    logprobs: None = None


class _PlainEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A piece of text and nothing else; a name that is not known here makes it something else."""

    choices: tuple[_PlainChoice]
    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    usage: None = None


_PLAIN: Final = msgspec.json.Decoder(_PlainEvent)


class ChatReader:
    """Chunks and whole completions; both are choices, with a `delta` or a `message` in each."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._keys: dict[tuple[int, int], tuple[str | None, Hashable]] = {}

    def take_plain(self, draft: AnswerDraft, data: bytes) -> bool:
        """Read a piece of text, which most events are, at a fraction of the cost."""
        try:
            event = _PLAIN.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        (choice,) = event.choices
        draft.model = event.model or draft.model
        draft.add_text(choice.index, choice.delta.content)
        self._open.add(choice.index)
        return True

    def take_event(self, draft: AnswerDraft, event: Members) -> None:
        draft.has_error |= find_members(event.get("error")) is not None
        draft.model = find_text(event.get("model")) or draft.model
        draft.usage = find_members(event.get("usage")) or draft.usage
        for index, item in enumerate(find_items(event.get("choices")) or ()):
            choice = find_members(item) or {}
            number = find_count(choice.get("index"))
            self._take_choice(draft, choice, index if number is None else number)

    def take_body(self, draft: AnswerDraft, body: Members) -> None:
        self.take_event(draft, body)

    def _take_choice(self, draft: AnswerDraft, choice: Members, number: int) -> None:
        said = find_members(choice.get("delta")) or find_members(choice.get("message")) or {}
        for name in ("content", "refusal", "text"):
            for text in _iter_texts(said, name):
                draft.add_text(number, text)
        for name in ("reasoning_content", "reasoning"):
            reasoning = find_text(said.get(name))
            if reasoning is not None:
                draft.add_reasoning(number, reasoning)
                break
        for item in find_items(said.get("tool_calls")) or ():
            self._take_call(draft, find_members(item) or {}, number)
        old = find_members(said.get("function_call"))
        if old is not None:
            self._take_function(draft, (number, "function"), None, old)
        self._open.add(number)
        reason = find_text(choice.get("finish_reason"))
        if reason is not None:
            draft.stop_reason = reason
            self._open.discard(number)
            draft.is_ended = not self._open

    def _take_call(self, draft: AnswerDraft, call: Members, number: int) -> None:
        identifier = find_text(call.get("id")) or None
        key = self._find_key(draft, number, find_count(call.get("index")), identifier)
        custom = find_members(call.get("custom"))
        if custom is not None:
            name = find_text(custom.get("name"))
            draft.open_call(key, identifier=identifier, name=name, is_free_text=True)
            draft.add_arguments(key, find_text(custom.get("input")) or "")
            return
        self._take_function(draft, key, identifier, find_members(call.get("function")) or {})

    def _find_key(
        self, draft: AnswerDraft, number: int, index: int | None, identifier: str | None
    ) -> Hashable:
        """Which call a piece belongs to: a new id is a new call, whatever its index is.

        Some providers leave the index out, some give the same one to all calls.
        """
        if index is None:
            is_next = identifier is not None or draft.last_call is None
            return (number, "id", identifier) if is_next else draft.last_call
        known, key = self._keys.get((number, index), (None, None))
        if key is None or (identifier and known and identifier != known):
            known, key = identifier, (number, index, identifier)
        self._keys[number, index] = (known or identifier, key)
        return key

    def _take_function(
        self, draft: AnswerDraft, key: Hashable, identifier: str | None, function: Members
    ) -> None:
        draft.open_call(key, identifier=identifier, name=find_text(function.get("name")))
        arguments = function.get("arguments")
        text = find_text(arguments)
        if text is None and find_members(arguments) is not None:
            text = bytes(arguments or b"").decode(errors="replace")
        draft.add_arguments(key, text or "")


def _iter_texts(said: Members, name: str) -> list[str]:
    text = find_text(said.get(name))
    if text is not None:
        return [text]
    parts = (find_members(item) or {} for item in find_items(said.get(name)) or ())
    return [found for part in parts if (found := find_text(part.get("text"))) is not None]
