"""Which conversation a request belongs to: told by how it opens, since few agents number their sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from repotrial.trace import RawMessage

_MARKS: Final = frozenset({"cache_control", "id"})
"""Keys that agents move or renew from request to request while the message stays the same."""
_SETTING: Final = frozenset({"system", "developer"})
_MOST_DEPTH: Final = 12


def find_opening(messages: Sequence[RawMessage]) -> bytes:
    """What stays the same while a conversation grows: what its first message that sets no scene says."""
    opening = next((message for message in messages if message.role not in _SETTING), None)
    if opening is None:
        return b"".join(message.data for message in messages)
    try:
        value = msgspec.json.decode(opening.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return opening.data
    return "\n".join(_iter_texts(value, 0)).encode("utf-8", "surrogatepass")


def _iter_texts(value: Any, depth: int) -> list[str]:
    if depth > _MOST_DEPTH:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [
            text for key, item in value.items() if key not in _MARKS for text in _iter_texts(item, depth + 1)
        ]
    if isinstance(value, list):
        return [text for item in value for text in _iter_texts(item, depth + 1)]
    return []
