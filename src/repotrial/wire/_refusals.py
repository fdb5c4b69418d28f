"""The gateway's own answers, in the form that each dialect's clients understand as final."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from repotrial.wire._model import Dialect, HttpAnswer, Refusal, RefusalKind

_RETRY: Final = "x-should-retry"
"""A header that client libraries believe, whatever the status is."""

# `server_error` only where another try is welcome, and nowhere a word of overload or exhaustion: some agents
# try again on the word alone, whatever the status is.
_OPENAI: Final[Mapping[RefusalKind, tuple[str, str | None]]] = {
    "budget": ("insufficient_quota", "insufficient_quota"),
    "policy": ("permission_error", "policy_violation"),
    "key": ("authentication_error", "invalid_api_key"),
    "malformed": ("invalid_request_error", None),
    "unknown-path": ("invalid_request_error", "unknown_url"),
    "unknown-model": ("invalid_request_error", "model_not_found"),
    "ended": ("permission_error", "run_ended"),
    "upstream": ("server_error", None),
    "diverged": ("invalid_request_error", "replay_diverged"),
}
_ANTHROPIC: Final[Mapping[RefusalKind, str]] = {
    "budget": "billing_error",
    "policy": "permission_error",
    "key": "authentication_error",
    "malformed": "invalid_request_error",
    "unknown-path": "not_found_error",
    "unknown-model": "not_found_error",
    "ended": "permission_error",
    "upstream": "api_error",
    "diverged": "invalid_request_error",
}
_GEMINI: Final[Mapping[RefusalKind, str]] = {
    "budget": "FAILED_PRECONDITION",
    "policy": "PERMISSION_DENIED",
    "key": "UNAUTHENTICATED",
    "malformed": "INVALID_ARGUMENT",
    "unknown-path": "NOT_FOUND",
    "unknown-model": "NOT_FOUND",
    "ended": "PERMISSION_DENIED",
    "upstream": "INTERNAL",
    "diverged": "FAILED_PRECONDITION",
}

_TOO_MANY_REQUESTS: Final = 429


def build_refusal(dialect: Dialect | None, refusal: Refusal) -> HttpAnswer:
    """A refusal in place of an answer; the same where a stream was asked for.

    Args:
        dialect: None if the path does not tell; the most common form is used then.
        refusal: What to say.
    """
    return HttpAnswer(
        status=refusal.status,
        headers={
            "content-type": "application/json",
            # A provider that failed once may not fail again.
            _RETRY: "true" if refusal.kind == "upstream" else "false",
        },
        body=msgspec.json.encode(_describe(dialect or "openai-chat", refusal)),
    )


def build_break(dialect: Dialect, refusal: Refusal) -> bytes:
    """A refusal as the last event of a stream that has begun."""
    error = _describe(dialect, refusal)
    match dialect:
        case "openai-chat" | "gemini":
            return b"data: " + msgspec.json.encode(error) + b"\n\n"
        case "anthropic-messages":
            return b"event: error\ndata: " + msgspec.json.encode(error) + b"\n\n"
        case "openai-responses":
            kind, code = _OPENAI[refusal.kind]
            failed = {
                "type": "response.failed",
                "response": {
                    "object": "response",
                    "status": "failed",
                    "output": [],
                    "error": {"code": code or kind, "message": refusal.message},
                },
            }
            return b"event: response.failed\ndata: " + msgspec.json.encode(failed) + b"\n\n"


def _name(names: Mapping[RefusalKind, str], refusal: Refusal, *, throttled: str) -> str:
    return throttled if refusal.status == _TOO_MANY_REQUESTS else names[refusal.kind]


def _describe(dialect: Dialect, refusal: Refusal) -> dict[str, object]:
    match dialect:
        case "openai-chat" | "openai-responses":
            kind, code = _OPENAI[refusal.kind]
            if refusal.status == _TOO_MANY_REQUESTS:
                kind = code = "rate_limit_exceeded"
            return {"error": {"message": refusal.message, "type": kind, "param": None, "code": code}}
        case "anthropic-messages":
            return {
                "type": "error",
                "error": {
                    "type": _name(_ANTHROPIC, refusal, throttled="rate_limit_error"),
                    "message": refusal.message,
                },
            }
        case "gemini":
            return {
                "error": {
                    "code": refusal.status,
                    "message": refusal.message,
                    "status": _name(_GEMINI, refusal, throttled="RESOURCE_EXHAUSTED"),
                }
            }
