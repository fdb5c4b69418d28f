"""JSON from elsewhere: decoded fast where it is right, and saved where only its text is damaged."""

from __future__ import annotations

import json
from typing import NoReturn

import msgspec

_ANY = msgspec.json.Decoder()


def repair_json(data: bytes) -> bytes | None:
    """The same JSON with its text mended: bad UTF-8, half surrogates, a byte order mark. Null if it is none.

    Agents cut outputs in the middle of a character; one such character must not cost the whole entry.
    """
    try:
        text = data.decode("utf-8", "replace").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
        value = json.loads(text, parse_constant=_refuse)
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return None


def decode_leniently(data: bytes) -> object:
    """The value of a JSON text, mended if need be; the text itself where it is no JSON."""
    try:
        return _ANY.decode(data)
    except (ValueError, RecursionError):
        pass
    repaired = repair_json(data)
    try:
        return _ANY.decode(repaired or b"")
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")


def parse_object(text: str) -> dict[str, object] | None:
    """The JSON object that a text holds, if it holds one."""
    if not text.lstrip().startswith("{"):
        return None
    value = decode_leniently(text.encode("utf-8", "replace"))
    return value if isinstance(value, dict) else None


def encode_value(value: object) -> bytes:
    """A decoded value as JSON again; one nested too deep for that becomes null."""
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        return b"null"


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"expected JSON, found {word}")
