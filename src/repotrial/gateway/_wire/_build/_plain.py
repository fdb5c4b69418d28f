"""Answers that no model is needed for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from repotrial.gateway._model import Dialect, HttpAnswer
from repotrial.gateway._wire._build._turn import CREATED


def build_token_count(dialect: Dialect, tokens: int) -> HttpAnswer:
    """How many tokens a request would take."""
    return _answer({"totalTokens": tokens} if dialect == "gemini" else {"input_tokens": tokens})


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
