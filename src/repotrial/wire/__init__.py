"""Wire formats of models: requests and answers of four dialects in one form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.wire._dialects import build_answer, parse_request, parse_stripped
    from repotrial.wire._model import (
        Dialect,
        HttpAnswer,
        Refusal,
        RefusalKind,
        ToolCall,
        ToolResult,
        WireAnswer,
        WireRequest,
    )
    from repotrial.wire._normalize import normalize_request
    from repotrial.wire._reader import AnswerReader
    from repotrial.wire._refusals import build_break, build_refusal
    from repotrial.wire._route import Route, find_route
    from repotrial.wire._settings import RequestSettings, describe_settings
    from repotrial.wire._texts import find_answer_schema, is_tool_use_forbidden, read_message_text
    from repotrial.wire._turn import Turn, build_model_list, build_token_count
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "AnswerReader",
    "Dialect",
    "HttpAnswer",
    "Refusal",
    "RefusalKind",
    "RequestSettings",
    "Route",
    "ToolCall",
    "ToolResult",
    "Turn",
    "WireAnswer",
    "WireRequest",
    "build_answer",
    "build_break",
    "build_model_list",
    "build_refusal",
    "build_token_count",
    "describe_settings",
    "find_answer_schema",
    "find_route",
    "is_tool_use_forbidden",
    "normalize_request",
    "parse_request",
    "parse_stripped",
    "read_message_text",
]
