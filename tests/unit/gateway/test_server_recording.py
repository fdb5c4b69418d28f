"""Recordings: made on the way, replayed in the place of a provider."""

from __future__ import annotations

import contextlib
import http.client
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.exchanges import FakeUpstream
from repotrial._core.errors import EvidenceError
from repotrial.gateway import Recorder, RecordingUpstream
from repotrial.gateway._recording._replay import find_difference
from repotrial.redaction import SecretRedactor
from support.errors import raises_code
from support.gateways import KEY, Reply, ask, build_chat, build_delta, build_text_stream, open_gateway

CHAT = "/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]


def _build_turns(number: int, *, session: str = "1") -> list[dict[str, object]]:
    """Requests of a conversation that grows, with things in it that differ from run to run."""
    messages: list[dict[str, object]] = [
        {
            "role": "system",
            "content": f"You work in /workspace. It is 2026-01-0{session} 10:00:00. " + "Long. " * 2000,
        },
        {"role": "user", "content": "Mend it."},
    ]
    turns = []
    for turn in range(number):
        turns.append(
            {
                "model": "m-1",
                "stream": True,
                "messages": list(messages),
                "tools": TOOLS,
                "user": f"session-{session}",
            }
        )
        call = {
            "id": f"call-{session}-{turn}",
            "type": "function",
            "function": {"name": "bash", "arguments": "{}"},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": f"result {turn}"})
    return turns


def _record(
    directory: Path, requests: list[dict[str, object]], *, upstream: FakeUpstream | None = None
) -> list[Reply]:
    answering = upstream or FakeUpstream(build_text_stream("Hello", " there"))
    redactor = SecretRedactor({"GATEWAY_KEY": KEY})
    with open_gateway(Recorder(answering, directory, redactor=redactor)) as gateway:
        return [ask(gateway.port, CHAT, request) for request in requests]


def test_many_lanes_are_recorded_without_keeping_the_last_request_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("repotrial.gateway._recording._recorder._MOST_KEPT", 1000)
    asked = [build_chat("x" * 400, model=f"m-{number}") for number in range(6)]
    recorder = Recorder(FakeUpstream(build_text_stream("Hello")), tmp_path)
    with open_gateway(recorder) as gateway:
        replies = [ask(gateway.port, CHAT, request) for request in [*asked, *asked]]
        assert sum(len(body) for _, body in recorder._last.values()) <= 1000
    with open_gateway(RecordingUpstream(tmp_path)) as gateway:
        again = [ask(gateway.port, CHAT, request) for request in [*asked, *asked]]
    assert [reply.body for reply in again] == [reply.body for reply in replies]


def test_a_replay_answers_as_before_to_the_byte(tmp_path: Path) -> None:
    turns = _build_turns(4)
    before = _record(tmp_path, turns)
    upstream = RecordingUpstream(tmp_path)
    with open_gateway(upstream) as gateway:
        after = [ask(gateway.port, CHAT, turn) for turn in turns]
    assert [reply.body for reply in after] == [reply.body for reply in before]


def test_what_differs_from_run_to_run_is_no_divergence_in_a_normalized_replay(tmp_path: Path) -> None:
    _record(tmp_path, _build_turns(3))
    upstream = RecordingUpstream(tmp_path)
    with open_gateway(upstream) as gateway:
        replies = [ask(gateway.port, CHAT, turn) for turn in _build_turns(3, session="2")]
    assert [reply.status for reply in replies] == [200, 200, 200]


def test_the_first_differing_request_is_named_with_its_place_and_both_values(tmp_path: Path) -> None:
    _record(tmp_path, _build_turns(3))
    told: list[str] = []
    upstream = RecordingUpstream(tmp_path, on_divergence=told.append)
    turns: list[Any] = _build_turns(3)
    turns[1]["messages"][3]["content"] = "result nought"
    turns[2]["messages"][3]["content"] = "result nought"
    with open_gateway(upstream) as gateway:
        replies = [ask(gateway.port, CHAT, turn) for turn in turns]
    assert [reply.status for reply in replies] == [200, 409, 409]
    assert "/body/messages/3/content" in replies[1].json["error"]["message"]
    (divergence,) = told
    assert divergence.startswith("request 1: expected exchange 1; at /body/messages/3/content:")
    assert divergence.endswith("expected 'result 0', found 'result nought'")


def test_one_more_request_than_recorded_is_a_divergence(tmp_path: Path) -> None:
    turns = _build_turns(1)
    _record(tmp_path, turns)
    told: list[str] = []
    upstream = RecordingUpstream(tmp_path, on_divergence=told.append)
    with open_gateway(upstream) as gateway:
        assert [ask(gateway.port, CHAT, turn).status for turn in turns * 2] == [200, 409]
    (divergence,) = told
    assert divergence.startswith("request 1: expected the end of the recording;")


def test_side_conversations_may_come_at_any_time(tmp_path: Path) -> None:
    turns = _build_turns(2)
    title = build_chat("Give this a title")
    _record(tmp_path, [title, *turns])
    upstream = RecordingUpstream(tmp_path)
    with open_gateway(upstream) as gateway:
        assert [ask(gateway.port, CHAT, turn).status for turn in (*turns, title)] == [200] * 3


def test_failures_are_replayed_as_failures(tmp_path: Path) -> None:
    request = build_chat()
    broken = FakeUpstream([build_delta(content="a")], error=OSError("reset"))
    limited = FakeUpstream(
        [b'{"error":{}}'], status=429, headers={"content-type": "application/json", "retry-after": "1"}
    )
    for name, upstream in {
        "none": FakeUpstream(error=OSError("no")),
        "broken": broken,
        "limited": limited,
    }.items():
        with open_gateway(Recorder(upstream, tmp_path / name)) as gateway:
            _ask_anyway(gateway.port, request)
        before = gateway.supervisor.exchange.end
        with open_gateway(RecordingUpstream(tmp_path / name)) as gateway:
            _ask_anyway(gateway.port, request)
        after = gateway.supervisor.exchange.end
        assert (after.cause, after.status, after.body) == (before.cause, before.status, before.body)


def _ask_anyway(port: int, request: object) -> None:
    with contextlib.suppress(http.client.IncompleteRead):
        ask(port, CHAT, request)


def test_a_conversation_that_grows_is_kept_in_pieces_that_are_new(tmp_path: Path) -> None:
    turns = _build_turns(20)
    _record(tmp_path, turns)
    kept = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    sent = sum(len(msgspec.json.encode(turn)) for turn in turns)
    assert kept < sent / 5
    with open_gateway(RecordingUpstream(tmp_path)) as gateway:
        assert [ask(gateway.port, CHAT, turn).status for turn in turns[:13]] == [200] * 13
        reply = ask(gateway.port, CHAT, {**turns[13], "temperature": 1})
        assert [ask(gateway.port, CHAT, turn).status for turn in turns[13:]] == [200] * 7
    assert "/body/temperature" in reply.json["error"]["message"]


def test_neither_the_runs_key_nor_a_header_is_kept(tmp_path: Path) -> None:
    request = build_chat(f"my key is {KEY}")
    upstream = FakeUpstream(
        build_text_stream(f"really {KEY}"),
        headers={"content-type": "text/event-stream", "x-account": "acct-7"},
    )
    _record(tmp_path, [request], upstream=upstream)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()
            assert b"acct-7" not in path.read_bytes()
    other = "another-run-has-another-key-9876"
    replay = RecordingUpstream(tmp_path, redactor=SecretRedactor({"GATEWAY_KEY": other}))
    with open_gateway(replay) as gateway:
        assert ask(gateway.port, CHAT, build_chat(f"my key is {other}")).status == 200


def test_a_recording_is_there_when_it_is_whole(tmp_path: Path) -> None:
    recorder = Recorder(FakeUpstream(build_text_stream("x")), tmp_path)
    with open_gateway(recorder) as gateway:
        ask(gateway.port, CHAT, build_chat())
        with raises_code("recording-unreadable"):
            RecordingUpstream(tmp_path)
    RecordingUpstream(tmp_path)


@pytest.mark.parametrize("damage", ["index", "blob", "base", "twice", "none"])
def test_a_damaged_recording_is_refused(tmp_path: Path, damage: str) -> None:
    _record(tmp_path, _build_turns(2))
    index = tmp_path / "exchanges.jsonl"
    lines = index.read_bytes().splitlines(keepends=True)
    match damage:
        case "index":
            index.write_bytes(lines[0] + b"{}\n")
        case "base":
            index.write_bytes(lines[0] + lines[2])
        case "twice":
            index.write_bytes(b"".join(lines) + lines[1])
        case "none":
            index.unlink()
        case _:
            for path in (tmp_path / "blobs").rglob("*"):
                if path.is_file():
                    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(EvidenceError):
        RecordingUpstream(tmp_path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON, _JSON)
def test_a_difference_is_found_where_there_is_one(one: object, other: object) -> None:
    same = msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")
    assert (find_difference(one, other) is None) == same
    assert find_difference(one, one) is None


def test_long_texts_are_shown_where_they_differ() -> None:
    difference = find_difference({"a/b": ["x" * 500 + "one"]}, {"a/b": ["x" * 500 + "two"]})
    assert difference is not None
    assert difference.pointer == "/a~1b/0"
    assert difference.expected.endswith("xone")
    assert difference.found.endswith("xtwo")
    assert len(difference.expected) < 100
