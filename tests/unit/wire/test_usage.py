"""What providers say was consumed, in one form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repotrial.cost import TokenUsage
from repotrial.wire import Dialect
from support.wire import AnswerReader, Turn, build_answer, build_request, read_chunks

MEMBER = {
    "openai-chat": "usage",
    "openai-responses": "usage",
    "anthropic-messages": "usage",
    "gemini": "usageMetadata",
}


def _read(dialect: Dialect, usage: object) -> TokenUsage | None:
    body = {MEMBER[dialect]: usage, "choices": [], "output": [], "candidates": []}
    request = build_request(dialect, is_streamed=False)
    return read_chunks(request, (json.dumps(body).encode(),), "application/json").usage


@pytest.mark.parametrize(
    ("dialect", "usage", "expected"),
    [
        (
            "openai-chat",
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 30},
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
            TokenUsage(input_uncached=70, cache_read=30, output=50, reasoning=20, request_input=100),
        ),
        (
            "openai-responses",
            {
                "input_tokens": 100,
                "output_tokens": 50,
                "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 10},
                "output_tokens_details": {"reasoning_tokens": 20},
            },
            TokenUsage(
                input_uncached=60,
                cache_read=30,
                cache_write_5m=10,
                output=50,
                reasoning=20,
                request_input=100,
            ),
        ),
        (
            "anthropic-messages",
            {
                "input_tokens": 100,
                "cache_read_input_tokens": 30,
                "cache_creation_input_tokens": 12,
                "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 2},
                "output_tokens": 50,
                "server_tool_use": {"web_search_requests": 1},
                "service_tier": "standard",
            },
            TokenUsage(
                input_uncached=100,
                cache_read=30,
                cache_write_5m=10,
                cache_write_1h=2,
                output=50,
                request_input=142,
            ),
        ),
        (
            "anthropic-messages",
            {"input_tokens": 5, "cache_creation_input_tokens": 12, "output_tokens": 1},
            TokenUsage(input_uncached=5, cache_write_5m=12, output=1, request_input=17),
        ),
        (
            "gemini",
            {
                "promptTokenCount": 100,
                "cachedContentTokenCount": 30,
                "candidatesTokenCount": 50,
                "thoughtsTokenCount": 20,
                "totalTokenCount": 170,
            },
            TokenUsage(input_uncached=70, cache_read=30, output=70, reasoning=20, request_input=100),
        ),
        (
            "gemini",
            {"promptTokenCount": 100, "candidatesTokenCount": 5},
            TokenUsage(input_uncached=100, output=5, request_input=100),
        ),
        (
            "openai-chat",
            {"prompt_tokens": 100, "completion_tokens": 50, "prompt_tokens_details": None},
            TokenUsage(input_uncached=100, output=50, request_input=100),
        ),
    ],
)
def test_usage_is_normalized(dialect: Dialect, usage: dict[str, Any], expected: TokenUsage) -> None:
    assert _read(dialect, usage) == expected


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic-messages", "gemini"])
@pytest.mark.parametrize("usage", [None, {}, [], "many", {"prompt_tokens": -1, "input_tokens": "x"}])
def test_what_is_not_said_is_unknown_and_never_zero(dialect: Dialect, usage: object) -> None:
    assert _read(dialect, usage) is None


def test_of_cumulative_counts_the_last_holds() -> None:
    start = {"input_tokens": 10, "cache_read_input_tokens": 3, "output_tokens": 1}
    events = [
        {"type": "message_start", "message": {"usage": start}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 5}},
        {
            "type": "message_delta",
            "delta": {},
            "usage": {"output_tokens": 9, "cache_read_input_tokens": None},
        },
    ]
    reader = AnswerReader(build_request("anthropic-messages"), content_type="text/event-stream")
    seen = []
    for event in events:
        reader.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
        seen.append(reader.usage)
    assert [usage.output for usage in seen] == [1, 5, 9]
    assert seen[-1] == TokenUsage(input_uncached=10, cache_read=3, output=9, request_input=13)


@settings(max_examples=25)
@given(st.tuples(*[st.integers(0, 10**9)] * 3))
@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "gemini"])
def test_counts_survive_being_written_and_read(dialect: Dialect, counts: tuple[int, int, int]) -> None:
    uncached, cached, output = counts
    usage = TokenUsage(
        input_uncached=uncached,
        cache_read=cached,
        output=output,
        reasoning=output // 2,
        request_input=uncached + cached,
    )
    request = build_request(dialect)
    built = build_answer(request, Turn(number=0, text="x", usage=usage))
    assert read_chunks(request, built.chunks, "text/event-stream").usage == usage
