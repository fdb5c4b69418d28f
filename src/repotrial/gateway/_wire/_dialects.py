"""Requests of all dialects in one form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from repotrial.gateway._model import Dialect, WireRequest
from repotrial.gateway._wire._anthropic import (
    build_anthropic,
    find_anthropic_bound,
    read_anthropic_history,
    read_anthropic_tools,
)
from repotrial.gateway._wire._chat import (
    build_chat,
    count_chat_answers,
    find_chat_bound,
    read_chat_history,
    read_chat_tools,
)
from repotrial.gateway._wire._common import MALFORMED_MODEL_REQUEST, History, read_object
from repotrial.gateway._wire._gemini import (
    build_gemini,
    count_gemini_answers,
    find_gemini_bound,
    read_gemini_history,
    read_gemini_tools,
)
from repotrial.gateway._wire._json import Members, UnreadableJsonError, check_text, find_flag, find_text
from repotrial.gateway._wire._responses import (
    build_responses,
    find_responses_bound,
    read_responses_history,
    read_responses_tools,
)
from repotrial.gateway._wire._route import Route
from repotrial.gateway._wire._turn import BuiltAnswer, Turn


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


MESSAGE_MEMBERS: Final[dict[Dialect, tuple[str, ...]]] = {
    "openai-chat": ("messages",),
    "openai-responses": ("instructions", "input"),
    "anthropic-messages": ("system", "messages"),
    "gemini": ("systemInstruction", "system_instruction", "contents"),
}
"""Members of a body that hold what is said; the others are the envelope."""

_Reader: TypeAlias = tuple[
    Callable[[Members], History], Callable[[Members], dict[str, bytes]], Callable[[Members], int | None]
]

_READERS: Final[dict[Dialect, _Reader]] = {
    "openai-chat": (read_chat_history, read_chat_tools, find_chat_bound),
    "openai-responses": (read_responses_history, read_responses_tools, find_responses_bound),
    "anthropic-messages": (read_anthropic_history, read_anthropic_tools, find_anthropic_bound),
    "gemini": (read_gemini_history, read_gemini_tools, find_gemini_bound),
}

_ANSWERS: Final[dict[Dialect, Callable[[Members], int]]] = {
    "openai-chat": count_chat_answers,
    "gemini": count_gemini_answers,
}
"""The other dialects have one answer to a request."""


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
    read_history, read_tools, find_bound = _READERS[route.dialect]
    count_answers = _ANSWERS.get(route.dialect)
    history = read_history(members)
    envelope = {name: raw for name, raw in members.items() if name not in MESSAGE_MEMBERS[route.dialect]}
    return WireRequest(
        dialect=route.dialect,
        model=_find_model(route, members),
        is_streamed=bool(find_flag(members.get("stream")))
        if route.is_streamed is None
        else route.is_streamed,
        messages=tuple(history.messages),
        envelope=msgspec.json.encode(envelope),
        tools=read_tools(members),
        calls=tuple(history.calls),
        results=tuple(history.results),
        max_output_tokens=find_bound(members),
        answers=1 if count_answers is None else count_answers(members),
        is_count_only=route.kind == "count",
    )


def _find_model(route: Route, members: Members) -> str:
    model = route.model or find_text(members.get("model"))
    if not model:
        raise MALFORMED_MODEL_REQUEST.error("model: expected the name of a model, found none")
    return model
