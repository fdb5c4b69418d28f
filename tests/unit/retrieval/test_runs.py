"""Run directories: layouts, names of tasks, suites, repeats, what is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from repotrial.retrieval import (
    EvaluationOptions,
    NormalizationOptions,
    NormalizedTask,
    build_task_index,
    evaluate,
    find_runs,
    load_retrieval_tools,
    normalize_run,
)

READ = {
    "type": "assistant",
    "message": {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/workspace/src/a.py"}}
        ],
    },
}


def _make_trial(directory: Path, result: Any = None, *, transcript: str = "agent/claude-code.txt") -> None:
    (directory / transcript).parent.mkdir(parents=True, exist_ok=True)
    (directory / transcript).write_text(json.dumps(READ) + "\n")
    if result is not None:
        (directory / "result.json").write_text(json.dumps(result))


def _make_task(root: Path, name: str, *, stated: str | None = None) -> None:
    (root / name / "tests").mkdir(parents=True)
    (root / name / "tests" / "ground_truth.json").write_text('{"files": ["src/a.py"]}')
    if stated is not None:
        (root / name / "task.toml").write_text(f'[task]\nid = "{stated}"\n')


def _normalize(run: Path, tasks: Path | None = None, **options: Any) -> list[NormalizedTask]:
    chosen = NormalizationOptions(
        tools=load_retrieval_tools(), tasks=build_task_index(tasks), generated_at="", **options
    )
    return list(normalize_run(run, None, chosen))


def test_both_layouts_and_any_configuration_are_walked(tmp_path: Path) -> None:
    run = tmp_path / "fix_1"
    for place in (
        "baseline/2026-03-01__12-00-00/one__a",
        "mcp/ccb_fix_two_mcp/two__b",
        "my-config/job/three__c",
        "plain/four__d",
    ):
        _make_trial(run / place, {"task_name": place.rpartition("/")[2].partition("__")[0]})
    (run / "mcp/ccb_fix_two_mcp/result.json").write_text("{}")  # of the job
    found = {(task.config_name, task.task_name) for task in _normalize(run)}
    assert found == {("baseline", "one"), ("mcp", "two"), ("my-config", "three"), ("plain", "four")}


def test_archives_and_results_are_left_out(tmp_path: Path) -> None:
    for name in (
        "good",
        "archive",
        "x__broken",
        "y__duplicate_1",
        "z__all_errored",
        "retrieval_events_aggregate",
    ):
        (tmp_path / name).mkdir()
    assert [path.name for path in find_runs(tmp_path)] == ["good"]
    run = tmp_path / "good"
    _make_trial(run / "archive/b/t__a", {})
    _make_trial(run / "retrieval_events/b/t__a", {})
    assert _normalize(run) == []


def test_a_trial_without_result_is_passed_over_and_said(tmp_path: Path) -> None:
    _make_trial(tmp_path / "run/baseline/b/t__a")
    (task,) = _normalize(tmp_path / "run")
    assert task.is_passed_over
    assert task.target is None


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("fix-001", "fix-001"),
        ("mcp_fix-001_AbC123", "fix-001"),
        ("sgonly_fix-001", "fix-001"),
        ("artifact_bl_fix-001", "fix-001"),
        ("delta_case", "delta_case"),
        ("mcp_delta_case", "delta_case"),
        ("mcp_unknown_AbC123", "mcp_unknown_AbC123"),
        ("unknown_case", "unknown_case"),
        ("FIX-001", "FIX-001"),
        ("ccb_fix-001", "ccb_fix-001"),
    ],
)
def test_names_lose_wrappers_only_where_a_task_remains(stated: str, expected: str, tmp_path: Path) -> None:
    tasks = tmp_path / "benchmarks" / "csb_sdlc_fix"
    _make_task(tasks, "fix-001")
    _make_task(tasks, "delta_case")
    _make_trial(tmp_path / "run/baseline/b/t__a", {"task_name": stated})
    (task,) = _normalize(tmp_path / "run", tasks)
    assert task.task_name == expected
    is_known = expected in {"fix-001", "delta_case", "FIX-001", "ccb_fix-001"}
    assert task.coverage is not None
    assert task.coverage.has_ground_truth is is_known


def test_a_cut_directory_name_finds_its_task(tmp_path: Path) -> None:
    name = "a-task-with-a-name-of-more-than-32-characters"
    _make_task(tmp_path / "benchmarks", name)
    _make_trial(tmp_path / f"run/baseline/b/{name[:32]}__abc", {"no": "name"})
    (task,) = _normalize(tmp_path / "run", tmp_path / "benchmarks")
    assert task.task_name == name


def test_repeats_are_numbered_by_time_also_when_one_is_asked_for(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for number, start in ((1, "2026-03-02"), (2, "2026-03-01"), (3, "2026-03-03")):
        _make_trial(run / f"baseline/job/t__{number}", {"task_name": "t", "started_at": start})
    done = _normalize(run, task="t")
    assert [(task.task_name, task.trial[-1]) for task in done] == [("t", "2"), ("t__r2", "1"), ("t__r3", "3")]
    assert sorted(path.name for path in (run / "retrieval_events/baseline").glob("t*")) == [
        "t.retrieval_events.json",
        "t__r2.retrieval_events.json",
        "t__r3.retrieval_events.json",
    ]


@pytest.mark.parametrize(
    "name", ["../../../evil", "/etc/evil", "..", ".hidden", "a/b", "x" * 300, "\x00", "é"]
)
def test_a_tasks_name_cannot_leave_the_directory(name: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    _make_trial(run / "baseline/job/t__1", {"task_name": name})
    (task,) = _normalize(run)
    assert task.problem is None
    assert task.target is not None
    assert Path(task.target).parent == run / "retrieval_events" / "baseline"
    assert Path(task.target).is_file()


def test_what_exists_is_never_overwritten(tmp_path: Path) -> None:
    run = tmp_path / "run"
    _make_trial(run / "baseline/job/t__1", {"task_name": "t"})
    target = run / "retrieval_events/baseline/t.retrieval_events.json"
    target.parent.mkdir(parents=True)
    target.write_text('{"somebody": "else"}')
    (task,) = _normalize(run)
    assert task.problem is not None
    assert target.read_text() == '{"somebody": "else"}'


def test_a_rehearsal_writes_nothing(tmp_path: Path) -> None:
    _make_trial(tmp_path / "run/baseline/job/t__1", {"task_name": "t"})
    (task,) = _normalize(tmp_path / "run", is_rehearsal=True)
    assert task.summary is not None
    assert not (tmp_path / "run/retrieval_events").exists()


def test_version_1_0_has_no_later_fields(tmp_path: Path) -> None:
    _make_trial(tmp_path / "run/baseline/job/t__1", {"task_name": "t"})
    (task,) = _normalize(tmp_path / "run", is_extended=False)
    assert task.target is not None
    document = json.loads(Path(task.target).read_text())
    assert document["schema_version"] == "1.0"
    assert not {"call_id", "line_ranges"} & set(document["events"][0])


@pytest.mark.parametrize(
    "place", ["agent/codex.txt", "transcript.jsonl", "agent_output/transcript.txt", "agent/agent_trace.jsonl"]
)
def test_transcripts_are_found_under_other_names(place: str, tmp_path: Path) -> None:
    _make_trial(tmp_path / "run/baseline/job/t__1", {"task_name": "t"}, transcript=place)
    (task,) = _normalize(tmp_path / "run")
    assert task.coverage is not None
    assert task.coverage.trace_source == "transcript"
    assert task.calls_seen == 1


def test_session_logs_bring_times(tmp_path: Path) -> None:
    trial = tmp_path / "run/baseline/job/t__1"
    _make_trial(trial, {"task_name": "t", "agent_execution": {"started_at": "2026-03-01T13:00:00"}})
    entry = {**READ, "uuid": "u", "parentUuid": None, "sessionId": "s", "timestamp": "2026-03-01T12:00:07Z"}
    _make_trial(trial, transcript="agent/sessions/projects/p/s.jsonl")
    (trial / "agent/sessions/projects/p/s.jsonl").write_text(json.dumps(entry) + "\n")
    (task,) = _normalize(tmp_path / "run")
    assert task.target is not None
    (event,) = json.loads(Path(task.target).read_text())["events"]
    assert event["elapsed_seconds"] == 7.0  # an hour is the zone, seven seconds are the time


@pytest.mark.parametrize(
    ("run", "suite", "expected"),
    [
        ("fix_haiku_1", None, "csb_sdlc_fix"),
        ("ccb_fix_haiku_1", None, "csb_sdlc_fix"),
        ("mcp_crossorg_1", None, "csb_org_crossorg"),
        ("whatever", None, "unknown"),
        ("fixed", None, "unknown"),
        ("whatever", "csb_sdlc_debug", "csb_sdlc_debug"),
        ("fix_1", "ccb_mcp_security", "csb_org_security"),
        ("fix_1", "ccb_pytorch", "ccb_pytorch"),
    ],
)
def test_suites_have_the_specifications_names(
    run: str, suite: str | None, expected: str, tmp_path: Path
) -> None:
    tasks = tmp_path / "benchmarks"
    if suite is not None:
        _make_task(tasks / suite, "t")
    _make_trial(tmp_path / run / "baseline/b/t__a", {"task_name": "t"})
    (task,) = _normalize(tmp_path / run, None if suite is None else tasks)
    assert task.target is not None
    assert json.loads(Path(task.target).read_bytes())["provenance"]["benchmark"] == expected


def test_a_shell_out_of_sight_is_degraded_and_not_a_zero(tmp_path: Path) -> None:
    _make_task(tmp_path / "benchmarks", "t")
    trial = tmp_path / "run/baseline/job/t__1"
    _make_trial(trial, {"task_name": "t"})
    call = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "look"}}
    entry = {"type": "assistant", "message": {"role": "assistant", "content": [call]}}
    (trial / "agent/claude-code.txt").write_text(json.dumps(entry) + "\n")
    (task,) = _normalize(tmp_path / "run", tmp_path / "benchmarks")
    assert task.coverage is not None
    assert task.coverage.degraded_reason is not None
    assert task.target is not None
    found = evaluate([(Path(task.target), tmp_path)], None, EvaluationOptions(generated_at="")).summary
    assert (found.computable_tasks, found.skipped_degraded) == (0, 1)
