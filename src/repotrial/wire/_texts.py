"""What is said in a request, and in which form it wants its answer."""

from __future__ import annotations

import msgspec

from repotrial.trace import RawMessage
from repotrial.wire._common import join_parts
from repotrial.wire._json import (
    Members,
    UnreadableJsonError,
    find_members,
    find_text,
    is_null,
    read_members,
)
from repotrial.wire._model import WireRequest

_SCHEMA_PLACES = (
    ("response_format", "json_schema", "schema"),
    ("text", "format", "schema"),
    ("output_config", "format", "schema"),
    ("output_format", "schema"),
    ("generationConfig", "responseJsonSchema"),
    ("generationConfig", "responseSchema"),
)
"""Where the dialects put the schema of an answer."""


def read_message_text(message: RawMessage) -> str:
    """What a message says, without its form; empty where it says nothing in words."""
    try:
        members = read_members(message.data)
    except UnreadableJsonError:
        return join_parts(msgspec.Raw(message.data)).decode(errors="replace")
    for name in ("content", "parts", "output", "arguments", "text"):
        content = members.get(name)
        if content is not None and not is_null(content):
            return join_parts(content).decode(errors="replace")
    return ""


def find_answer_schema(request: WireRequest) -> bytes | None:
    """The JSON schema that the answer has to meet; None if any text will do."""
    for place in _SCHEMA_PLACES:
        found = _follow(read_members(request.envelope), place)
        if found is not None:
            return bytes(found)
    # A bare wish for JSON is met by any object.
    wished = _follow(read_members(request.envelope), ("response_format", "type"))
    return b'{"type":"object"}' if find_text(wished) == "json_object" else None


def is_tool_use_forbidden(request: WireRequest) -> bool:
    """Whether the request offers tools and wants none of them used: for summaries, mostly."""
    members = read_members(request.envelope)
    choice = members.get("tool_choice")
    kind = find_text(choice) or find_text((find_members(choice) or {}).get("type"))
    mode = find_text(_follow(members, ("toolConfig", "functionCallingConfig", "mode")))
    return kind == "none" or mode == "NONE"


def _follow(members: Members, place: tuple[str, ...]) -> msgspec.Raw | None:
    *outer, last = place
    for name in outer:
        members = find_members(members.get(name)) or {}
    found = members.get(last)
    return None if found is None or is_null(found) else found
