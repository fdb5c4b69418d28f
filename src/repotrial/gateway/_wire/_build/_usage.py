"""Usage as each dialect writes it; the counterpart of the reader."""

from __future__ import annotations

from repotrial.cost import TokenUsage

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
