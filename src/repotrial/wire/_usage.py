"""Token counts as each dialect reads and writes them (P21: what is not said stays None)."""

from __future__ import annotations

from typing import Final

import msgspec

from repotrial._core.canonical import MAX_SAFE_INTEGER
from repotrial.cost import TokenUsage
from repotrial.wire._json import Members, find_count, find_members
from repotrial.wire._model import Dialect


def build_chat_usage(usage: TokenUsage) -> dict[str, object]:
    total, output = _sum_input(usage), usage.output or 0
    return {
        "prompt_tokens": total,
        "completion_tokens": output,
        "total_tokens": total + output,
        "prompt_tokens_details": _input_details(usage),
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
    }


def build_responses_usage(usage: TokenUsage) -> dict[str, object]:
    total, output = _sum_input(usage), usage.output or 0
    return {
        "input_tokens": total,
        "input_tokens_details": _input_details(usage),
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": total + output,
    }


def build_anthropic_usage(usage: TokenUsage) -> dict[str, object]:
    short, long = usage.cache_write_5m or 0, usage.cache_write_1h or 0
    return {
        "input_tokens": usage.input_uncached or 0,
        "cache_creation_input_tokens": short + long,
        "cache_read_input_tokens": usage.cache_read or 0,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        "output_tokens": usage.output or 0,
    }


def build_gemini_usage(usage: TokenUsage) -> dict[str, object]:
    total, output, thoughts = _sum_input(usage), usage.output or 0, usage.reasoning or 0
    return {
        "promptTokenCount": total,
        "cachedContentTokenCount": usage.cache_read or 0,
        "candidatesTokenCount": max(0, output - thoughts),
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": total + output,
    }


def _input_details(usage: TokenUsage) -> dict[str, int]:
    details = {"cached_tokens": usage.cache_read or 0}
    written = (usage.cache_write_5m or 0) + (usage.cache_write_1h or 0)
    return {**details, "cache_write_tokens": written} if written else details


def _sum_input(usage: TokenUsage) -> int:
    parts = (usage.input_uncached, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h)
    return sum(part or 0 for part in parts)


class _OpenAiNames(msgspec.Struct, frozen=True):
    input: str
    input_details: str
    output: str
    output_details: str


_CHAT: Final = _OpenAiNames(
    "prompt_tokens", "prompt_tokens_details", "completion_tokens", "completion_tokens_details"
)
_RESPONSES: Final = _OpenAiNames(
    "input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details"
)


def read_usage(dialect: Dialect, members: Members) -> TokenUsage:
    """The provider's own count; what it does not say, or not as a count, stays None."""
    match dialect:
        case "openai-chat":
            return _read_openai(members, _CHAT)
        case "openai-responses":
            return _read_openai(members, _RESPONSES)
        case "anthropic-messages":
            return _read_anthropic(members)
        case "gemini":
            return _read_gemini(members)


def _read_openai(members: Members, names: _OpenAiNames) -> TokenUsage:
    total = find_count(members.get(names.input))
    details = find_members(members.get(names.input_details)) or {}
    cached = find_count(details.get("cached_tokens"))
    written = find_count(details.get("cache_write_tokens"))
    output_details = find_members(members.get(names.output_details)) or {}
    return TokenUsage(
        # Both are counted inside the input.
        input_uncached=_subtract(total, cached, written),
        cache_read=cached,
        cache_write_5m=written,
        output=find_count(members.get(names.output)),
        reasoning=find_count(output_details.get("reasoning_tokens")),
        request_input=total,
    )


def _read_anthropic(members: Members) -> TokenUsage:
    uncached = find_count(members.get("input_tokens"))
    read = find_count(members.get("cache_read_input_tokens"))
    created = find_count(members.get("cache_creation_input_tokens"))
    split = find_members(members.get("cache_creation")) or {}
    short = find_count(split.get("ephemeral_5m_input_tokens"))
    long = find_count(split.get("ephemeral_1h_input_tokens"))
    if short is None and long is None:
        # Without a split there is only the short kind.
        short = created
    written = created if created is not None else _add(short, long)
    return TokenUsage(
        input_uncached=uncached,
        cache_read=read,
        cache_write_5m=short,
        cache_write_1h=long,
        output=find_count(members.get("output_tokens")),
        request_input=None if uncached is None else _add(uncached, read, written),
    )


def _read_gemini(members: Members) -> TokenUsage:
    prompt = find_count(members.get("promptTokenCount"))
    tools = find_count(members.get("toolUsePromptTokenCount"))
    total = None if prompt is None else _add(prompt, tools)
    cached = find_count(members.get("cachedContentTokenCount"))
    thoughts = find_count(members.get("thoughtsTokenCount"))
    return TokenUsage(
        input_uncached=_subtract(total, cached),
        cache_read=cached,
        # Thoughts are not among the candidates' tokens here, other than in the dialects above.
        output=_add(find_count(members.get("candidatesTokenCount")), thoughts),
        reasoning=thoughts,
        request_input=total,
    )


def _add(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return min(sum(known), MAX_SAFE_INTEGER) if known else None


def _subtract(total: int | None, *parts: int | None) -> int | None:
    return None if total is None else max(0, total - sum(part or 0 for part in parts))
