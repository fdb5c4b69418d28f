"""The short way to read a piece of text reads what the long way reads."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from repotrial.wire._chat import ChatReader
from repotrial.wire._draft import AnswerDraft
from support.wire import AnswerReader, find_route, parse_request

_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        "x",
        "é\u2028",
        "",
        5,
        True,
        [],
        {},
        [{"type": "text", "text": "q"}],
        [{"id": "t", "function": {"name": "b"}}],
    ]
)
_NAMES = ("content", "role", "refusal", "tool_calls", "function_call", "reasoning", "text", "x")
_DELTAS = st.one_of(
    st.fixed_dictionaries({"content": st.text(max_size=4)}),
    st.dictionaries(st.sampled_from(_NAMES), _VALUES, max_size=4),
    st.sampled_from([None, []]),
)
_CHOICES = st.fixed_dictionaries(
    {"delta": _DELTAS},
    optional={
        "index": st.sampled_from([0, 1, -1, None, "0", 1 << 60, 1.5]),
        "finish_reason": st.sampled_from([None, "stop", 3]),
        "message": st.just({"content": "m"}),
    },
)
_EVENTS = st.fixed_dictionaries(
    {"choices": st.lists(_CHOICES, max_size=2)},
    optional={
        "model": st.sampled_from(["m1", "", None, 3]),
        "usage": st.sampled_from([None, {"prompt_tokens": 3}]),
        "error": st.sampled_from([None, {"message": "x"}]),
        "created": st.sampled_from([1, None, "1"]),
    },
)


class _LongWay(ChatReader):
    def take_plain(self, draft: object, data: bytes) -> bool:  # noqa: ARG002
        return False


def _read(events: list[Any], reader: ChatReader) -> list[object]:
    route = find_route("POST", "/v1/chat/completions")
    assert route is not None
    request = parse_request(route, b'{"model":"m","stream":true,"messages":[]}')
    answer = AnswerReader(request, content_type="text/event-stream")
    answer._reader = reader
    seen: list[object] = []
    for event in events:
        answer.feed(b"data: " + msgspec.json.encode(event) + b"\n\n")
        seen.append(
            (answer.safe_bytes, answer.has_calls, answer.is_complete, answer.seen_output_bytes, answer.usage)
        )
    return [*seen, answer.finish()]


@given(st.lists(_EVENTS, max_size=5))
def test_both_ways_read_the_same(events: list[Any]) -> None:
    assert _read(events, ChatReader()) == _read(events, _LongWay())


def test_most_events_take_the_short_way() -> None:
    event = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m-1",
        "system_fingerprint": None,
        "choices": [{"index": 0, "delta": {"content": "word"}, "logprobs": None, "finish_reason": None}],
    }
    draft = AnswerDraft()
    assert ChatReader().take_plain(draft, msgspec.json.encode(event))
    assert draft.build_texts() == ("word",)
