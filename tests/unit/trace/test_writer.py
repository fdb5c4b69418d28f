"""The writer: what it records, when it is on disk, and what it refuses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from repotrial._core.errors import MachineError
from repotrial.redaction import SecretRedactor
from repotrial.trace import (
    AcceptanceExecution,
    BlobStore,
    Event,
    EventRef,
    MonitorAlert,
    PhaseChanged,
    RunPaths,
    TextBody,
    ToolInvocation,
    TraceHead,
    TraceTruncated,
    TraceWriter,
    WriterOptions,
    check_run,
    iter_events,
)
from repotrial.trace._body import BlobBody, OmittedBody
from support.errors import raises_code
from support.traces import (
    SteppingClock,
    build_invocation,
    build_opened,
    build_text,
    full_disk,
    open_writer,
    ref_of,
)

_ACT = PhaseChanged(phase="act", previous="brief")


def _truncations(root: Path) -> list[TraceTruncated]:
    payloads = [event.payload for event in iter_events(RunPaths(root).trace)]
    return [payload for payload in payloads if isinstance(payload, TraceTruncated)]


def _find_intact_end(root: Path) -> TraceHead | None:
    """Where the chain on the disk ends; None if it does not hold."""
    report = check_run(RunPaths(root), trusted_keys=None).chain_report
    return report.head if report.is_intact else None


def test_the_opening_event_is_on_disk_at_once(tmp_path: Path) -> None:
    with open_writer(tmp_path / "new" / "run") as writer:
        end = _find_intact_end(tmp_path / "new" / "run")
        assert end == writer.head
        assert end.count == 1


def test_references_point_at_the_events(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        refs = [writer.append(_ACT, actor="harness") for _ in range(3)]
        head = writer.head
    events = list(iter_events(RunPaths(tmp_path).trace))[1:]
    assert [(ref.seq, ref.t, ref.hash) for ref in refs] == [
        (event.seq, event.t, event.hash) for event in events
    ]
    assert (head.count, head.hash) == (4, refs[-1].hash)


def test_an_alert_stands_in_the_trace_with_the_text_that_triggered_it(tmp_path: Path) -> None:
    alert = MonitorAlert(monitor="policy", rule="secret", severity="warning", phase="act")
    with open_writer(tmp_path) as writer:
        place = writer.append(_ACT, actor="harness").seq
        assert writer.last_seq == place
        refs = [
            writer.alert(alert, "said \ud800"),
            writer.alert(alert, b"done", form="code", event=0),
            writer.alert(alert),
        ]
    events = list(iter_events(RunPaths(tmp_path).trace))[2:]
    assert [(event.seq, event.actor) for event in events] == [(ref.seq, "monitor") for ref in refs]
    payloads = [event.payload for event in events if isinstance(event.payload, MonitorAlert)]
    segments = [payload.segment for payload in payloads]
    blobs = BlobStore(RunPaths(tmp_path).blobs)
    assert [
        None if found is None else (found.format, found.body.load(blobs), found.event) for found in segments
    ] == [("natural-language", b"said \\ud800", place), ("code", b"done", 0), None]


def test_an_alert_carries_the_stage_in_force_and_none_where_no_agent_acts(tmp_path: Path) -> None:
    alert = MonitorAlert(monitor="policy", rule="secret", severity="warning", phase="act")
    with open_writer(tmp_path) as writer:
        writer.alert(alert)
        writer.stage = "read"
        writer.alert(alert)
        writer.append(msgspec.structs.replace(alert, stage="write"), actor="monitor")
    alerts = [each.payload for each in iter_events(RunPaths(tmp_path).trace)]
    stages = [each.stage for each in alerts if isinstance(each, MonitorAlert)]
    assert stages == [None, "read", "write"]


def test_time_increases_whatever_the_clock_does(tmp_path: Path) -> None:
    with open_writer(tmp_path, clock=SteppingClock(100, 90, 90, 500, 10)) as writer:
        times = [writer.append(_ACT, actor="harness").t for _ in range(4)]
    assert times == [101, 102, 500, 501]


def test_events_wait_for_a_batch_and_a_flush_brings_them_out(tmp_path: Path) -> None:
    with open_writer(tmp_path, options=WriterOptions(batch_bytes=10_000)) as writer:
        before = writer.paths.trace.stat().st_size
        writer.append(_ACT, actor="harness")
        assert writer.paths.trace.stat().st_size == before
        writer.flush()
        assert _find_intact_end(tmp_path) == writer.head
        for _ in range(100):
            writer.append(_ACT, actor="harness")
        assert writer.paths.trace.stat().st_size > before + 10_000


def test_a_batch_smaller_than_an_event_works(tmp_path: Path) -> None:
    with open_writer(tmp_path, options=WriterOptions(batch_bytes=1)) as writer:
        for _ in range(5):
            writer.append(_ACT, actor="harness")
        head = writer.head
    assert _find_intact_end(tmp_path) == head


def test_a_refused_payload_leaves_the_trace_usable(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        head = writer.head
        with raises_code("payload-refused", match=r"\$\.wall_us"):
            writer.append(msgspec.structs.replace(build_invocation(), wall_us=-1), actor="agent")
        with raises_code("payload-refused", match=r"\$\.tool: expected text that UTF-8 can hold"):
            writer.append(msgspec.structs.replace(build_invocation(), tool="\ud800"), actor="agent")
        with raises_code("payload-refused", match="actor"):
            writer.append(_ACT, actor="nobody")  # type: ignore[call-overload]
        assert writer.head == head
        writer.append(_ACT, actor="harness")
        head = writer.head
    assert _find_intact_end(tmp_path) == head


def test_an_event_too_large_for_any_reader_is_refused(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        head = writer.head
        huge = msgspec.structs.replace(build_invocation(), tool="x" * (16 * 1024 * 1024))
        with raises_code("event-too-large", match="tool-invocation"):
            writer.append(huge, actor="agent")
        assert writer.head == head


def test_a_second_writer_is_refused_while_the_first_writes(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        with raises_code("trace-locked"):
            open_writer(tmp_path)
        writer.append(_ACT, actor="harness")
        head = writer.head
    assert _find_intact_end(tmp_path) == head


def test_a_finished_trace_is_never_continued(tmp_path: Path) -> None:
    open_writer(tmp_path).close()
    before = RunPaths(tmp_path).trace.read_bytes()
    with raises_code("trace-exists"):
        open_writer(tmp_path)
    assert RunPaths(tmp_path).trace.read_bytes() == before


def test_a_closed_trace_takes_nothing_more(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    writer.close()
    writer.close()
    with raises_code("trace-closed"):
        writer.append(_ACT, actor="harness")
    with raises_code("trace-closed"):
        writer.flush()


def test_leaving_by_an_exception_keeps_the_events(tmp_path: Path) -> None:
    def crash() -> None:
        with open_writer(tmp_path) as writer:
            writer.append(_ACT, actor="harness")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        crash()
    end = _find_intact_end(tmp_path)
    assert end is not None
    assert end.count == 2


def test_a_run_that_cannot_be_opened_leaves_nothing(tmp_path: Path) -> None:
    bad = msgspec.structs.replace(build_opened(), run_id="../up")
    other = msgspec.structs.replace(build_opened(), schema="repotrial/trace@1")
    for opened in (bad, other):
        with raises_code("payload-refused"):
            TraceWriter.create(RunPaths(tmp_path / "run"), opened)
    assert not (tmp_path / "run").exists()


def test_a_place_that_is_no_directory_is_a_named_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with raises_code("trace-write"):
        open_writer(tmp_path / "file")


def _fill(writer: TraceWriter) -> int:
    """Append until the machine refuses; how many were accepted."""
    for accepted in range(1000):
        try:
            writer.append(_ACT, actor="harness")
        except MachineError as error:
            if error.code != "trace-write":
                raise
            return accepted
    raise AssertionError("the disk is not full")


def test_a_full_disk_loses_nothing_that_was_accepted(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, options=WriterOptions(batch_bytes=1000))
    with full_disk(5000):
        accepted = _fill(writer)
        with raises_code("trace-write"):
            writer.flush(durable=True)
        assert writer.paths.trace.stat().st_size == 5000  # a torn line, for now
        with raises_code("trace-write"):
            writer.body(b"x" * 9000)
    writer.append(_ACT, actor="harness")
    head = writer.head
    writer.close()
    assert head.count == accepted + 2
    assert _find_intact_end(tmp_path) == head


def test_a_disk_that_stays_full_is_an_error_at_the_end(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, options=WriterOptions(batch_bytes=1000))
    with full_disk(5000):
        _fill(writer)
        with raises_code("trace-write"):
            writer.close()
    assert _find_intact_end(tmp_path) != writer.head


def test_a_file_that_another_program_changes_is_noticed(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    with writer.paths.trace.open("ab") as stream:
        stream.write(b"{}\n")
    writer.append(_ACT, actor="harness")
    with raises_code("trace-write", match=r"expected the \d+ bytes that were written"):
        writer.flush()
    with raises_code("trace-write"):
        writer.close()


def test_threads_share_a_writer(tmp_path: Path) -> None:
    with open_writer(tmp_path, options=WriterOptions(batch_bytes=2000)) as writer:

        def work(number: int) -> list[int]:
            refs = []
            for index in range(200):
                body = writer.body(b"%d-%d " % (number, index) * (2000 if index % 50 == 0 else 1))
                refs.append(ref_of(writer.append(build_invocation(body), actor="agent")).seq)
            return refs

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(work, range(4)))
    assert all(refs == sorted(refs) for refs in results)
    assert sorted(seq for refs in results for seq in refs) == list(range(1, 801))
    assert _find_intact_end(tmp_path) == writer.head


def test_the_opening_event_names_the_rules_in_force(tmp_path: Path) -> None:
    with raises_code("payload-refused", match=r"\$\.redaction_rules_id"):
        TraceWriter.create(RunPaths(tmp_path / "run"), build_opened(), redactor=SecretRedactor({}))
    assert not (tmp_path / "run").exists()


def test_a_long_body_becomes_a_blob_and_returns(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        body = writer.body(b"x" * 5000)
        assert isinstance(body, BlobBody)
        assert isinstance(writer.body(b"x" * 4096), TextBody)
        writer.append(build_invocation(body), actor="agent")
    assert body.load(BlobStore(RunPaths(tmp_path).blobs)) == b"x" * 5000


def test_over_the_run_budget_bodies_go_first_and_outcomes_stay(tmp_path: Path) -> None:
    with open_writer(tmp_path, options=WriterOptions(run_budget_bytes=3400)) as writer:
        results = [writer.append(build_invocation(build_text("y" * 500)), actor="agent") for _ in range(10)]
        for _ in range(10):
            writer.append(_ACT, actor="harness")
    assert _find_intact_end(tmp_path) == writer.head
    assert not all(isinstance(result, EventRef) for result in results)
    events = list(iter_events(RunPaths(tmp_path).trace))
    bodies = [event.payload.arguments for event in events if isinstance(event.payload, ToolInvocation)]
    assert isinstance(bodies[0], TextBody)
    assert isinstance(bodies[-1], OmittedBody)
    assert sum(event.type == "phase-changed" for event in events) == 10


def test_the_trace_says_when_dropping_begins_and_how_much_was_dropped(tmp_path: Path) -> None:
    with open_writer(tmp_path, options=WriterOptions(run_budget_bytes=3000)) as writer:
        results = [writer.append(build_invocation(build_text("y" * 500)), actor="agent") for _ in range(20)]
    begin, end = _truncations(tmp_path)
    assert (begin.reason, begin.limit_bytes, begin.final, end.final) == ("run-budget", 3000, False, True)
    (row,) = end.dropped
    dropped = sum(not isinstance(result, EventRef) for result in results)
    assert (row.type, row.events) == ("tool-invocation", dropped)
    omitted = [
        event.payload.arguments
        for event in iter_events(RunPaths(tmp_path).trace)
        if isinstance(event.payload, ToolInvocation) and isinstance(event.payload.arguments, OmittedBody)
    ]
    assert (row.bodies, row.body_bytes) == (len(omitted), 500 * len(omitted))


def test_a_part_of_the_budget_is_kept_for_what_a_verdict_rests_on(tmp_path: Path) -> None:
    with open_writer(tmp_path, options=WriterOptions(run_budget_bytes=80_000)) as writer:
        for number in range(20):
            writer.body(b"%d" % number * 9000, of=ToolInvocation)
        log = writer.body(b"l" * 9000, of=AcceptanceExecution)
        assert isinstance(writer.body(b"m" * 9000, of=ToolInvocation), OmittedBody)
    assert isinstance(log, BlobBody)


def test_a_type_budget_touches_only_its_type(tmp_path: Path) -> None:
    options = WriterOptions(type_budget_bytes={"tool-invocation": 1500})
    with open_writer(tmp_path, options=options) as writer:
        results = [writer.append(build_invocation(), actor="agent") for _ in range(10)]
        for _ in range(20):
            writer.append(_ACT, actor="harness")
    kept = [result for result in results if isinstance(result, EventRef)]
    assert 0 < len(kept) < 10
    assert _truncations(tmp_path)[0].reason == "type-budget"
    assert sum(event.type == "phase-changed" for event in iter_events(RunPaths(tmp_path).trace)) == 20


def test_blobs_count_against_the_budget_and_repeated_ones_do_not(tmp_path: Path) -> None:
    with open_writer(tmp_path, options=WriterOptions(run_budget_bytes=20_000)) as writer:
        first = writer.body(b"a" * 9000, of=ToolInvocation)
        again = writer.body(b"a" * 9000, of=ToolInvocation)
        second = writer.body(b"b" * 12_000, of=ToolInvocation)
        ref_of(writer.append(build_invocation(first, result=second), actor="agent"))
    assert isinstance(first, BlobBody)
    assert again == first
    assert isinstance(second, OmittedBody)
    (row,) = _truncations(tmp_path)[-1].dropped
    assert (row.type, row.bodies, row.body_bytes) == ("tool-invocation", 1, 12_000)


def test_a_trace_within_its_budget_says_nothing_of_it(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        writer.append(_ACT, actor="harness")
    assert _truncations(tmp_path) == []


@pytest.mark.parametrize(
    "options",
    [
        WriterOptions(batch_bytes=0),
        WriterOptions(inline_bytes=-1),
        WriterOptions(type_budget_bytes={"nothing": 1}),
    ],
)
def test_senseless_options_are_refused(tmp_path: Path, options: WriterOptions) -> None:
    with raises_code("writer-options"):
        open_writer(tmp_path, options=options)


@pytest.mark.parametrize("budget", [None, 6_000])
def test_an_observer_sees_what_a_reader_will_see(tmp_path: Path, budget: int | None) -> None:
    seen: list[Event] = []
    secret = "hunter2-hunter2"
    options = WriterOptions(run_budget_bytes=budget)
    with open_writer(tmp_path, redactor=SecretRedactor({"TOKEN": secret}), options=options) as writer:
        writer.observe(seen.append)
        for number in range(20):
            body = writer.body(f"{secret} {number} {'x' * 200}".encode(), of=ToolInvocation)
            writer.append(
                msgspec.structs.replace(build_invocation(), tool=f"{secret}-{number}", arguments=body),
                actor="agent",
            )
        writer.append(_ACT, actor="harness")
    read = [event for event in iter_events(RunPaths(tmp_path).trace) if event.seq > 0]
    assert seen == [event for event in read if not isinstance(event.payload, TraceTruncated)]
    assert (budget is None) == (len(seen) == 21)
