"""Which headers pass the gateway, in which direction, and where an agent puts its key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote_plus

_KEY_HEADERS: Final = ("x-api-key", "api-key", "x-goog-api-key")
_KEY_PARAMETERS: Final = frozenset({"key", "access_token"})
# They choose another account to pay, or another method: decided outside.
_ACCOUNT_PARAMETERS: Final = frozenset({"userproject", "quotauser", "$userproject", "$httpmethod"})


def find_key(headers: Mapping[str, str], target: str) -> str | None:
    """The key that a request carries; None if it carries none.

    Args:
        headers: With names in any case.
        target: Path and query, as on the wire.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    scheme, _, token = lowered.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    for name in _KEY_HEADERS:
        value = lowered.get(name, "").strip()
        if value:
            return value
    for pair in target.partition("?")[2].split("&"):
        name, _, value = pair.partition("=")
        if unquote_plus(name) in _KEY_PARAMETERS and value:
            return unquote_plus(value)
    return None


def strip_key(target: str) -> str:
    """The target without a key in its query, and without a wish for another account or method."""
    path, mark, query = target.partition("?")
    if not mark:
        return target
    pairs = [pair for pair in query.split("&") if not _is_dropped(pair.partition("=")[0])]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def _is_dropped(parameter: str) -> bool:
    name = unquote_plus(parameter)
    return name in _KEY_PARAMETERS or name.lower() in _ACCOUNT_PARAMETERS


CREDENTIAL_HEADERS: Final = frozenset(
    {"authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie", "x-amz-security-token"}
)
"""Never forwarded: the gateway adds its own outside."""

# RFC 9110, 7.6.1, and what belongs to one connection by habit.
_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
    }
)
_REQUEST_ONLY: Final = frozenset(
    {"host", "content-length", "accept-encoding", "expect", "forwarded", "x-real-ip", "via"}
)
# They choose another account, method or path: decided outside, and by the request line alone.
_ACCOUNT_OR_METHOD: Final = frozenset(
    {
        "anthropic-organization-id",
        "anthropic-workspace-id",
        "openai-organization",
        "openai-project",
        "x-goog-user-project",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-original-url",
        "x-rewrite-url",
    }
)
# An account's names and cookies must not get inside the sandbox.
_ANSWER_ONLY: Final = frozenset(
    {
        "content-length",
        "content-encoding",
        "set-cookie",
        "alt-svc",
        "strict-transport-security",
        "openai-organization",
        "openai-project",
        "anthropic-organization-id",
    }
)
_WEB_REQUEST_ONLY: Final = frozenset({"host", "content-length", "expect", "via", "forwarded"})
_WEB_ANSWER_ONLY: Final = frozenset({"set-cookie", "alt-svc", "strict-transport-security"})

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
# Without surrogates: they stand for bytes that are no UTF-8, which can be neither written nor sent on.
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\ud7ff\ue000-\U0010ffff]*")


def build_upstream_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The agent's own headers without credentials, its connection's, and any wish for compression."""
    kept = _collect(headers, _REQUEST_ONLY | CREDENTIAL_HEADERS | _ACCOUNT_OR_METHOD)
    return {name: value for name, value in kept.items() if not name.startswith(("x-forwarded-", "proxy-"))}


def build_answer_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Upstream's headers as the agent may see them; one that could not stand in a header line is dropped."""
    return _collect(headers, _ANSWER_ONLY)


def build_web_request_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A program's own headers for a host that it may reach, credentials included: they are its own."""
    return _collect(headers, _WEB_REQUEST_ONLY)


def build_web_answer_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A host's headers for a program that may reach it; bodies pass as they are encoded."""
    return _collect(headers, _WEB_ANSWER_ONLY)


def _collect(headers: Iterable[tuple[str, str]], dropped: frozenset[str]) -> dict[str, str]:
    pairs = [(name.lower(), value) for name, value in headers]
    # What `Connection` names belongs to the connection, too.
    named = {
        word.strip().lower() for name, value in pairs if name == "connection" for word in value.split(",")
    }
    collected: dict[str, str] = {}
    for name, value in pairs:
        if name in _HOP_BY_HOP or name in dropped or name in named:
            continue
        if _NAME.fullmatch(name) and _VALUE.fullmatch(value):
            collected[name] = f"{collected[name]}, {value}" if name in collected else value
    return collected
