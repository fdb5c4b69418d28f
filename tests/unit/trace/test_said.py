"""Prompts and responses as text, in the wire formats of providers."""

from __future__ import annotations

import json

import pytest

from repotrial.trace._said import find_text


def stream(*events: object) -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


CHAT = stream(
    {"choices": [{"delta": {"role": "assistant", "content": "Look"}}]},
    {"choices": [{"delta": {"content": "ing."}}]},
    {"choices": [{"delta": {"tool_calls": [{"function": {"name": "bash", "arguments": '{"command"'}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": ':"ls"}'}}]}}]},
)
RESPONSES = stream(
    {"type": "response.created", "response": {"output": []}},
    {"type": "response.output_text.delta", "delta": "Look"},
    {"type": "response.output_text.delta", "delta": "ing."},
    {"type": "response.output_text.done", "text": "Looking."},
    {
        "type": "response.output_item.added",
        "item": {"type": "function_call", "name": "bash", "arguments": ""},
    },
    {"type": "response.function_call_arguments.delta", "delta": '{"command":"ls"}'},
    {"type": "response.completed", "response": {"output": [{"content": [{"text": "Looking."}]}]}},
)
ANTHROPIC = stream(
    {"type": "message_start", "message": {"role": "assistant", "content": []}},
    {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Looking."}},
    {"type": "content_block_start", "content_block": {"type": "tool_use", "name": "bash", "input": {}}},
    {
        "type": "content_block_delta",
        "delta": {"type": "input_json_delta", "partial_json": '{"command":"ls"}'},
    },
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
)
GEMINI = stream(
    {"candidates": [{"content": {"parts": [{"text": "Looking."}]}}]},
    {"candidates": [{"content": {"parts": [{"functionCall": {"name": "bash", "args": {"command": "ls"}}}]}}]},
)


@pytest.mark.parametrize("data", [CHAT, RESPONSES, ANTHROPIC, GEMINI])
def test_a_streamed_answer_is_told_once_and_as_text(data: str) -> None:
    assert find_text(data) == 'Looking. → bash {"command":"ls"}'


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"role": "user", "content": "Fix\nit."}, "Fix it."),
        ({"role": "user", "content": [{"type": "input_text", "text": "Fix it."}]}, "Fix it."),
        ({"role": "user", "parts": [{"text": "Fix"}, {"text": "it."}]}, "Fix it."),
        ({"type": "function_call_output", "call_id": "c", "output": "ok"}, "ok"),
        ({"content": [{"type": "tool_result", "content": [{"type": "text", "text": "ok"}]}]}, "ok"),
        ({"choices": [{"message": {"content": "Done."}}], "usage": {"text": 3}}, "Done."),
    ],
)
def test_a_message_is_told_as_text(message: object, text: str) -> None:
    assert find_text(json.dumps(message)) == text


@pytest.mark.parametrize("data", ["", "plain words", "[1]", "{}", '{"error": 3}', "data: {", "[" * 100_000])
def test_what_is_in_no_known_format_stays_as_it_is(data: str) -> None:
    assert find_text(data) is None


def test_deep_nesting_is_not_followed() -> None:
    assert find_text('{"content":[' * 400 + '"x"' + "]}" * 400) is None
