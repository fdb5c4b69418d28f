"""The verdict on a chain: which type, which event, which reason."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import msgspec
import orjson
import pytest

from repotrial.trace import RunPaths, TraceHead
from repotrial.trace._verify_chain import (
    BadEvent,
    ChainReport,
    Intact,
    Tampered,
    Truncated,
    UnknownTypeCount,
    UnknownVersion,
    Unverifiable,
    check_chain,
    check_stream,
)
from support.traces import RUN_ID, bodies_of, build_opened, chain_bodies, write_trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    root = tmp_path_factory.mktemp("run")
    write_trace(root, 6)
    return RunPaths(root).trace.read_bytes()


@pytest.fixture(scope="module")
def head(trace: bytes) -> TraceHead:
    found = check_stream(BytesIO(trace)).head
    assert found is not None
    return found


def _check(data: bytes, *, run_id: str | None = RUN_ID, expected: TraceHead | None = None) -> ChainReport:
    return check_stream(BytesIO(data), run_id=run_id, expected=expected)


def _tampered(report: ChainReport) -> BadEvent:
    assert isinstance(report.status, Tampered), report
    return report.status.first_bad


def _truncated(report: ChainReport) -> BadEvent:
    assert isinstance(report.status, Truncated), report
    return report.status.first_bad


def _unverifiable(report: ChainReport) -> BadEvent:
    assert isinstance(report.status, Unverifiable), report
    return report.status.first_bad


def _with_payload(body: bytes, payload: object, *, event_type: str | None = None) -> bytes:
    event = orjson.loads(body)
    event["payload"] = payload
    event["type"] = event_type or event["type"]
    return orjson.dumps(event, option=orjson.OPT_SORT_KEYS)


def test_an_untouched_trace_is_intact(tmp_path: Path) -> None:
    head = write_trace(tmp_path, 6)
    report = check_chain(RunPaths(tmp_path).trace, run_id=RUN_ID, expected=head)
    assert report.status == Intact()
    assert report.is_intact
    assert (report.run_id, report.count, report.head) == (RUN_ID, 6, head)
    assert report.verified_bytes == RunPaths(tmp_path).trace.stat().st_size


def test_the_report_can_be_written_as_json(trace: bytes) -> None:
    report = _check(trace.replace(b"brief", b"grief", 1))
    assert msgspec.json.decode(msgspec.json.encode(report), type=ChainReport) == report


def test_a_changed_event_is_the_first_bad_one(trace: bytes) -> None:
    lines = trace.splitlines(keepends=True)
    lines[3] = lines[3].replace(b"brief", b"grief")
    bad = _tampered(_check(b"".join(lines)))
    assert (bad.seq, bad.reason, bad.offset_bytes) == (3, "hash-mismatch", len(b"".join(lines[:3])))


@pytest.mark.parametrize("order", [[0, 2, 1, 3, 4, 5], [0, 1, 3, 4, 5], [0, 1, 1, 2, 3, 4, 5]])
def test_moved_missing_and_doubled_events_are_out_of_order(trace: bytes, order: list[int]) -> None:
    lines = trace.splitlines(keepends=True)
    assert _tampered(_check(b"".join(lines[index] for index in order))).reason == "out-of-order"


def test_a_removed_first_event_is_not_a_trace_without_its_run_id(trace: bytes) -> None:
    rest = b"".join(trace.splitlines(keepends=True)[1:])
    assert _unverifiable(_check(rest, run_id=None)).reason == "not-a-trace"
    assert _tampered(_check(rest)).seq == 0


def test_the_trace_of_another_run_is_not_this_run_s(trace: bytes) -> None:
    assert _tampered(_check(trace, run_id="run-2")).reason == "other-run"


def test_a_torn_tail_is_truncated_and_its_prefix_holds(trace: bytes) -> None:
    report = _check(trace[:-7])
    assert (_truncated(report).seq, _truncated(report).reason, report.count) == (5, "torn-tail", 5)


def test_a_cut_between_lines_needs_the_head(trace: bytes, head: TraceHead) -> None:
    cut = b"".join(trace.splitlines(keepends=True)[:-2])
    assert _check(cut).is_intact
    bad = _truncated(_check(cut, expected=head))
    assert (bad.seq, bad.reason, bad.offset_bytes) == (4, "missing-events", len(cut))


def test_an_empty_file_is_truncated(head: TraceHead) -> None:
    assert _truncated(_check(b"")).reason == "empty"
    assert _truncated(_check(b"", expected=head)).reason == "missing-events"


def test_events_after_the_sealed_head_are_found(trace: bytes, head: TraceHead) -> None:
    bodies = bodies_of(trace)
    more = orjson.dumps({**orjson.loads(bodies[-1]), "seq": 6, "t": 2**52}, option=orjson.OPT_SORT_KEYS)
    longer = chain_bodies([*bodies, more])
    assert _check(longer).is_intact
    bad = _tampered(_check(longer, expected=head))
    assert (bad.seq, bad.reason, bad.offset_bytes) == (6, "after-head", len(trace))


@pytest.mark.parametrize("more", [b"x", b"\n", b"\n\n", b"{}\n", b"\0" * 10, b" "])
def test_anything_behind_the_sealed_head_is_found(trace: bytes, head: TraceHead, more: bytes) -> None:
    assert _tampered(_check(trace + more, expected=head)).reason == "after-head"
    assert not _check(trace + more).is_intact


def test_a_chain_computed_anew_is_found_by_the_head(trace: bytes, head: TraceHead) -> None:
    bodies = bodies_of(trace)
    bodies[2] = bodies[2].replace(b'"previous":"brief"', b'"previous":"bind"')
    forged = chain_bodies(bodies)
    assert _check(forged).is_intact
    assert _tampered(_check(forged, expected=head)).reason == "other-head"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"phase":"act"', b'"phase": "act"'),
        (b'"phase":"act"', b'"phase":"\\u0061ct"'),
        (b'"phase":"act"', b'"phase":"bind","phase":"act"'),
        (b'"seq":2', b'"seq":02'),
        (b'"seq":2', b'"seq":2e0'),
        (b'"type":"phase-changed"}', b'"type":"phase-changed"} '),
        (b'"type":"phase-changed"}', b'"type":"phase-changed"}\r'),
        (b'"type":"phase-changed"}', b'"type":"phase-changed"}{}'),
        (b'"phase":"act","previous":"brief"', b'"previous":"brief","phase":"act"'),
        (b'"act"', b'"\\ud800"'),
        (b'"act"', b'"\xff"'),
        (b'"act"', b"NaN"),
    ],
)
def test_another_serialization_is_tampering_even_with_the_right_hash(
    trace: bytes, old: bytes, new: bytes
) -> None:
    bodies = bodies_of(trace)
    assert old in bodies[2]
    bodies[2] = bodies[2].replace(old, new)
    bad = _tampered(_check(chain_bodies(bodies)))
    assert (bad.seq, bad.reason) == (2, "not-canonical")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"seq":2', b'"seq":3', "out-of-order"),
        (b'"seq":2', b'"seq":true', "out-of-order"),
        (b'"seq":2', b'"seq":2.0', "out-of-order"),
        (b'"type":"phase-changed"', b'"type":7', "malformed"),
        (b'"type":"phase-changed"', b'"type":["phase-changed"]', "malformed"),
        (b'"type":"phase-changed"', b'"type":"run-opened"', "opened-twice"),
        (b',"type":"phase-changed"', b"", "malformed"),
        (b',"type":"phase-changed"', b',"type":"phase-changed","z":1', "malformed"),
    ],
)
def test_a_wrong_envelope_is_tampering_even_with_the_right_hash(
    trace: bytes, old: bytes, new: bytes, reason: str
) -> None:
    bodies = bodies_of(trace)
    bodies[2] = bodies[2].replace(old, new)
    bad = _tampered(_check(chain_bodies(bodies)))
    assert (bad.seq, bad.reason) == (2, reason)


@pytest.mark.parametrize("t", [0, -1, 2**53, 1.5, None, True])
def test_time_that_does_not_increase_is_tampering(trace: bytes, t: object) -> None:
    bodies = bodies_of(trace)
    event = orjson.loads(bodies[2])
    bodies[2] = orjson.dumps({**event, "t": t}, option=orjson.OPT_SORT_KEYS)
    assert _tampered(_check(chain_bodies(bodies))).reason == "time-not-increasing"


def test_a_payload_that_does_not_fit_is_unverifiable(trace: bytes) -> None:
    bodies = bodies_of(trace)
    bodies[2] = _with_payload(bodies[2], {"phase": "dream", "previous": None})
    bodies[4] = _with_payload(bodies[4], {"phase": "act", "previous": None, "new_in_a_later_release": 1})
    report = _check(chain_bodies(bodies))
    bad = _unverifiable(report)
    assert (bad.seq, bad.reason, report.count) == (2, "payload-misfit", 6)
    assert "$.phase" in bad.detail


def test_tampering_counts_more_than_a_payload_that_does_not_fit(trace: bytes) -> None:
    bodies = bodies_of(trace)
    bodies[2] = _with_payload(bodies[2], {"phase": "dream", "previous": None})
    data = chain_bodies(bodies)
    assert _tampered(_check(data[:-20] + b"X" + data[-19:])).seq == 5


def test_an_unknown_event_type_is_kept_and_counted(trace: bytes) -> None:
    bodies = bodies_of(trace)
    for index in (2, 3):
        bodies[index] = _with_payload(bodies[index], {"anything": [1, "x", None]}, event_type="dream")
    report = _check(chain_bodies(bodies))
    assert report.is_intact
    assert report.unknown_types == (UnknownTypeCount(type="dream", count=2),)


@pytest.mark.parametrize("payload", [{"x": 0.5}, {"x": [2**53]}, {"é": 1}, [1], "text", None])
def test_an_unknown_event_type_must_still_be_canonical(trace: bytes, payload: object) -> None:
    bodies = bodies_of(trace)
    bodies[2] = _with_payload(bodies[2], payload, event_type="dream")
    assert _tampered(_check(chain_bodies(bodies))).reason == "not-canonical"


@pytest.mark.parametrize("depth", [100, 300, 2000, 100_000])
def test_a_deeply_nested_unknown_payload_ends_in_a_verdict(trace: bytes, depth: int) -> None:
    bodies = bodies_of(trace)
    nested = b'{"x":' + b"[" * depth + b"]" * depth + b"}"
    event = (
        bodies[2].replace(b'{"phase":"act","previous":"brief"}', nested).replace(b"phase-changed", b"dream")
    )
    assert isinstance(_check(chain_bodies([*bodies[:2], event])).status, Intact | Tampered)


def test_another_major_version_is_not_judged(trace: bytes) -> None:
    report = _check(trace.replace(b"repotrial/trace@2", b"repotrial/trace@3"))
    assert report.status == UnknownVersion(schema="repotrial/trace@3")


def test_the_first_event_must_open_the_run(trace: bytes) -> None:
    first = bodies_of(trace)[1].replace(b'"seq":1', b'"seq":0')
    assert _tampered(_check(chain_bodies([first]))).reason == "malformed"


def test_an_opening_with_a_wrong_field_is_unverifiable() -> None:
    opened = {**msgspec.to_builtins(build_opened()), "manifest_digest": "none"}
    event = {"actor": "harness", "payload": opened, "seq": 0, "t": 1, "type": "run-opened"}
    body = orjson.dumps(event, option=orjson.OPT_SORT_KEYS)
    assert _unverifiable(_check(chain_bodies([body]))).reason == "payload-misfit"


def test_a_byte_order_mark_and_other_line_ends_are_tampering(trace: bytes) -> None:
    assert _tampered(_check(b"\xef\xbb\xbf" + trace)).seq == 0
    assert _tampered(_check(trace.replace(b"\n", b"\r\n"))).seq == 0
    assert _tampered(_check(trace.replace(b"\n", b"\n\n"))).seq == 1


def test_a_file_that_cannot_be_read_is_unverifiable(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", Path("a\0b")):
        report = check_chain(path, run_id=RUN_ID)
        assert _unverifiable(report).reason == "unreadable"
        assert (report.count, report.head) == (0, None)


def test_an_endless_line_is_tampering(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with path.open("wb") as stream:
        stream.truncate(1024**3)
    assert _tampered(check_chain(path, run_id=RUN_ID)).reason == "line-too-long"
