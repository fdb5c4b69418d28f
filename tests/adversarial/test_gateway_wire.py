"""Whatever an agent or a provider sends, the gateway reads it, refuses it, or calls it incomplete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repotrial._core.errors import AgentError
from repotrial.gateway._script._plan import plan_turn
from repotrial.gateway._script._script import Script, ShellStep
from repotrial.wire import Dialect, WireRequest
from repotrial.wire._dialects import build_answer
from repotrial.wire._normalize import normalize_request
from repotrial.wire._reader import AnswerReader
from repotrial.wire._route import find_route
from repotrial.wire._texts import find_answer_schema, read_message_text
from support.errors import raises_code
from support.wire import DIALECTS, build_body, build_request, build_turn, parse, read_chunks

EVENTS = "text/event-stream"
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    10**400,
    "",
    "x",
    [],
    [[]],
    [None],
    {},
    {"type": 7},
    {"": {}},
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _parse(dialect: Dialect, body: bytes) -> WireRequest | None:
    try:
        request = parse(dialect, body)
    except AgentError as error:
        if error.code != "malformed-model-request":
            raise
        return None
    for message in request.messages:
        read_message_text(message)
    find_answer_schema(request)
    return request


def _iter_twisted(value: Any, odd: Iterator[Any]) -> Iterator[Any]:
    """The value with each of its places in turn replaced, or left out."""
    yield next(odd)
    if isinstance(value, dict):
        for name, item in value.items():
            yield from ({**value, name: twisted} for twisted in _iter_twisted(item, odd))
            yield {other: value[other] for other in value if other != name}
    elif isinstance(value, list):
        for index, item in enumerate(value):
            for twisted in _iter_twisted(item, odd):
                yield [*value[:index], twisted, *value[index + 1 :]]


def _cycle(start: int) -> Iterator[Any]:
    return cycle(ODD_VALUES[start:] + ODD_VALUES[:start])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_wrong_type_in_any_field_of_a_request_is_refused_or_read(dialect: Dialect) -> None:
    script = Script(schema="repotrial/script@1", steps=(ShellStep(command="ls"),))
    body = build_body(dialect, calls=1)
    for start in range(len(ODD_VALUES)):
        for twisted in _iter_twisted(body, _cycle(start)):
            request = _parse(dialect, json.dumps(twisted).encode())
            if request is not None:
                turn = plan_turn(script, request, workspace="/workspace").turn
                assert build_answer(request, turn).chunks


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_wrong_type_in_any_field_of_an_answer_is_survived(dialect: Dialect, *, is_streamed: bool) -> None:
    request = build_request(dialect, is_streamed=is_streamed)
    chunks = build_answer(request, build_turn()).chunks
    for index, chunk in enumerate(chunks):
        payload = chunk.partition(b"data: ")[2] or chunk
        if payload.startswith(b"[DONE]"):
            continue
        for start in (0, 4, 9):
            for twisted in _iter_twisted(json.loads(payload), _cycle(start)):
                data = json.dumps(twisted).encode()
                piece = b"data: " + data + b"\n\n" if is_streamed else data
                read_chunks(request, (*chunks[:index], piece, *chunks[index + 1 :]), None)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=40)
@given(data=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_noise_is_refused(dialect: Dialect, data: bytes) -> None:
    _parse(dialect, data)
    for content_type in (EVENTS, "application/json", None):
        read_chunks(build_request(dialect), (data, b"\n\ndata: ", data, b"\n\n"), content_type)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_truncated_request_is_refused_wherever_it_ends(dialect: Dialect) -> None:
    body = json.dumps(build_body(dialect, calls=1)).encode()
    assert _parse(dialect, body) is not None
    assert all(_parse(dialect, body[:end]) is None for end in range(len(body)))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_truncated_answer_is_never_complete(dialect: Dialect) -> None:
    request = build_request(dialect, is_streamed=False)
    (body,) = build_answer(request, build_turn()).chunks
    for end in range(len(body)):
        assert not read_chunks(request, (body[:end],), "application/json").is_complete


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("opened", "closed"), [(b"[", b"]"), (b'{"a":', b"1}")])
@pytest.mark.parametrize("member", ["messages", "input", "contents", "tools", "system", "metadata"])
def test_deep_nesting_is_refused(dialect: Dialect, opened: bytes, closed: bytes, member: str) -> None:
    deep = opened * 50_000 + (b"" if closed == b"]" else b"{") + closed * 50_000
    body = b'{"model":"m","' + member.encode() + b'":' + deep + b"}"
    assert _parse(dialect, body) is None
    with raises_code("malformed-model-request"):
        normalize_request(dialect, body)
    answer = read_chunks(build_request(dialect), (b"data: " + deep + b"\n\n",), EVENTS)
    assert not answer.is_complete


def test_nested_groups_of_tools_end_somewhere() -> None:
    tools: list[dict[str, Any]] = []
    for _ in range(100):
        tools = [{"type": "namespace", "name": "n", "tools": tools}]
    body = json.dumps({"model": "m", "input": "x", "tools": tools}).encode()
    assert _parse("openai-responses", body) is None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_schema_that_refers_to_itself_is_filled_in(dialect: Dialect) -> None:
    schema = {
        "$defs": {
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}
        },
        "type": "object",
        "properties": {
            "command": {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "null"}]},
            "next": {"$ref": "#/$defs/node"},
            "self": {"$ref": "#"},
            "odd": {"$ref": 7, "enum": "x", "items": [], "minItems": 2, "type": "array"},
        },
        "required": ["command", "next", "self", "odd", 9],
    }
    request = build_request(dialect, tools={"bash": schema})
    script = Script(schema="repotrial/script@1", steps=(ShellStep(command="ls"),))
    turn = plan_turn(script, request, workspace="/workspace").turn
    assert b'"ls"' in turn.calls[0].arguments


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_behind_the_cut_of_an_event_is_held_back(dialect: Dialect) -> None:
    """The last event came without its empty line: some readers take it all the same."""
    request = build_request(dialect)
    stream = b"".join(build_answer(request, build_turn("")).chunks)
    end = stream.index(b"\n\n", stream.index(b'"bash"'))
    reader = AnswerReader(request, content_type=EVENTS)
    reader.feed(stream[:end])
    assert b'"bash"' not in stream[: reader.safe_bytes]
    assert [call.name for call in reader.finish().calls] == ["bash"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_large_stream_in_tiny_pieces_is_read(dialect: Dialect) -> None:
    request = build_request(dialect)
    stream = b"".join(build_answer(request, build_turn("x" * 500_000)).chunks)
    reader = AnswerReader(request, content_type=EVENTS)
    for start in range(0, len(stream), 64):
        reader.feed(stream[start : start + 64])
    answer = reader.finish()
    assert answer.is_complete
    assert len(answer.texts[0]) == 500_000


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(method=st.sampled_from(["GET", "POST", "HEAD", "PUT"]), target=st.text(max_size=60))
def test_any_request_line_has_a_route_or_none(method: str, target: str) -> None:
    find_route(method, target)
    find_route(method, f"/v1/messages{target}")


@given(text=st.text(max_size=300))
def test_normalizing_twice_changes_nothing_more(text: str) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    once = normalize_request("openai-chat", body)
    assert normalize_request("openai-chat", once) == once
