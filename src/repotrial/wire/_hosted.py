"""The provider's own side as a network: hosted tools, things named by an address, things of an account (P9).

`hosted.toml` lists what is known to stay on the client's side. Everything else counts as hosted, so that a
feature that is new tomorrow is refused until it is looked at.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from repotrial.wire._common import MALFORMED_MODEL_REQUEST
from repotrial.wire._model import Dialect, HostedUse

DEFERRED: Final = "deferred"
"""An answer that is made later, when nothing waits for it and nothing pays for it."""
_ACCOUNT: Final = "account"
_ADDRESS: Final = "address"
_SEARCHING_MODEL: Final = re.compile(r":online$|-search-preview|-search-api|deep-research", re.IGNORECASE)
_SUFFIX: Final = re.compile(r"(?:_preview)?(?:_\d{4}_?\d{2}_?\d{2})?$")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class _Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One wire format's lists."""

    client_tools: frozenset[str]
    parts: frozenset[str]
    members: dict[str, str]
    items: frozenset[str] = frozenset()


@functools.cache
def load_rules() -> dict[Dialect, _Rules]:
    text = importlib.resources.files(__package__).joinpath("hosted.toml").read_text()
    return msgspec.convert(tomllib.loads(text), dict[Dialect, _Rules])


def normalize_name(name: str) -> str:
    """`web_search_20250305`, `web_search_preview` and `webSearch` are one thing."""
    return _SUFFIX.sub("", _CAMEL.sub("_", name).lower())


def read_once(body: bytes) -> dict[str, Any]:
    """A body as plain values; every object of it names each member once.

    Of two members with one name some readers take the first, others the last.

    Raises:
        MALFORMED_MODEL_REQUEST: it is no JSON object, or names a member twice.
    """
    try:
        value = json.loads(body, object_pairs_hook=_build_object)
    except (ValueError, RecursionError) as error:
        raise MALFORMED_MODEL_REQUEST.error(f"body: expected a JSON object, found: {error}") from error
    if not isinstance(value, dict):
        raise MALFORMED_MODEL_REQUEST.error(f"body: expected a JSON object, found {type(value).__name__}")
    return value


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the member {twice[:100]!r} twice in one object")
    return built


def find_hosted(dialect: Dialect, model: str, body: Mapping[str, Any]) -> tuple[HostedUse, ...]:
    """All that the provider would do or fetch by itself for this request."""
    rules = load_rules()[dialect]
    found = [*_iter_members(rules, body), *_iter_tools(dialect, rules, body)]
    if _SEARCHING_MODEL.search(model):
        found.append(HostedUse(feature="web_search", place="model"))
    match dialect:
        case "openai-chat":
            found += _iter_chat(rules, body)
        case "openai-responses":
            found += _iter_responses(rules, body)
        case "anthropic-messages":
            found += _iter_anthropic(rules, body)
        case "gemini":
            found += _iter_gemini(rules, body)
    return tuple(found)


def strip_hosted(dialect: Dialect, body: bytes, features: frozenset[str]) -> bytes:
    """The body without tools and members of these features; what else is hosted stays, and is refused."""
    value = read_once(body)
    rules = load_rules()[dialect]
    for use in [*_iter_members(rules, value)]:
        if use.feature in features:
            del value[use.place]
    tools = value.get("tools")
    if isinstance(tools, list):
        kept = [tool for tool in tools if not _is_stripped(dialect, rules, tool, features)]
        value["tools"] = kept
        if not kept:
            del value["tools"]
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _is_stripped(dialect: Dialect, rules: _Rules, tool: object, features: frozenset[str]) -> bool:
    hosted = [use.feature for use in _iter_tools(dialect, rules, {"tools": [tool]})]
    return bool(hosted) and set(hosted) <= features


def _iter_members(rules: _Rules, body: Mapping[str, Any]) -> Iterator[HostedUse]:
    for name, value in body.items():
        feature = rules.members.get(normalize_name(name))
        if feature is not None and value not in (None, False, [], {}):
            yield HostedUse(feature=feature, place=name)


def _iter_tools(dialect: Dialect, rules: _Rules, body: Mapping[str, Any]) -> Iterator[HostedUse]:
    tools = body.get("tools")
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        if not isinstance(tool, dict):
            yield HostedUse(feature="unknown", place=f"tools[{index}]")
            continue
        for kind in _list_kinds(dialect, tool):
            name = normalize_name(kind)
            if name not in rules.client_tools or _is_remote(tool):
                yield HostedUse(feature=name, place=f"tools[{index}]")
        if dialect == "openai-responses" and isinstance(tool.get("tools"), list):
            for use in _iter_tools(dialect, rules, tool):
                yield HostedUse(feature=use.feature, place=f"tools[{index}].{use.place}")


def _list_kinds(dialect: Dialect, tool: Mapping[str, Any]) -> list[str]:
    if dialect == "gemini":
        return [name for name, value in tool.items() if value is not None]
    kind = tool.get("type")
    if isinstance(kind, str):
        return [kind]
    # Clients leave the type out where a tool is described whole.
    return ["custom" if dialect == "anthropic-messages" else "function"]


def _is_remote(tool: Mapping[str, Any]) -> bool:
    """A shell or a search that names a place of the provider to run in."""
    environment = tool.get("environment")
    kind = environment.get("type") if isinstance(environment, dict) else None
    is_server = tool.get("type") == "tool_search" and tool.get("execution") != "client"
    return is_server or (kind is not None and kind != "local")


def _iter_parts(content: object, place: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Parts of a message with their kind and place; those of an unknown kind too."""
    for index, part in enumerate(content if isinstance(content, list) else ()):
        if isinstance(part, dict):
            kind = part.get("type")
            yield (kind if isinstance(kind, str) else "text", part, f"{place}[{index}]")


def _iter_chat(rules: _Rules, body: Mapping[str, Any]) -> Iterator[HostedUse]:
    for place, message in _iter_objects(body.get("messages"), "messages"):
        if isinstance(message.get("audio"), dict):
            yield HostedUse(feature=_ACCOUNT, place=f"{place}.audio")
        for kind, part, where in _iter_parts(message.get("content"), f"{place}.content"):
            yield from _check_part(rules, kind, part, where)


def _iter_responses(rules: _Rules, body: Mapping[str, Any]) -> Iterator[HostedUse]:
    for place, item in _iter_objects(body.get("input"), "input"):
        kind = item.get("type")
        name = kind if isinstance(kind, str) else "message"
        if name == "item_reference":
            yield HostedUse(feature=_ACCOUNT, place=place)
        elif name not in rules.items:
            yield HostedUse(feature=_name_item(name), place=place)
        for member in ("content", "output"):
            for part_kind, part, where in _iter_parts(item.get(member), f"{place}.{member}"):
                if name not in {"shell_call_output", "tool_search_output"}:
                    yield from _check_part(rules, part_kind, part, where)


def _name_item(kind: str) -> str:
    return "mcp" if kind.startswith("mcp_") else normalize_name(kind).removesuffix("_call")


def _iter_anthropic(rules: _Rules, body: Mapping[str, Any]) -> Iterator[HostedUse]:
    yield from _iter_blocks(rules, body.get("system"), "system")
    for place, message in _iter_objects(body.get("messages"), "messages"):
        yield from _iter_blocks(rules, message.get("content"), f"{place}.content")


def _iter_blocks(rules: _Rules, content: object, place: str) -> Iterator[HostedUse]:
    for kind, part, where in _iter_parts(content, place):
        yield from _check_part(rules, kind, part, where)
        if kind == "tool_result":
            yield from _iter_blocks(rules, part.get("content"), f"{where}.content")


def _iter_gemini(rules: _Rules, body: Mapping[str, Any]) -> Iterator[HostedUse]:
    wrapped = body.get("generateContentRequest")
    if isinstance(wrapped, dict):
        yield from find_hosted("gemini", "", wrapped)
    contents = body.get("contents")
    whole = [contents] if isinstance(contents, dict) else contents
    for place, content in _iter_objects(whole, "contents"):
        for where, part in _iter_objects(content.get("parts"), f"{place}.parts"):
            for name in part:
                plain = normalize_name(name)
                if plain == "file_data":
                    yield HostedUse(feature=_ADDRESS, place=f"{where}.{name}")
                elif plain not in rules.parts:
                    yield HostedUse(feature=plain, place=f"{where}.{name}")


def _iter_objects(items: object, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield f"{name}[{index}]", item


def _check_part(rules: _Rules, kind: str, part: Mapping[str, Any], place: str) -> Iterator[HostedUse]:
    if normalize_name(kind) not in rules.parts:
        yield HostedUse(feature=_name_part(kind), place=place)
        return
    # An Anthropic source, a chat part's object of its own kind, or a Responses part's members.
    inner = part.get("source") or part.get(kind)
    holders = [part, inner] if isinstance(inner, dict) else [part]
    for holder in holders:
        if any(isinstance(holder.get(name), str) for name in ("file_id", "vector_store_id")):
            yield HostedUse(feature=_ACCOUNT, place=place)
        if any(_is_address(holder.get(name)) for name in ("url", "image_url", "file_url", "video_url")):
            yield HostedUse(feature=_ADDRESS, place=place)


def _name_part(kind: str) -> str:
    return {"container_upload": _ACCOUNT, "video_url": _ADDRESS, "audio_url": _ADDRESS}.get(
        kind, normalize_name(kind)
    )


def _is_address(value: object) -> bool:
    return isinstance(value, str) and not value.lstrip().lower().startswith("data:")
