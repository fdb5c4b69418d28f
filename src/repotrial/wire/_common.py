"""What the readers of all dialects share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from repotrial._core.canonical import MAX_SAFE_INTEGER
from repotrial._core.errors import AgentError, ErrorCode
from repotrial.trace import RawMessage
from repotrial.wire._json import (
    Members,
    UnreadableJsonError,
    find_items,
    find_members,
    find_text,
    is_null,
    read_items,
    read_members,
)
from repotrial.wire._model import ToolCall, ToolResult

FREE_TEXT_SCHEMA: Final = (
    b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"x-form":"text"}'
)
"""Stands for the schema of a tool whose one argument is text of its own grammar."""

SHELL_SCHEMA: Final = (
    b'{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}}},'
    b'"required":["command"],"x-form":"local_shell"}'
)
"""Stands for the schema of a built-in shell, which has no declaration of its own."""


MALFORMED_MODEL_REQUEST = ErrorCode(
    "malformed-model-request",
    AgentError,
    "A request to a model is not what its wire format says.\n\nThe agent (or the library that it uses) sent "
    "something that no provider would take, too.",
    hint="check which wire format the agent is configured for",
)


class ParsedBody(msgspec.Struct, kw_only=True):
    """What a request's body holds, as it is found; see `WireRequest`."""

    messages: list[RawMessage] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    tools: dict[str, bytes]
    max_output_tokens: int | None
    answers: int = 1


def read_object(data: bytes | msgspec.Raw, what: str) -> Members:
    try:
        return read_members(data)
    except UnreadableJsonError as error:
        raise MALFORMED_MODEL_REQUEST.error(f"{what}: expected a JSON object, found: {error}") from error


def read_list(data: msgspec.Raw | None, what: str) -> list[msgspec.Raw]:
    """The items of a member; none where it is absent or null."""
    if data is None or is_null(data):
        return []
    try:
        return read_items(data)
    except UnreadableJsonError as error:
        raise MALFORMED_MODEL_REQUEST.error(f"{what}: expected a list, found: {error}") from error


def iter_messages(items: Sequence[msgspec.Raw], what: str) -> Iterator[tuple[msgspec.Raw, Members]]:
    """Each message as it stands, and its members."""
    for index, item in enumerate(items):
        yield item, read_object(item, f"{what}[{index}]")


def read_bound(members: Mapping[str, msgspec.Raw], names: Sequence[str]) -> int | None:
    """The first of these members that has a value; None if none has, or where it says zero."""
    for name in names:
        raw = members.get(name)
        if raw is None or is_null(raw):
            continue
        try:
            value = msgspec.json.decode(raw, type=int | float)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MALFORMED_MODEL_REQUEST.error(f"{name}: expected a number, found: {error}") from error
        if not 0 <= value <= MAX_SAFE_INTEGER or int(value) != value:
            raise MALFORMED_MODEL_REQUEST.error(f"{name}: expected a whole number, found {value}")
        # Providers take a zero for no bound, if at all.
        return int(value) or None
    return None


def add_tool(tools: dict[str, bytes], name: str | None, schema: bytes | msgspec.Raw | None) -> None:
    """Note a tool; of two with one name the first counts."""
    if name:
        tools.setdefault(name, b"{}" if schema is None else bytes(schema))


def wrap_text(text: str) -> bytes:
    """The arguments of a call whose one argument is text of its own grammar."""
    return msgspec.json.encode({"input": text})


def find_free_text(call: ToolCall) -> str:
    """The one argument of such a call, as text; the whole arguments where they are something else."""
    text = find_text((find_members(msgspec.Raw(call.arguments)) or {}).get("input"))
    return call.arguments.decode(errors="replace") if text is None else text


def join_parts(content: msgspec.Raw | None) -> bytes:
    """A message's content as text: itself, or its text parts one below the other."""
    if content is None or is_null(content):
        return b""
    text = find_text(content)
    if text is not None:
        return text.encode()
    parts = find_items(content)
    if parts is None:
        return bytes(content)
    return "\n".join(_describe_part(part) for part in parts).encode()


def _describe_part(part: msgspec.Raw) -> str:
    plain = find_text(part)
    if plain is not None:
        return plain
    members = find_members(part) or {}
    text = find_text(members.get("text"))
    return f"[{find_text(members.get('type')) or 'part'}]" if text is None else text
