"""Answers in the form of Anthropic Messages."""

from __future__ import annotations

from repotrial.gateway._model import ToolCall
from repotrial.gateway._wire._answers._draft import AnswerDraft
from repotrial.gateway._wire._json import Members, find_count, find_items, find_members, find_text, is_null


class AnthropicReader:
    """Blocks that open, grow and close between the start and the stop of a message."""

    def take_event(self, draft: AnswerDraft, event: Members) -> None:
        index = find_count(event.get("index")) or 0
        match find_text(event.get("type")):
            case "message_start":
                self._take_message(draft, find_members(event.get("message")) or {})
            case "content_block_start":
                self._open_block(draft, index, find_members(event.get("content_block")) or {})
            case "content_block_delta":
                self._take_delta(draft, index, find_members(event.get("delta")) or {})
            case "message_delta":
                self._take_end(draft, find_members(event.get("delta")) or {})
                self._merge_usage(draft, event)
            case "message_stop":
                draft.is_ended = True
            case "message":
                self.take_body(draft, event)
            case "error":
                draft.has_error = True
            case _:
                pass

    def take_body(self, draft: AnswerDraft, body: Members) -> None:
        draft.has_error |= find_text(body.get("type")) == "error"
        self._take_message(draft, body)

    def _take_message(self, draft: AnswerDraft, message: Members) -> None:
        draft.model = find_text(message.get("model")) or draft.model
        draft.role = find_text(message.get("role")) or draft.role
        for index, item in enumerate(find_items(message.get("content")) or ()):
            self._open_block(draft, index, find_members(item) or {})
        self._merge_usage(draft, message)
        self._take_end(draft, message)

    def _open_block(self, draft: AnswerDraft, index: int, block: Members) -> None:
        match find_text(block.get("type")):
            case "text":
                draft.add_text(index, find_text(block.get("text")) or "")
            case "thinking":
                draft.add_reasoning(index, find_text(block.get("thinking")) or "")
            case "tool_use":
                identifier, name = find_text(block.get("id")), find_text(block.get("name"))
                draft.open_call(index, identifier=identifier, name=name)
                given = block.get("input")
                # A stream opens with an empty object and brings the arguments in pieces.
                if given is not None and find_members(given):
                    whole = ToolCall(id=identifier, name=name or "", arguments=bytes(given))
                    draft.set_call(index, whole)
            case _:
                pass

    def _take_delta(self, draft: AnswerDraft, index: int, delta: Members) -> None:
        match find_text(delta.get("type")):
            case "text_delta":
                draft.add_text(index, find_text(delta.get("text")) or "")
            case "thinking_delta":
                draft.add_reasoning(index, find_text(delta.get("thinking")) or "")
            case "input_json_delta" if draft.has_call(index):
                # Tools that the provider runs itself get their arguments in the same way.
                draft.reopen_call(index)
                draft.add_arguments(index, find_text(delta.get("partial_json")) or "")
            case _:
                pass

    def _take_end(self, draft: AnswerDraft, holder: Members) -> None:
        reason = find_text(holder.get("stop_reason"))
        if reason is not None:
            draft.stop_reason = reason
            draft.is_ended = True

    def _merge_usage(self, draft: AnswerDraft, holder: Members) -> None:
        # Cumulative: of each count the last one holds.
        told = find_members(holder.get("usage")) or {}
        draft.usage = {**draft.usage, **{name: raw for name, raw in told.items() if not is_null(raw)}}
