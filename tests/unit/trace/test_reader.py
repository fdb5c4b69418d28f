"""Reading: typed, in order, and honest about what is not there."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.trace import RunPaths, iter_events
from repotrial.trace._event import UnknownPayload
from repotrial.trace._files import LineReader
from repotrial.trace._reader import iter_envelopes
from support.errors import raises_code
from support.traces import build_invocation, build_opened, open_writer, write_trace


def test_payloads_come_back_typed(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        writer.append(build_invocation(), actor="agent")
    opened, invoked = iter_events(RunPaths(tmp_path).trace)
    assert (opened.type, opened.actor, opened.payload) == ("run-opened", "harness", build_opened())
    assert (invoked.type, invoked.actor, invoked.payload) == ("tool-invocation", "agent", build_invocation())


def test_envelopes_keep_the_payload_s_bytes(tmp_path: Path) -> None:
    write_trace(tmp_path, 2)
    envelope = list(iter_envelopes(RunPaths(tmp_path).trace))[1]
    assert msgspec.json.decode(envelope.payload) == {"phase": "act", "previous": None}


def test_an_unknown_type_is_kept(tmp_path: Path) -> None:
    write_trace(tmp_path, 2)
    path = RunPaths(tmp_path).trace
    path.write_bytes(path.read_bytes().replace(b"phase-changed", b"phase-dreamt"))
    event = list(iter_events(path))[1]
    assert event.type == "phase-dreamt"
    assert event.payload == UnknownPayload(data=b'{"phase":"act","previous":null}')


def test_a_torn_tail_is_told_after_the_complete_events(tmp_path: Path) -> None:
    write_trace(tmp_path, 3)
    path = RunPaths(tmp_path).trace
    path.write_bytes(path.read_bytes()[:-5])
    events = iter_events(path)
    assert [next(events).seq, next(events).seq] == [0, 1]
    with raises_code("torn-tail"):
        next(events)
    assert len(list(iter_events(path, allow_torn_tail=True))) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"seq":1', b'"seq":2'),
        (b'"phase":"act"', b'"phase":"eat"'),
        (b'"actor":"harness"', b'"actor":"gremlin"'),
        (b'"t":', b'"u":'),
        (b"{", b"["),
    ],
)
def test_a_line_that_is_no_event_is_named(tmp_path: Path, old: bytes, new: bytes) -> None:
    write_trace(tmp_path, 2)
    path = RunPaths(tmp_path).trace
    first, second = path.read_bytes().splitlines()
    path.write_bytes(first + b"\n" + second.replace(old, new) + b"\n")
    with raises_code("malformed-event", match="event 1"):
        list(iter_events(path))


def test_what_is_not_a_file_is_a_named_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    for path in (tmp_path / "missing", tmp_path, tmp_path / "fifo", tmp_path / "link", Path("a\0b")):
        with raises_code("trace-unreadable"):
            list(iter_events(path))


def test_an_endless_line_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with path.open("wb") as stream:
        stream.truncate(1024**4)  # sparse: a terabyte without a newline
    with raises_code("trace-line-too-long", match=r"trace\.jsonl"):
        list(iter_events(path))


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b""))), st.integers(1, 50))
def test_lines_are_those_of_a_plain_split(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cut: int
) -> None:
    data = b"".join(line + b"\n" for line in lines)[:-cut]
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(data)
    with path.open("rb") as stream:
        reader = LineReader(stream)
        found = list(reader)
    assert [*found, reader.torn] == data.split(b"\n")
