"""Answers in the form of OpenAI Responses."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from repotrial.gateway._wire._answers._draft import AnswerDraft
from repotrial.gateway._wire._json import Members, find_count, find_items, find_members, find_text
from repotrial.gateway._wire._requests._responses import find_item_call

_ENDS: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)
_ARGUMENTS: Final = frozenset(
    {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}
)
_REASONING: Final = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_TEXTS: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})


class ResponsesReader:
    """Typed events; what an item is at its end counts, deltas where the end did not come."""

    def take_event(self, draft: AnswerDraft, event: Members) -> None:
        kind = find_text(event.get("type")) or ""
        index = find_count(event.get("output_index")) or 0
        delta = find_text(event.get("delta"))
        if kind in _TEXTS and delta is not None:
            draft.add_text((index, find_count(event.get("content_index"))), delta)
        elif kind in _REASONING and delta is not None:
            draft.add_reasoning((index, find_count(event.get("summary_index"))), delta)
        elif kind in _ARGUMENTS and delta is not None:
            draft.open_call(index, identifier=None, name=None, is_free_text="custom" in kind)
            draft.add_arguments(index, delta)
        elif kind == "response.output_item.added":
            self._open_item(draft, index, find_members(event.get("item")) or {})
        elif kind == "response.output_item.done":
            self._take_item(draft, index, find_members(event.get("item")) or {})
        elif kind == "error":
            draft.has_error = True
        response = find_members(event.get("response"))
        if response is not None:
            self._take_response(draft, response, is_end=kind in _ENDS)

    def take_body(self, draft: AnswerDraft, body: Members) -> None:
        if find_items(body.get("output")) is None:
            draft.has_error |= find_members(body.get("error")) is not None
            return
        self._take_response(draft, body, is_end=find_text(body.get("status")) != "in_progress")

    def _take_response(self, draft: AnswerDraft, response: Members, *, is_end: bool) -> None:
        draft.model = find_text(response.get("model")) or draft.model
        draft.usage = find_members(response.get("usage")) or draft.usage
        draft.has_error |= find_members(response.get("error")) is not None
        # The end says again what was streamed, not always in the same places.
        told = {call.id for call in draft.build_calls()}
        has_said = draft.has_said
        for index, item in enumerate(find_items(response.get("output")) or ()):
            members = find_members(item) or {}
            call = find_item_call(members)
            if (not has_said) if call is None else (call.id not in told):
                self._take_item(draft, ("end", index), members)
        if is_end:
            draft.is_ended = True
            details = find_members(response.get("incomplete_details")) or {}
            draft.stop_reason = find_text(details.get("reason")) or find_text(response.get("status"))

    def _open_item(self, draft: AnswerDraft, index: int, item: Members) -> None:
        call = find_item_call(item)
        if call is not None:
            draft.open_call(
                index,
                identifier=call.id,
                name=call.name,
                is_free_text=find_text(item.get("type")) == "custom_tool_call",
            )

    def _take_item(self, draft: AnswerDraft, index: Hashable, item: Members) -> None:
        call = find_item_call(item)
        if call is not None:
            draft.set_call(index, call)
            return
        kind = find_text(item.get("type"))
        if kind == "message":
            for number, part in enumerate(find_items(item.get("content")) or ()):
                members = find_members(part) or {}
                text = find_text(members.get("text")) or find_text(members.get("refusal"))
                if text is not None:
                    draft.set_text((index, number), text)
        elif kind == "reasoning":
            for name in ("summary", "content"):
                for number, part in enumerate(find_items(item.get(name)) or ()):
                    text = find_text((find_members(part) or {}).get("text"))
                    if text is not None:
                        draft.set_reasoning((index, number), text)
