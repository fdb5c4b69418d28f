"""Where an agent puts its key, in every dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_plus

_KEY_HEADERS: Final = ("x-api-key", "api-key", "x-goog-api-key")
_KEY_PARAMETERS: Final = frozenset({"key", "access_token"})

CREDENTIAL_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", *_KEY_HEADERS})
"""Headers that never go further, in lower case."""


def find_key(headers: Mapping[str, str], target: str) -> str | None:
    """The key that a request carries; null where it carries none.

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


def strip_key(headers: Mapping[str, str], target: str) -> tuple[dict[str, str], str]:
    """Headers, in lower case, and target as they are without any credential."""
    kept = {name.lower(): value for name, value in headers.items() if name.lower() not in CREDENTIAL_HEADERS}
    path, mark, query = target.partition("?")
    if not mark:
        return kept, target
    pairs = [pair for pair in query.split("&") if unquote_plus(pair.partition("=")[0]) not in _KEY_PARAMETERS]
    return kept, f"{path}?{'&'.join(pairs)}" if pairs else path
