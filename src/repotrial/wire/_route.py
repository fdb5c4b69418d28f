"""Which wire format a path speaks."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

import msgspec

from repotrial.wire._model import Dialect

_RouteKind: TypeAlias = Literal["generate", "count", "models", "health"]
"""`generate` asks a model, `count` only for the number of tokens; the others cost nothing."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """What a request line asks for."""

    kind: _RouteKind
    dialect: Dialect | None
    """None if the path does not tell."""
    model: str | None = None
    """The model, where the path names it."""
    is_streamed: bool | None = None
    """Whether an answer in pieces is asked for; None if the body says."""


_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._@:-]*"
_OPENAI: Final = rf"(?:/openai)?(?:/v1|/deployments/(?P<model>{_NAME}))?"
_GEMINI: Final = (
    r"/(?:v1|v1beta|v1beta1|v1alpha)"
    r"(?:/projects/[A-Za-z0-9._-]+/locations/[A-Za-z0-9._-]+/publishers/(?:google|anthropic))?"
)

# Whole paths, not endings: what a provider takes for something else must not pass for a model call.
_POSTS: Final[tuple[tuple[re.Pattern[str], _RouteKind, Dialect, bool | None], ...]] = (
    (re.compile(rf"{_OPENAI}/chat/completions"), "generate", "openai-chat", None),
    (re.compile(rf"{_OPENAI}/responses"), "generate", "openai-responses", None),
    (re.compile(rf"{_OPENAI}/responses/input_tokens"), "count", "openai-responses", False),
    (re.compile(r"(?:/anthropic)?(?:/v1)?/messages"), "generate", "anthropic-messages", None),
    (re.compile(r"(?:/anthropic)?(?:/v1)?/messages/count_tokens"), "count", "anthropic-messages", False),
    # As Bedrock has it: whole answers only, since its streams are no server-sent events.
    (re.compile(rf"/model/(?P<model>{_NAME})/invoke"), "generate", "anthropic-messages", False),
    (re.compile(rf"{_GEMINI}/models/(?P<model>{_NAME}):rawPredict"), "generate", "anthropic-messages", None),
    (
        re.compile(rf"{_GEMINI}/models/(?P<model>{_NAME}):streamRawPredict"),
        "generate",
        "anthropic-messages",
        None,
    ),
    (
        re.compile(rf"{_GEMINI}/(?:models|tunedModels)/(?P<model>{_NAME}):generateContent"),
        "generate",
        "gemini",
        False,
    ),
    (
        re.compile(rf"{_GEMINI}/(?:models|tunedModels)/(?P<model>{_NAME}):streamGenerateContent"),
        "generate",
        "gemini",
        True,
    ),
    (
        re.compile(rf"{_GEMINI}/(?:models|tunedModels)/(?P<model>{_NAME}):countTokens"),
        "count",
        "gemini",
        False,
    ),
)

_MODEL_LISTS: Final[tuple[tuple[re.Pattern[str], Dialect], ...]] = (
    (re.compile(rf"{_OPENAI}/models(?:/{_NAME})?"), "openai-chat"),
    (re.compile(rf"/(?:v1beta|v1beta1|v1alpha)/models(?:/{_NAME})?"), "gemini"),
)

_HEALTH: Final = frozenset({"", "/", "/health", "/v1", "/v1/", "/v1/health"})


def find_route(method: str, target: str) -> Route | None:
    """What a request line asks for; None if it is nothing that the gateway serves.

    Args:
        method: As on the wire.
        target: Path and query, as on the wire.
    """
    path = target.partition("?")[0]
    if unquote(path) != path and "%3A" not in path.upper():
        return None
    path = path.replace("%3A", ":").replace("%3a", ":")
    if method == "POST":
        return _find_post(path)
    if method in {"GET", "HEAD"}:
        return _find_get(path)
    return None


def _find_post(path: str) -> Route | None:
    for pattern, kind, dialect, is_streamed in _POSTS:
        match = pattern.fullmatch(path)
        if match is not None:
            return Route(
                kind=kind, dialect=dialect, model=match.groupdict().get("model"), is_streamed=is_streamed
            )
    return None


def _find_get(path: str) -> Route | None:
    if path in _HEALTH:
        return Route(kind="health", dialect=None)
    for pattern, dialect in _MODEL_LISTS:
        if pattern.fullmatch(path):
            return Route(kind="models", dialect=dialect)
    return None
