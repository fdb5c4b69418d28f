"""What a request says about the agent that sends it: sampling, limits, effort, tools offered, system prompts.

Digests are taken over the meaning: dates, ids and temporary paths that agents write anew into each request
are replaced by their names first, so that equal digests mean the same tool and the same prompt in two runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Final

import msgspec

from repotrial._core.canonical import decimal_text
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import UsageError
from repotrial.wire._json import (
    Members,
    find_items,
    find_members,
    find_text,
    is_null,
    read_members,
)
from repotrial.wire._model import Dialect, WireRequest
from repotrial.wire._normalize import VOLATILE_MEMBERS, normalize_value

_MARKS: Final = frozenset({"cache_control"})
"""Members that say where a provider may cache, not what is offered."""
_SETTING: Final = frozenset({"system", "developer"})
_ELSEWHERE: Final = frozenset({"model", "tools", "functions", "stream", "stream_options"})
"""Members that have a field of their own, or say how the answer is transported."""
_TEMPERATURE: Final = ("temperature", "generationConfig.temperature", "generation_config.temperature")
_EFFORT: Final = (
    "reasoning_effort",
    "reasoning.effort",
    "output_config.effort",
    "effort",
    "generationConfig.thinkingConfig.thinkingLevel",
    "generation_config.thinking_config.thinking_level",
)
_BOUNDS: Final = frozenset(
    {"max_tokens", "max_completion_tokens", "max_output_tokens", "generationConfig.maxOutputTokens"}
    | {"generation_config.max_output_tokens"}
)
_MOST_DEPTH: Final = 2
_MOST_CHARACTERS: Final = 200
_MOST_PARAMETERS: Final = 100
_MOST_DIGITS: Final = 40


class RequestSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent asks, without what it asks."""

    temperature: str | None
    """As a decimal; None if the request sets none that can be read as one."""
    effort: str | None
    """In the provider's word; None if the request sets none."""
    max_output_tokens: int | None
    """For all answers together; None if the request sets no bound."""
    parameters: Mapping[str, str]
    """All others by name, nested ones with a dot, as JSON; by its digest where one is long."""
    tools: tuple[tuple[str, Digest], ...]
    """Tools offered, those that the provider runs among them: name, and digest over the whole definition."""
    prompts: tuple[tuple[str, Digest], ...]
    """Texts before the conversation begins: role, and digest over the text."""


def describe_settings(request: WireRequest) -> RequestSettings:
    """Read them off a request."""
    envelope = read_members(request.envelope)
    volatile = VOLATILE_MEMBERS[request.dialect] | _ELSEWHERE
    given = dict(_flatten({name: raw for name, raw in envelope.items() if name not in volatile}, "", 0))
    temperature = next((given.pop(name) for name in _TEMPERATURE if name in given), None)
    effort = next((given.pop(name) for name in _EFFORT if name in given), None)
    parameters = {_name(name): _show(raw) for name, raw in given.items() if name not in _BOUNDS}
    unread = None if temperature is None else _read_decimal(temperature)
    if temperature is not None and unread is None:
        parameters["temperature"] = _show(temperature)
    return RequestSettings(
        temperature=unread,
        effort=None if effort is None else find_text(effort) or _show(effort),
        max_output_tokens=request.max_output_tokens,
        parameters=dict(sorted(parameters.items())[:_MOST_PARAMETERS]),
        tools=tuple(_iter_tools(request.dialect, envelope)),
        prompts=tuple(_iter_prompts(request)),
    )


def _flatten(members: Members, prefix: str, depth: int) -> Iterator[tuple[str, msgspec.Raw]]:
    for name, raw in members.items():
        if is_null(raw):
            continue
        inner = find_members(raw) if depth < _MOST_DEPTH else None
        if inner:
            yield from _flatten(inner, f"{prefix}{name}.", depth + 1)
        else:
            yield f"{prefix}{name}", raw


def _iter_tools(dialect: Dialect, envelope: Members) -> Iterator[tuple[str, Digest]]:
    for item in (*(find_items(envelope.get("tools")) or ()), *(find_items(envelope.get("functions")) or ())):
        tool = find_members(item) or {}
        declared = tool.get("functionDeclarations") or tool.get("function_declarations")
        if dialect == "gemini" and declared is not None:
            for function in find_items(declared) or ():
                yield _find_name(find_members(function) or {}), digest_meaning(function)
        else:
            yield _find_name(tool), digest_meaning(item)


def _find_name(tool: Members) -> str:
    """Its own name, in whichever member the dialect has it; else its kind, which is all that some have."""
    inner = (find_members(tool.get(member)) or {} for member in ("function", "custom"))
    named = (find_text(place.get("name")) for place in (tool, *inner))
    return next(filter(None, named), None) or find_text(tool.get("type")) or next(iter(tool), "unnamed")


def _iter_prompts(request: WireRequest) -> Iterator[tuple[str, Digest]]:
    for message in request.messages:
        if message.role not in _SETTING:
            return
        yield message.role, digest_meaning(message.data)


def digest_meaning(raw: bytes | msgspec.Raw) -> Digest:
    """Digest over a JSON value in one spelling, without what differs between two runs of the same agent."""
    try:
        value = normalize_value(_drop_marks(json.loads(bytes(raw))))
        return digest_bytes(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())
    except (ValueError, RecursionError):
        return digest_bytes(bytes(raw))


def _drop_marks(value: object) -> object:
    if isinstance(value, dict):
        return {name: _drop_marks(item) for name, item in value.items() if name not in _MARKS}
    return [_drop_marks(item) for item in value] if isinstance(value, list) else value


def _read_decimal(raw: msgspec.Raw) -> str | None:
    try:
        text = decimal_text(Decimal(bytes(raw).decode()))
    except (InvalidOperation, UnicodeDecodeError, UsageError):  # `not-canonical`
        return None
    return text if len(text) <= _MOST_DIGITS else None


def _show(raw: msgspec.Raw) -> str:
    text = bytes(raw).decode(errors="replace")
    return text if len(text) <= _MOST_CHARACTERS else digest_meaning(raw)


def _name(name: str) -> str:
    """A name of the agent's choice, as a key of a canonical document."""
    return name.encode("ascii", "backslashreplace").decode("ascii")[:_MOST_CHARACTERS]
