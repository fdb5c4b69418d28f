"""Requests of all dialects in one form, and answers in the form of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from repotrial.wire._anthropic import build_anthropic, read_anthropic
from repotrial.wire._chat import build_chat, read_chat
from repotrial.wire._common import MALFORMED_MODEL_REQUEST, ParsedBody, read_object
from repotrial.wire._gemini import build_gemini, read_gemini
from repotrial.wire._hosted import find_hosted, read_once, strip_hosted
from repotrial.wire._json import Members, UnreadableJsonError, check_text, find_flag, find_text
from repotrial.wire._model import Dialect, WireRequest
from repotrial.wire._responses import build_responses, read_responses
from repotrial.wire._route import Route
from repotrial.wire._turn import BuiltAnswer, Turn

MESSAGE_MEMBERS: Final[dict[Dialect, tuple[str, ...]]] = {
    "openai-chat": ("messages",),
    "openai-responses": ("instructions", "input"),
    "anthropic-messages": ("system", "messages"),
    "gemini": ("systemInstruction", "system_instruction", "contents"),
}
"""Members of a body that hold what is said; the others are the envelope."""

_READERS: Final[dict[Dialect, Callable[[Members], ParsedBody]]] = {
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "anthropic-messages": read_anthropic,
    "gemini": read_gemini,
}
_BUILDERS: Final[dict[Dialect, Callable[[WireRequest, Turn], BuiltAnswer]]] = {
    "openai-chat": build_chat,
    "openai-responses": build_responses,
    "anthropic-messages": build_anthropic,
    "gemini": build_gemini,
}


def build_answer(request: WireRequest, turn: Turn) -> BuiltAnswer:
    """A turn in the dialect of the request, streamed if that was asked for; the same bytes each time."""
    return _BUILDERS[request.dialect](request, turn)


def parse_request(route: Route, body: bytes) -> WireRequest:
    """Read a request to a model.

    Raises:
        MALFORMED_MODEL_REQUEST: it is not what the dialect says.
    """
    if route.dialect is None or route.kind not in {"generate", "count"}:
        raise MALFORMED_MODEL_REQUEST.error(
            f"expected a request to a model, found a request for {route.kind}"
        )
    try:
        check_text(body)
    except UnreadableJsonError as error:
        raise MALFORMED_MODEL_REQUEST.error(f"body: expected UTF-8, found: {error}") from error
    members = read_object(body, "body")
    model = route.model or find_text(members.get("model"))
    if not model:
        raise MALFORMED_MODEL_REQUEST.error("model: expected the name of a model, found none")
    parsed = _READERS[route.dialect](members)
    asks_stream = bool(find_flag(members.get("stream")))
    envelope = {name: raw for name, raw in members.items() if name not in MESSAGE_MEMBERS[route.dialect]}
    return WireRequest(
        dialect=route.dialect,
        model=model,
        is_streamed=asks_stream if route.is_streamed is None else route.is_streamed,
        messages=tuple(parsed.messages),
        envelope=msgspec.json.encode(envelope),
        tools=parsed.tools,
        calls=tuple(parsed.calls),
        results=tuple(parsed.results),
        max_output_tokens=parsed.max_output_tokens,
        answers=parsed.answers,
        is_count_only=route.kind == "count",
        hosted=find_hosted(route.dialect, model, read_once(body)),
    )


def parse_stripped(route: Route, body: bytes, features: frozenset[str]) -> tuple[WireRequest, bytes]:
    """Read a request without tools of these features, and the body that goes on.

    Raises:
        MALFORMED_MODEL_REQUEST: it is not what the dialect says.
    """
    parsed = parse_request(route, body)
    if not any(use.feature in features for use in parsed.hosted):
        return parsed, body
    kept = strip_hosted(parsed.dialect, body, features)
    again = parse_request(route, kept)
    left = {use.feature for use in again.hosted}
    stripped = tuple(use for use in parsed.hosted if use.feature in features - left)
    return msgspec.structs.replace(again, stripped=stripped), kept
