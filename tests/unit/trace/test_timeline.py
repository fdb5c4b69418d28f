from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.display import neutralize
from repotrial._core.errors import EvidenceError
from repotrial.trace import (
    BySetup,
    CheckOutcome,
    Errored,
    ExitUnknown,
    Marker,
    ModeChanged,
    MonitorAlert,
    NotStarted,
    PatchApplication,
    ProgramEnd,
    ProgramsFolded,
    Refused,
    Requested,
    Response,
    RunPaths,
    Segment,
    Signaled,
    StageTransition,
    TimedOut,
    TimelineRow,
    ToolInvocation,
    TraceTruncated,
    WitnessReport,
    WorkspaceMutation,
    iter_timeline,
)
from support.run_directories import RunBuilder, append_unknown_event, build_run
from support.score_runs import FAILED, PASSED, UNIT, ScoreRun
from support.traces import build_start

UNIT_AGAIN = msgspec.structs.replace(UNIT, id="unit-again")


def rows(paths: RunPaths) -> list[TimelineRow]:
    return list(iter_timeline(paths))


def test_every_event_has_a_row_with_its_summary(tmp_path: Path) -> None:
    found = rows(build_run(tmp_path / "run"))
    assert [row.seq for row in found] == list(range(21))
    assert found[0].elapsed_us == 0
    assert all(earlier.elapsed_us < later.elapsed_us for earlier, later in pairwise(found))
    assert [(row.actor, row.type, row.summary) for row in found] == [
        ("harness", "run-opened", "run run-1, harness 0.1.0"),
        ("harness", "phase-changed", "brief"),
        ("harness", "briefing", "1 obligation(s): fix it"),
        ("harness", "phase-changed", "brief → act"),
        ("agent", "prompt", "#0 to m-1, 1 message(s): hello"),
        ("agent", "response", "#0 from m-1, 3 output tokens: I run ls"),
        (
            "harness",
            "agent-configuration",
            "main: m-1 → m-1, temperature 0.7, output tokens 512, 1 tool(s), 1 system prompt(s)",
        ),
        ("agent", "tool-invocation", 'bash → exit 0: {"command": "ls"}'),
        ("harness", "workspace-mutation", "1 path(s): modified x"),
        ("harness", "stage-transition", "read → write: enforced by mount-flip"),
        ("monitor", "monitor-alert", "critical policy/system-paths wall_us=7/1.5: rm -rf /"),
        ("harness", "intervention", "throttle because of alert 10"),
        ("operator", "operator-decision", "resume by duty (harmless)"),
        ("harness", "intervention", "resume because of decision 12"),
        ("harness", "termination", "completed (agent-done): the agent said so"),
        ("harness", "phase-changed", "act → accept"),
        ("harness", "patch-application", "pass (exit 0)"),
        ("harness", "build-check", "make #1 pass (exit 0)"),
        ("harness", "static-check", "types #1 fail: two findings (exit 0); 2 finding(s)"),
        ("harness", "acceptance-execution", "unit #1 pass (exit 0); 3 passed, 0 failed, 0 missing"),
        ("harness", "phase-changed", "accept → seal"),
    ]


def test_alerts_outcomes_and_the_end_stand_out(tmp_path: Path) -> None:
    markers = {
        row.seq: row.marker for row in rows(build_run(tmp_path / "run")) if row.marker is not Marker.PLAIN
    }
    assert markers == {
        10: Marker.ALERT,
        11: Marker.INTERVENTION,
        12: Marker.INTERVENTION,
        13: Marker.INTERVENTION,
        14: Marker.END,
        16: Marker.PASSED,
        17: Marker.PASSED,
        18: Marker.FAILED,
        19: Marker.PASSED,
    }


def test_what_did_not_work_is_said(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    outcome = Errored(reason="timeout", detail="slow")
    for status in (
        Signaled(signal=9),
        TimedOut(ceiling_us=1),
        NotStarted(reason="no git"),
        ExitUnknown(reason="x"),
    ):
        execution = {**builder.execution(), "exit": status}
        builder.add(
            PatchApplication(
                **execution, outcome=outcome, patch_digest="sha256:" + "0" * 64, rejected_paths=("a",)
            )
        )
    builder.add(StageTransition(before="read", after="test", status=Refused(reason="not yet")))
    builder.add(StageTransition(before="read", after="write", status=Requested()))
    changes = tuple(ModeChanged(path=f"f{number}", before_mode=0, after_mode=1) for number in range(7))
    builder.add(WorkspaceMutation(cause=BySetup(step=0), changes=changes))
    dropped = {"type": "prompt", "bodies": 2, "body_bytes": 9, "events": 3, "event_bytes": 9}
    truncated = {"reason": "run-budget", "limit_bytes": 1, "dropped": [dropped], "final": False}
    builder.add(msgspec.convert(truncated, TraceTruncated))
    found = rows(builder.finish())[1:]
    assert [row.summary for row in found] == [
        "error: timeout (signal 9); 1 path(s) refused",
        "error: timeout (timed out); 1 path(s) refused",
        "error: timeout (not started: no git); 1 path(s) refused",
        "error: timeout (exit unknown); 1 path(s) refused",
        "read → test: refused: not yet",
        "read → write: requested",
        "7 path(s): " + ", ".join(f"mode-changed f{number}" for number in range(5)) + " and 2 more",
        "byte budget reached (run-budget): 3 event(s) and 2 body(ies) not kept",
    ]
    assert found[0].marker is Marker.ERRORED
    assert found[-1].marker is Marker.GAP


def test_programs_and_their_witness_have_rows(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    sees = [{"subject": "starts", "means": "seccomp-notify"}, {"subject": "ends", "means": "pidfd-info"}]
    opening = {"moment": "start", "phase": "act", "sees": sees, "blind": []}
    report = msgspec.convert(opening, WitnessReport)
    closing = {**opening, "moment": "end", "witness": 1, "sees": [], "counts": {"started": 11}}
    replaced = {"kind": "replaced", "by": 2}
    fields = {"witness": 1, "number": 1, "exit": replaced, "ended_at_us": 5, "wall_us": 1}
    end = msgspec.convert(fields, ProgramEnd)
    counted = dict.fromkeys(("command", "ended", "failed", "wall_us", "cpu_us", "from_us", "to_us"), 1)
    folded = {"witness": 1, "groups": [{"exe": "/bin/cc", "started": 9, **counted}]}
    builder.add(report)
    start = msgspec.structs.replace(build_start("cc", "-c"), number=2, parent=1)
    builder.writer.append(build_start("make"), actor="agent")
    builder.writer.append(msgspec.structs.replace(start, confirmed=False), actor="agent")
    builder.writer.append(end, actor="agent")
    builder.writer.append(
        msgspec.structs.replace(end, number=2, exit=TimedOut(ceiling_us=3_000_000)), actor="agent"
    )
    builder.writer.append(msgspec.convert(folded, ProgramsFolded), actor="agent")
    builder.add(msgspec.convert(closing, WitnessReport))
    assert [row.summary for row in rows(builder.finish())[1:]] == [
        "start of act: sees starts, ends",
        "program 1 of the harness: make",
        "program 2 of program 1 (perhaps): cc -c",
        "program 1 became program 2",
        "program 2 → timed out",
        "9 more program(s), counted by file",
        "end of act: sees nothing; 11 program(s) started",
    ]


def test_a_call_of_which_only_words_were_seen_makes_no_fuss_about_its_end(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    body = builder.writer.body
    builder.writer.append(
        ToolInvocation(
            source="gateway",
            tool="read",
            arguments=body(b"a.py"),
            exit=ExitUnknown(reason="not seen"),
            started_at_us=1_000,
            wall_us=1,
        ),
        actor="agent",
    )
    assert rows(builder.finish())[-1].summary == "read: a.py"


def test_an_answer_that_is_an_error_says_so(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    body = builder.writer.body(b"", of=Response)
    builder.writer.append(
        Response(
            prompt=None, model="m-1", role="assistant", conversation="main", index=0, body=body, status=502
        ),
        actor="agent",
    )
    builder.writer.flush()
    assert rows(builder.paths)[-1].summary.startswith("#0 from m-1, HTTP 502:")


@pytest.mark.parametrize("padding", [0, 20_000], ids=["in-the-trace", "in-a-blob"])
def test_an_answer_is_told_by_what_it_says_wherever_it_is_kept(tmp_path: Path, padding: int) -> None:
    builder = RunBuilder(tmp_path / "run")
    said = json.dumps({"content": [{"type": "text", "text": "I looked \x1b[2J at it."}], "id": "i" * padding})
    builder.writer.append(
        Response(
            prompt=None,
            model="m-1",
            role="assistant",
            conversation="main",
            index=0,
            body=builder.writer.body(said.encode(), of=Response),
        ),
        actor="agent",
    )
    builder.writer.flush()
    assert rows(builder.paths)[-1].summary == "#0 from m-1: I looked \\x1b[2J at it."


def test_an_answer_whose_blob_is_gone_is_described(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    body = builder.writer.body(json.dumps({"content": "x" * 20_000}).encode(), of=Response)
    builder.writer.append(
        Response(prompt=None, model="m-1", role="assistant", conversation="main", index=0, body=body),
        actor="agent",
    )
    builder.writer.flush()
    shutil.rmtree(builder.paths.blobs)
    assert rows(builder.paths)[-1].summary == "#0 from m-1: (20015 bytes in a blob)"


def test_long_and_binary_bodies_are_described(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run")
    builder.alert(text="x" * 10_000)
    segment = Segment(format="code", body=builder.writer.body(b"\xff\xfe"), event=0)
    builder.add(MonitorAlert(monitor="m", rule="r", severity="info", phase="act", segment=segment))
    found = rows(builder.finish())
    assert found[1].summary.endswith(": (10000 bytes in a blob)")
    assert found[2].summary.endswith(": (2 bytes, not text)")


def test_an_event_of_an_unknown_type_is_a_gap(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    append_unknown_event(paths)
    last = rows(paths)[-1]
    assert (last.type, last.marker) == ("from-the-future", Marker.GAP)
    assert last.summary == "an event type that this release does not know (2 bytes)"


def test_a_torn_tail_ends_the_timeline_quietly(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    paths.trace.write_bytes(paths.trace.read_bytes()[:-10])
    assert len(rows(paths)) == 20


def test_a_broken_trace_ends_in_a_named_error(tmp_path: Path) -> None:
    paths = build_run(tmp_path / "run")
    paths.trace.write_bytes(b"{}\n")
    with pytest.raises(EvidenceError):
        rows(paths)
    with pytest.raises(EvidenceError):
        rows(RunPaths(tmp_path / "absent"))


@given(st.text(max_size=300))
def test_neutralized_text_is_one_printable_line_of_bounded_length(text: str) -> None:
    shown = neutralize(text, max_characters=200)
    assert shown.isprintable()
    assert len(shown) <= 200
    if text.isprintable() and len(text) <= 200:
        assert shown == text


@pytest.mark.parametrize(
    ("doubt", "plain", "said", "marker"),
    [
        (PASSED, PASSED, "held, exactly they failed (exit 0)", Marker.PASSED),
        (FAILED, PASSED, "not held: two tests fail (exit 1)", Marker.FAILED),
        (FAILED, FAILED, "moot, since the plain run does not pass (exit 1)", Marker.PLAIN),
        (PASSED, FAILED, "moot, since the plain run does not pass (exit 0)", Marker.PLAIN),
        (FAILED, None, "not held: two tests fail (exit 1)", Marker.FAILED),
    ],
)
def test_a_twin_run_is_not_taken_for_the_verdict(
    tmp_path: Path, doubt: CheckOutcome, plain: CheckOutcome | None, said: str, marker: Marker
) -> None:
    run = ScoreRun(tmp_path / "run")
    run.end_acting()
    run.apply()
    run.twins(UNIT, doubt)
    run.twins(UNIT_AGAIN, PASSED)
    if plain is not None:
        run.check(UNIT, plain)
    run.check(UNIT_AGAIN)
    found = rows(RunPaths(run.finish()))
    assert [row.seq for row in found] == list(range(len(found)))
    row = next(row for row in found if "twin run" in row.summary)
    assert row.summary == f"unit #1, twin run with 4 wrong expectations mixed in: {said}"
    assert row.marker is marker


def test_rows_that_wait_for_a_plain_run_come_before_the_complaint(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run")
    run.end_acting()
    run.apply()
    run.twins(UNIT, FAILED)
    paths = RunPaths(run.finish())
    paths.trace.write_bytes(paths.trace.read_bytes() + b"no event\n")
    seen: list[str] = []
    with pytest.raises(EvidenceError):
        seen.extend(row.type for row in iter_timeline(paths))
    assert seen[-2:] == ["acceptance-execution", "phase-changed"]
