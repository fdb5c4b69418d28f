"""Answers in the form of Gemini's generateContent."""

from __future__ import annotations

from typing import Literal

from repotrial.gateway._wire._answers._draft import AnswerDraft
from repotrial.gateway._wire._json import Members, find_flag, find_items, find_members, find_text
from repotrial.gateway._wire._requests._gemini import find_part_call


class GeminiReader:
    """Every object of a stream is an answer in itself; parts of one kind that follow each other are one."""

    def __init__(self) -> None:
        self._last: Literal["text", "thought"] | None = None
        self._run = 0
        self._calls = 0

    def take_event(self, draft: AnswerDraft, event: Members) -> None:
        draft.has_error |= find_members(event.get("error")) is not None
        draft.model = find_text(event.get("modelVersion")) or draft.model
        draft.usage = find_members(event.get("usageMetadata")) or draft.usage
        for item in find_items(event.get("candidates")) or ():
            self._take_candidate(draft, find_members(item) or {})
        feedback = find_members(event.get("promptFeedback")) or {}
        blocked = find_text(feedback.get("blockReason"))
        if blocked is not None:
            draft.stop_reason, draft.is_ended = blocked, True

    def take_body(self, draft: AnswerDraft, body: Members) -> None:
        self.take_event(draft, body)

    def _take_candidate(self, draft: AnswerDraft, candidate: Members) -> None:
        content = find_members(candidate.get("content")) or {}
        draft.role = find_text(content.get("role")) or draft.role
        for item in find_items(content.get("parts")) or ():
            self._take_part(draft, find_members(item) or {})
        reason = find_text(candidate.get("finishReason"))
        if reason is not None:
            draft.stop_reason, draft.is_ended = reason, True

    def _take_part(self, draft: AnswerDraft, part: Members) -> None:
        call = find_part_call(part)
        if call is not None:
            self._calls += 1
            draft.set_call(self._calls, call)
            self._last = None
            return
        text = find_text(part.get("text"))
        if text is None:
            return
        kind: Literal["text", "thought"] = "thought" if find_flag(part.get("thought")) else "text"
        if kind != self._last:
            self._last = kind
            self._run += 1
        if kind == "text":
            draft.add_text(self._run, text)
        else:
            draft.add_reasoning(self._run, text)
