"""Answers that the gateway builds itself, in all dialects."""

from __future__ import annotations

from repotrial.gateway._model import WireRequest
from repotrial.gateway._wire._build._anthropic import build_anthropic
from repotrial.gateway._wire._build._chat import build_chat
from repotrial.gateway._wire._build._gemini import build_gemini
from repotrial.gateway._wire._build._plain import build_model_list, build_token_count
from repotrial.gateway._wire._build._responses import build_responses
from repotrial.gateway._wire._build._turn import BuiltAnswer, Turn

def build_answer(request: WireRequest, turn: Turn) -> BuiltAnswer:
    """A turn in the dialect of the request, streamed if that was asked for; the same bytes each time."""
    match request.dialect:
        case "openai-chat":
            return build_chat(request, turn)
        case "openai-responses":
            return build_responses(request, turn)
        case "anthropic-messages":
            return build_anthropic(request, turn)
        case "gemini":
            return build_gemini(request, turn)
