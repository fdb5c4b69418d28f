"""Answers that the gateway makes itself, before they are put into a dialect; and those that need no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from repotrial.cost import TokenUsage
from repotrial.wire._model import Dialect, HttpAnswer, ToolCall

CREATED: Final = 1_700_000_000
"""A fixed time: what is built twice is the same."""

EVENTS: Final[Mapping[str, str]] = {"content-type": "text/event-stream", "cache-control": "no-cache"}
_JSON: Final[Mapping[str, str]] = {"content-type": "application/json"}


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: something said, tools to use, or both."""

    number: int
    """Which turn it is: ids are made of it."""
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    """Where a call has no id, one is made."""
    usage: TokenUsage
    model: str | None = None
    """The model that says it answers; the one that was asked for if this is None."""

    def call_id(self, index: int, prefix: str) -> str:
        """The id of one of the calls."""
        return self.calls[index].id or f"{prefix}{self.number:04d}{index:02d}"


class BuiltAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in the pieces in which it is sent."""

    status: int = 200
    headers: Mapping[str, str]
    chunks: tuple[bytes, ...]


def encode_json(value: object) -> BuiltAnswer:
    """An answer that is one JSON object."""
    return BuiltAnswer(headers=dict(_JSON), chunks=(msgspec.json.encode(value),))


def encode_event(value: object, name: str | None = None) -> bytes:
    """One event of a stream."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + msgspec.json.encode(value) + b"\n\n"


def halve(text: str) -> tuple[str, ...]:
    """A text in two pieces, as a model that streams would send it; none where there is no text."""
    middle = (len(text) + 1) // 2
    return tuple(piece for piece in (text[:middle], text[middle:]) if piece)


def build_token_count(dialect: Dialect, tokens: int) -> BuiltAnswer:
    """How many tokens a request would take."""
    return encode_json({"totalTokens": tokens} if dialect == "gemini" else {"input_tokens": tokens})


def build_model_list(dialect: Dialect | None, models: Sequence[str]) -> HttpAnswer:
    """Which models there are, in a form that readers of several dialects take."""
    if dialect == "gemini":
        named = [
            {"name": f"models/{name}", "supportedGenerationMethods": ["generateContent", "countTokens"]}
            for name in models
        ]
        return _answer({"models": named})
    listed = [
        {"id": name, "object": "model", "type": "model", "created": CREATED, "owned_by": "gateway"}
        for name in models
    ]
    return _answer({"object": "list", "data": listed, "has_more": False})


def _answer(value: object) -> HttpAnswer:
    return HttpAnswer(
        status=200, headers={"content-type": "application/json"}, body=msgspec.json.encode(value)
    )
