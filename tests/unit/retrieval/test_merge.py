"""Records of one run joined: by ids, else by what was called; subagents come up again; tokens count once."""

from __future__ import annotations

from typing import Any

import msgspec

from repotrial.retrieval._merge import merge_traces
from repotrial.transcripts import ImportedTranscript, ToolOutput


def _call(name: str, call_id: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"order": 0, "call_id": call_id, "name": name, "arguments": {}, **fields}


def _record(
    *calls: dict[str, Any], usage: dict[str, tuple[int | None, int | None]] | None = None
) -> ImportedTranscript:
    document: dict[str, Any] = {
        "format": "atif",
        "agent": None,
        "agent_version": None,
        "model": None,
        "session_ids": (),
        "messages": (),
        "calls": calls,
        "usage": [
            {"message_id": key, "usage": {"request_input_tokens": given, "output_tokens": made}}
            for key, (given, made) in (usage or {}).items()
        ],
        "totals": {},
        "outcome": None,
        "entries": len(calls),
        "skipped": (),
    }
    return msgspec.convert(document, ImportedTranscript, from_attributes=True)


def _names(*records: ImportedTranscript) -> list[str]:
    return [call.name for call in merge_traces(records).calls]


def test_calls_are_joined_by_their_ids_whatever_stands_between() -> None:
    base = _record(_call("Task", "1"), _call("Read", "4"), _call("Edit", "5"))
    other = _record(
        _call("Task", "1"), _call("Grep", "2", is_subagent=True), _call("Read", "4"), _call("Edit", "5")
    )
    merged = merge_traces([base, other]).calls
    assert [(call.name, call.is_subagent) for call in merged] == [
        ("Task", False),
        ("Grep", True),
        ("Read", False),
        ("Edit", False),
    ]


def test_an_id_that_is_used_twice_is_joined_in_order() -> None:
    base = _record(_call("Grep", "x", arguments={"n": 1}), _call("Grep", "x", arguments={"n": 2}))
    assert [call.arguments for call in merge_traces([base, base]).calls] == [{"n": 1}, {"n": 2}]


def test_without_common_ids_name_and_arguments_join() -> None:
    base = _record(_call("Read", "a", arguments={"p": 1}), _call("Read", "b", arguments={"p": 1}))
    other = _record(
        _call("Read", "9", arguments={"p": 1}), _call("Bash", "8"), _call("Read", arguments={"p": 1})
    )
    assert _names(base, other) == ["Read", "Bash", "Read"]


def test_a_subagents_call_is_never_taken_for_the_agents_own() -> None:
    base = _record(_call("Read", arguments={"p": 1}))
    other = _record(_call("Read", arguments={"p": 1}, is_subagent=True), _call("Read", arguments={"p": 1}))
    assert [call.is_subagent for call in merge_traces([base, other]).calls] == [True, False]


def test_the_transcript_says_when_and_fills_gaps() -> None:
    output = ToolOutput(raw=b'"src/a.py"')
    base = _record(_call("Grep", "1", arguments="{cut", timestamp="2026-03-01T12:00:00Z"))
    other = _record(_call("Grep", "1", arguments={"q": 1}, timestamp="2026-03-01T12:00:05Z", output=output))
    (call,) = merge_traces([base, other]).calls
    assert call.arguments == {"q": 1}
    assert call.outputs == ("src/a.py",)
    assert call.timestamp == "2026-03-01T12:00:05Z"


def test_each_message_counts_once_and_a_subagents_beside_them() -> None:
    base = _record(
        _call("Task", "1", message_id="m1"),
        _call("Read", "3", message_id="m2"),
        _call("Edit", "4", message_id="m2"),
        usage={"m1": (100, 5), "m2": (200, 5)},
    )
    other = _record(
        _call("Task", "1", message_id="x1"),
        _call("Grep", "2", message_id="x2", is_subagent=True),
        _call("Read", "3", message_id="x3"),
        usage={"x1": (1, 1), "x2": (40, 2), "x3": (1, 1)},
    )
    assert [call.tokens for call in merge_traces([base, other]).calls] == [105, 147, 352, 352]


def test_a_sum_with_an_unknown_part_is_unknown_from_there_on() -> None:
    base = _record(
        _call("A", "1", message_id="m1"),
        _call("B", "2", message_id="m2"),
        _call("C", "3", message_id="m3"),
        usage={"m1": (100, None), "m2": (None, 3), "m3": (100, 3)},
    )
    assert [call.tokens for call in merge_traces([base]).calls] == [100, None, None]


def test_nothing_gives_nothing() -> None:
    assert merge_traces([]).calls == ()
