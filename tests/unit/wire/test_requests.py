"""Requests of every dialect, read into one form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from repotrial.wire import Dialect
from support.errors import raises_code
from support.wire import DIALECTS, build_body, build_request, find_answer_schema, parse, read_message_text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_says_the_same_thing(dialect: Dialect) -> None:
    request = build_request(dialect, calls=2)
    assert request.model == "scripted-1"
    assert request.is_streamed
    assert request.max_output_tokens == 4096
    assert set(request.tools) == {"bash"}
    assert json.loads(request.tools["bash"])["required"] == ["command"]
    assert [(call.name, json.loads(call.arguments)) for call in request.calls] == [
        ("bash", {"command": "ls"})
    ] * 2
    assert [result.content for result in request.results] == [b"result 0", b"result 1"]
    assert request.messages[0].role == "system"
    assert "You are an agent." in read_message_text(request.messages[0])
    assert [read_message_text(message) for message in request.messages].count("fix it") == 1


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic-messages"])
def test_results_name_the_calls_that_they_answer(dialect: Dialect) -> None:
    request = build_request(dialect, calls=2)
    assert [call.id for call in request.calls] == [result.call_id for result in request.results]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_body_that_does_not_ask_for_a_stream_is_not_streamed(dialect: Dialect) -> None:
    assert not build_request(dialect, is_streamed=False).is_streamed


def test_messages_keep_their_exact_bytes() -> None:
    first = b'{"role" :"user",\n "content":"caf\\u00e9 \\u2028", "x": 1.50}'
    second = '{"role":"assistant","content":"naïve"}'.encode()
    body = b'{"model":"m","messages": [ ' + first + b" ,\t" + second + b' ], "temperature":1.0}'
    request = parse("openai-chat", body)
    assert [message.data for message in request.messages] == [first, second]
    assert json.loads(request.envelope) == {"model": "m", "temperature": 1.0}
    assert b"1.0" in request.envelope


def test_groups_of_tools_are_flattened() -> None:
    tools = [
        {"type": "function", "name": "exec_command", "parameters": {"type": "object"}},
        {
            "type": "namespace",
            "name": "agents",
            "tools": [{"type": "function", "name": "spawn", "parameters": {"type": "object"}}],
        },
        {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}},
        {"type": "local_shell"},
        {"type": "web_search"},
    ]
    request = parse("openai-responses", {"model": "m", "input": "hi", "tools": tools})
    assert list(request.tools) == ["exec_command", "spawn", "apply_patch", "local_shell"]


def test_tools_that_the_provider_runs_are_not_the_agents() -> None:
    tools = [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
        {"type": "bash_20250124", "name": "bash"},
        {"name": "Read", "input_schema": {"type": "object"}},
    ]
    body = {"model": "m", "max_tokens": 1, "messages": [], "tools": tools}
    assert list(parse("anthropic-messages", body).tools) == ["bash", "Read"]


def test_every_kind_of_call_in_a_responses_history_is_a_call() -> None:
    items: list[dict[str, Any]] = [
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
        {"type": "local_shell_call", "call_id": "c2", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "a"}]},
        {"type": "web_search_call", "id": "ws1", "status": "completed"},
        {"type": "reasoning", "summary": []},
    ]
    request = parse("openai-responses", {"model": "m", "input": items})
    assert [(call.id, call.name, json.loads(call.arguments)) for call in request.calls] == [
        ("c1", "apply_patch", {"input": "*** Begin"}),
        ("c2", "local_shell", {"type": "exec", "command": ["ls"]}),
    ]
    assert [result.content for result in request.results] == [b"ok", b"a"]
    assert [message.role for message in request.messages] == ["assistant", "tool"] * 2 + ["assistant"] * 2


def test_results_in_parts_are_read_as_text_and_failures_are_marked() -> None:
    parts = [
        {"type": "text", "text": "one"},
        {"type": "image", "source": {}},
        {"type": "text", "text": "two"},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": parts, "is_error": True},
        {"type": "tool_result", "tool_use_id": "b"},
    ]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": results}]}
    request = parse("anthropic-messages", body)
    assert [(result.content, result.is_error) for result in request.results] == [
        (b"one\n[image]\ntwo", True),
        (b"", False),
    ]
    failed = {"functionResponse": {"name": "x", "id": "7", "response": {"error": "no"}}}
    (result,) = parse("gemini", {"contents": {"parts": [failed]}}).results
    assert (result.call_id, result.name, result.is_error) == ("7", "x", True)


def test_old_function_calls_of_the_chat_dialect_are_read() -> None:
    messages = [
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "done"},
    ]
    functions = [{"name": "f", "parameters": {"type": "object"}}]
    request = parse("openai-chat", {"model": "m", "messages": messages, "functions": functions})
    assert [call.name for call in request.calls] == ["f"]
    assert [result.name for result in request.results] == ["f"]
    assert set(request.tools) == {"f"}


def test_several_choices_multiply_the_bound() -> None:
    body = {"model": "m", "messages": [], "max_completion_tokens": 100, "max_tokens": 5, "n": 3}
    assert parse("openai-chat", body).max_output_tokens == 300


def test_no_bound_is_no_number() -> None:
    for none in (None, 0):
        body: dict[str, Any] = {"model": "m", "messages": [], "max_tokens": none}
        assert parse("openai-chat", body).max_output_tokens is None


def test_half_a_surrogate_pair_is_read_like_any_other_text() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"cut \\ud83d here \\\\ud83d \\ud83d\\ude00"}]}'
    (message,) = parse("openai-chat", body).messages
    assert read_message_text(message) == "cut � here \\ud83d 😀"


@pytest.mark.parametrize(
    ("dialect", "extra"),
    [
        ("openai-chat", {"response_format": {"type": "json_schema", "json_schema": {"schema": {"x": 1}}}}),
        ("openai-responses", {"text": {"format": {"type": "json_schema", "schema": {"x": 1}}}}),
        ("anthropic-messages", {"output_config": {"format": {"type": "json_schema", "schema": {"x": 1}}}}),
        ("gemini", {"generationConfig": {"responseJsonSchema": {"x": 1}}}),
    ],
)
def test_the_schema_of_the_answer_is_found(dialect: Dialect, extra: dict[str, Any]) -> None:
    body = {**build_body(dialect), **extra}
    assert json.loads(find_answer_schema(parse(dialect, body)) or b"null") == {"x": 1}
    assert find_answer_schema(build_request(dialect)) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'{"model":"m","messages":[',
        b'{"model":"m","messages":{}}',
        b'{"model":"m","messages":[1]}',
        b'{"model":"m","messages":["hi"]}',
        b'{"messages":[]}',
        b'{"model":"","messages":[]}',
        b'{"model":3,"messages":[]}',
        b'{"model":"m","messages":[],"tools":{}}',
        b'{"model":"m","messages":[],"tools":[7]}',
        b'{"model":"m","messages":[],"max_tokens":"many"}',
        b'{"model":"m","messages":[],"max_tokens":-1}',
        b'{"model":"m","messages":[],"max_tokens":1.5}',
        b'{"model":"m","messages":[],"max_tokens":true}',
        b'{"model":"m","messages":[],"max_tokens":1e999}',
        b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}',
    ],
)
def test_what_no_provider_takes_is_refused(body: bytes) -> None:
    with raises_code("malformed-model-request", match="expected"):
        parse("openai-chat", body)
