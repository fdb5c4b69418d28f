"""Answers in the form of Gemini's generateContent."""

from __future__ import annotations

from typing import Any

import msgspec

from repotrial.gateway._model import WireRequest
from repotrial.gateway._wire._build._turn import EVENTS, BuiltAnswer, Turn, encode_event, encode_json, halve
from repotrial.gateway._wire._build._usage import build_gemini_usage

def build_gemini(request: WireRequest, turn: Turn) -> BuiltAnswer:
    """One answer, or several that make one."""
    said: list[dict[str, Any]] = [{"text": piece} for piece in halve(turn.text)]
    called: list[dict[str, Any]] = [
        {"functionCall": {"name": call.name, "args": msgspec.Raw(call.arguments)}} for call in turn.calls
    ]
    base = {"modelVersion": turn.model or request.model, "responseId": f"gen-{turn.number:04d}"}
    usage = build_gemini_usage(turn.usage)
    if not request.is_streamed:
        whole = [{"text": turn.text}] if turn.text else []
        return encode_json({"candidates": [_candidate(whole + called, "STOP")], "usageMetadata": usage, **base})
    parts = said + called or [{"text": ""}]
    chunks = [encode_event({"candidates": [_candidate([part], None)], **base}) for part in parts[:-1]]
    last = {"candidates": [_candidate(parts[-1:], "STOP")], "usageMetadata": usage, **base}
    return BuiltAnswer(headers=dict(EVENTS), chunks=(*chunks, encode_event(last)))


def _candidate(parts: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    return candidate if reason is None else {**candidate, "finishReason": reason}
