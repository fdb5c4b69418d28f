"""Answers of every dialect, read while they come, wherever they are cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repotrial.wire import Dialect, ToolCall, WireAnswer, WireRequest
from support.wire import DIALECTS, USAGE, AnswerReader, build_answer, build_request, build_turn, read_chunks

EVENTS = "text/event-stream; charset=utf-8"
STREAMS = {
    dialect: (request := build_request(dialect), b"".join(build_answer(request, build_turn()).chunks))
    for dialect in DIALECTS
}


def _events(*values: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)


def _read(dialect: Dialect, data: bytes, content_type: str | None = EVENTS) -> WireAnswer:
    return read_chunks(build_request(dialect), (data,), content_type)


def _cut(data: bytes, places: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return (data[start:end] for start, end in pairwise(edges))


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=40)
@given(places=st.lists(st.integers(0, 10_000), max_size=40), end=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_any_chunking_of_a_stream_gives_the_same_answer(
    dialect: Dialect, places: list[int], end: bytes
) -> None:
    request, stream = STREAMS[dialect]
    whole = read_chunks(request, (stream,), EVENTS)
    assert whole.is_complete
    assert len(whole.calls) == 1
    assert read_chunks(request, tuple(_cut(stream.replace(b"\n", end), places)), EVENTS) == whole


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=40)
@given(places=st.lists(st.integers(0, 10_000), max_size=40))
def test_no_byte_of_a_call_is_ever_safe(dialect: Dialect, places: list[int]) -> None:
    request, stream = STREAMS[dialect]
    first = stream.index(b'"bash"')
    reader = AnswerReader(request, content_type=EVENTS)
    fed = 0
    for chunk in _cut(stream, places):
        reader.feed(chunk)
        fed += len(chunk)
        assert reader.safe_bytes <= min(fed, first)
        assert reader.has_calls or fed < stream.index(b"\n\n", first) + 2
    assert stream[: reader.safe_bytes].endswith(b"\n\n")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("is_streamed", [True, False])
def test_what_was_built_is_what_is_read(dialect: Dialect, *, is_streamed: bool) -> None:
    request = build_request(dialect, is_streamed=is_streamed)
    built = build_answer(request, build_turn('Schöne Grüße\u2028, <b> \\ "quoted"'))
    answer = read_chunks(request, built.chunks, built.headers["content-type"])
    assert answer.is_complete
    assert answer.model == "scripted-1"
    assert answer.texts == ('Schöne Grüße\u2028, <b> \\ "quoted"',)
    assert [(call.name, call.arguments) for call in answer.calls] == [("bash", b'{"command":"ls -la"}')]
    assert answer.usage is not None
    assert (answer.usage.input_uncached, answer.usage.cache_read) == (USAGE.input_uncached, USAGE.cache_read)
    assert (answer.usage.output, answer.usage.request_input) == (USAGE.output, USAGE.request_input)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_turn_is_the_same_bytes(dialect: Dialect) -> None:
    request = build_request(dialect)
    assert build_answer(request, build_turn()) == build_answer(request, build_turn())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_text_alone_passes_as_it_comes(dialect: Dialect) -> None:
    request = build_request(dialect)
    reader = AnswerReader(request, content_type=EVENTS)
    fed = 0
    for chunk in build_answer(request, build_turn("Hello there", calls=())).chunks:
        reader.feed(chunk)
        fed += len(chunk)
        assert reader.safe_bytes == fed
        assert not reader.has_calls
    assert reader.is_complete
    assert reader.finish().calls == ()
    assert reader.seen_output_bytes == len("Hello there")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_that_is_cut_is_not_complete_but_keeps_what_came(dialect: Dialect) -> None:
    request, stream = STREAMS[dialect]
    cut = stream[: stream.index(b'"bash"')]
    answer = read_chunks(request, (cut,), EVENTS)
    assert not answer.is_complete
    assert "".join(answer.texts) == "I look."


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_plain_answer_is_kept_back_until_it_is_whole(dialect: Dialect) -> None:
    request = build_request(dialect, is_streamed=False)
    (body,) = build_answer(request, build_turn("Hi", calls=())).chunks
    reader = AnswerReader(request, content_type="application/json")
    for byte in body:
        reader.feed(bytes([byte]))
        assert (reader.has_calls, reader.safe_bytes) == (True, 0)
    assert reader.finish().texts == ("Hi",)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("content_type", ["application/json", "text/plain", None])
def test_a_stream_is_known_whatever_its_header_says(dialect: Dialect, content_type: str | None) -> None:
    request, stream = STREAMS[dialect]
    assert read_chunks(request, tuple(_cut(stream, list(range(40)))), content_type).calls


@pytest.mark.parametrize("dialect", DIALECTS)
def test_plain_json_is_known_whatever_its_header_says(dialect: Dialect) -> None:
    request = build_request(dialect, is_streamed=False)
    assert read_chunks(request, build_answer(request, build_turn()).chunks, EVENTS).calls


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_behind_a_line_that_looks_like_json_is_read_at_its_end(dialect: Dialect) -> None:
    request, stream = STREAMS[dialect]
    reader = AnswerReader(request, content_type=EVENTS)
    reader.feed(b"{}\n\n" + stream)
    assert reader.safe_bytes == 0
    assert reader.finish().calls


def test_what_cannot_be_read_is_kept_back() -> None:
    reader = AnswerReader(build_request("openai-chat"), content_type=EVENTS)
    harmless = b': comment\n\nid: 4\nretry: 10\n\ndata: {"choices":[]}\n\n'
    reader.feed(harmless)
    assert (reader.safe_bytes, reader.has_calls) == (len(harmless), False)
    reader.feed(b'data: {"choices":[{"delta":{"tool_calls":[}\n\n')
    assert (reader.safe_bytes, reader.has_calls) == (len(harmless), True)
    reader.feed(b"data: [DONE]\n\n")
    assert not reader.finish().is_complete


def test_an_event_over_several_lines_is_one() -> None:
    data = (
        b'event: x\ndata: {"choices":[{"index":0,\n'
        b'data: "delta":{"content":"hi"},\ndata:"finish_reason":"stop"}]}\n\n'
    )
    answer = _read("openai-chat", data)
    assert (answer.texts, answer.is_complete) == (("hi",), True)


def test_a_missing_end_mark_does_not_matter_where_the_reason_came() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    assert _read("openai-chat", _events(chunk)).is_complete
    assert _read("openai-chat", _events(chunk)[:-2]).is_complete


def test_calls_of_a_chat_stream_are_put_together_by_index() -> None:
    def delta(*calls: dict[str, Any]) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"tool_calls": list(calls)}}]}

    first = {"index": 0, "id": "a", "function": {"name": "read", "arguments": '{"p'}}
    second = {"index": 1, "id": "b", "function": {"name": "bash", "arguments": ""}}
    rest = [{"index": 1, "function": {"arguments": "{}"}}, {"index": 0, "function": {"arguments": 'ath":1}'}}]
    answer = _read("openai-chat", _events(delta(first), delta(second), delta(*rest)))
    assert answer.calls == (
        ToolCall(id="a", name="read", arguments=b'{"path":1}'),
        ToolCall(id="b", name="bash", arguments=b"{}"),
    )


def test_calls_without_an_index_are_told_apart_by_their_id() -> None:
    calls = [
        {"id": "a", "function": {"name": "x", "arguments": '{"n":'}},
        {"function": {"arguments": "1}"}},
        {"id": "b", "function": {"name": "y", "arguments": "{}"}},
    ]
    answer = _read(
        "openai-chat", _events(*({"choices": [{"delta": {"tool_calls": [call]}}]} for call in calls))
    )
    assert [(call.id, call.arguments) for call in answer.calls] == [("a", b'{"n":1}'), ("b", b"{}")]


def test_calls_that_share_an_index_are_told_apart_by_their_id() -> None:
    calls = [
        {"index": 0, "id": "a", "function": {"name": "x", "arguments": '{"n":'}},
        {"index": 0, "id": "a", "function": {"arguments": "1"}},
        {"index": 0, "function": {"arguments": "}"}},
        {"index": 0, "id": "b", "function": {"name": "y", "arguments": "{"}},
        {"index": 0, "function": {"arguments": "}"}},
    ]
    answer = _read(
        "openai-chat", _events(*({"choices": [{"delta": {"tool_calls": [call]}}]} for call in calls))
    )
    assert [(call.id, call.name, call.arguments) for call in answer.calls] == [
        ("a", "x", b'{"n":1}'),
        ("b", "y", b"{}"),
    ]


def test_arguments_that_come_in_pieces_replace_those_of_the_start() -> None:
    block = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    assert _read("anthropic-messages", _events(start)).calls[0].arguments == b'{"command": "ls"}'
    pieces = [
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": piece},
        }
        for piece in ('{"command":', '"rm -rf ~"}')
    ]
    answer = _read("anthropic-messages", _events(start, *pieces))
    assert answer.calls[0].arguments == b'{"command":"rm -rf ~"}'


def test_bytes_that_are_no_text_are_kept_back() -> None:
    reader = AnswerReader(build_request("gemini"), content_type=EVENTS)
    part = b'{"functionCall":{"name":"x","args":{"a":"\xff"}}}'
    reader.feed(b'data: {"candidates":[{"content":{"parts":[' + part + b"]}}]}\n\n")
    assert (reader.safe_bytes, reader.has_calls, reader.finish().is_complete) == (0, True, False)


def test_reasoning_is_kept_apart_from_what_is_said() -> None:
    chat = {"choices": [{"delta": {"reasoning_content": "hm", "content": "so"}}]}
    assert _read("openai-chat", _events(chat)).reasoning == ("hm",)
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "so"}]
    message = {"type": "message", "content": blocks, "stop_reason": "end_turn"}
    answer = _read("anthropic-messages", json.dumps(message).encode(), "application/json")
    assert (answer.reasoning, answer.texts, answer.is_complete) == (("hm",), ("so",), True)
    parts = [{"text": "h", "thought": True}, {"text": "m", "thought": True}, {"text": "so"}]
    answer = _read("gemini", _events({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}))
    assert (answer.reasoning, answer.texts) == (("hm",), ("so",))


def test_a_list_of_gemini_answers_is_one_answer() -> None:
    pieces = [{"candidates": [{"content": {"parts": [{"text": text}]}}]} for text in ("a", "b")]
    ended = {"candidates": [{"finishReason": "MAX_TOKENS"}]}
    answer = _read("gemini", json.dumps([*pieces, ended]).encode(), "application/json")
    assert (answer.texts, answer.stop_reason, answer.is_complete) == (("ab",), "MAX_TOKENS", True)


def test_tools_that_the_provider_runs_are_no_calls() -> None:
    block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": "{}"}
    anthropic = _events(
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
    )
    assert _read("anthropic-messages", anthropic).calls == ()
    item = {"type": "web_search_call", "id": "ws", "status": "completed"}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    assert _read("openai-responses", _events(added)).calls == ()


def test_an_end_that_repeats_what_was_streamed_in_other_places_adds_nothing() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "x", "arguments": "{}"}
    message = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}
    events = [
        {"type": "response.output_item.done", "output_index": 1, "item": message},
        {"type": "response.output_item.done", "output_index": 2, "item": call},
        {"type": "response.completed", "response": {"status": "completed", "output": [message, call]}},
    ]
    answer = _read("openai-responses", _events(*events))
    assert (answer.texts, len(answer.calls), answer.is_complete) == (("hi",), 1, True)


def test_a_call_that_only_the_end_of_a_response_shows_is_a_call() -> None:
    item = {"type": "function_call", "call_id": "c", "name": "x", "arguments": "{}"}
    response = {"status": "completed", "output": [item]}
    reader = AnswerReader(build_request("openai-responses"), content_type=EVENTS)
    reader.feed(_events({"type": "response.completed", "response": response}))
    assert (reader.has_calls, reader.safe_bytes) == (True, 0)


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("openai-chat", {"error": {"message": "no", "type": "server_error"}}),
        ("openai-responses", {"type": "response.failed", "response": {"error": {"code": "x"}, "output": []}}),
        ("anthropic-messages", {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}),
        ("gemini", {"error": {"code": 500, "message": "no"}}),
    ],
)
def test_an_error_in_a_stream_is_no_complete_answer(dialect: Dialect, event: dict[str, Any]) -> None:
    request, _ = STREAMS[dialect]
    text = b"".join(build_answer(request, build_turn("Hi", calls=())).chunks)
    assert read_chunks(request, (text,), EVENTS).is_complete
    assert not read_chunks(request, (text + _events(event),), EVENTS).is_complete


def test_a_count_is_complete_without_a_reason_to_stop() -> None:
    request = WireRequest(
        dialect="anthropic-messages",
        model="m",
        is_streamed=False,
        messages=(),
        envelope=b"{}",
        tools={},
        calls=(),
        results=(),
        max_output_tokens=None,
        is_count_only=True,
    )
    answer = read_chunks(request, (b'{"input_tokens": 12}',), "application/json")
    assert answer.is_complete
    assert answer.usage is None
