"""What was said to models and by them, as text: bodies in the wire formats of providers, streamed or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from repotrial._core.errors import EvidenceError
from repotrial.trace._blobs import BlobStore
from repotrial.trace._body import Body

_MAX_BODY_BYTES: Final = 256 * 1024
_MAX_DEPTH: Final = 12
_KEYS = (
    "choices", "candidates", "output", "message", "delta", "item", "content_block", "content", "parts",
    "text", "tool_calls", "function", "functionCall", "arguments", "partial_json",
)  # fmt: skip
"""Where providers put what is said; everything else is bookkeeping."""
_ARGUMENTS = ("arguments", "input", "args")


def read_said(body: Body, blobs: BlobStore, *, keeps_lines: bool = False) -> str | None:
    """What a message or an answer says; None if it is not kept, too long, or in no format that we know."""
    if body.length_bytes > _MAX_BODY_BYTES:
        return None
    try:
        return find_text(body.load(blobs).decode("utf-8"), keeps_lines=keeps_lines)
    except (EvidenceError, UnicodeDecodeError):
        return None


def find_text(data: str, *, keeps_lines: bool = False) -> str | None:
    """What is said in a message or an answer, on one line or in its own; None if the format is not known."""
    streamed = [line.removeprefix("data:") for line in data.splitlines() if line.startswith("data:")]
    pieces = [each for part in streamed or [data] for each in _iter_pieces(part, is_streamed=bool(streamed))]
    text = ("" if streamed else "\n").join(pieces)
    return (text.strip() if keeps_lines else " ".join(text.split())) or None


def _iter_pieces(data: str, *, is_streamed: bool) -> Iterator[str]:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return
    if not isinstance(value, dict) or (is_streamed and _is_repetition(value)):
        return
    yield from _walk(value, _MAX_DEPTH)


def _is_repetition(event: dict[str, Any]) -> bool:
    """Whether an event of a stream says again what others said in pieces."""
    kind = event.get("type")
    if not isinstance(kind, str) or not kind.startswith("response."):
        return False
    return not kind.endswith((".delta", ".output_item.added"))


def _walk(value: Any, depth: int) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list() if depth:
            for item in value:
                yield from _walk(item, depth - 1)
        case {"name": str(name)} if any(key in value for key in _ARGUMENTS):
            yield f" → {name} "
            yield from (_show_arguments(value[key]) for key in _ARGUMENTS if value.get(key))
        case dict() if depth:
            for key in _KEYS:
                if key in value:
                    yield from _walk(value[key], depth - 1)


def _show_arguments(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
