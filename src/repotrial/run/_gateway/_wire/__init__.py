"""The wire formats of models: routes, requests, answers and errors of four dialects. Pure."""

from __future__ import annotations

from repotrial.run._gateway._wire._answers import AnswerReader
from repotrial.run._gateway._wire._build import (
    BuiltAnswer,
    Turn,
    build_answer,
    build_health,
    build_model_list,
    build_token_count,
)
from repotrial.run._gateway._wire._keys import CREDENTIAL_HEADERS, find_key, strip_key
from repotrial.run._gateway._wire._normalize import (
    IDENTIFIER_MEMBERS,
    VOLATILE_MEMBERS,
    VOLATILE_TEXTS,
    VolatileText,
    normalize_request,
)
from repotrial.run._gateway._wire._refusals import build_break, build_refusal
from repotrial.run._gateway._wire._requests import MalformedRequestError, parse_request
from repotrial.run._gateway._wire._route import Route, RouteKind, find_route
from repotrial.run._gateway._wire._texts import find_answer_schema, is_tool_use_forbidden, read_message_text

__all__ = [
    "CREDENTIAL_HEADERS",
    "IDENTIFIER_MEMBERS",
    "VOLATILE_MEMBERS",
    "VOLATILE_TEXTS",
    "AnswerReader",
    "BuiltAnswer",
    "MalformedRequestError",
    "Route",
    "RouteKind",
    "Turn",
    "VolatileText",
    "build_answer",
    "build_break",
    "build_health",
    "build_model_list",
    "build_refusal",
    "build_token_count",
    "find_answer_schema",
    "find_key",
    "find_route",
    "is_tool_use_forbidden",
    "normalize_request",
    "parse_request",
    "read_message_text",
    "strip_key",
]
