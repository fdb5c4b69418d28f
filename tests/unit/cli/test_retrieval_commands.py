"""`repotrial retrieval`: from a run directory to figures, and what is said when that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import call

_ENTRY = {
    "type": "assistant",
    "message": {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/workspace/src/a.py"}}
        ],
    },
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of another harness: two configurations, one task."""
    task = tmp_path / "benchmarks" / "csb_sdlc_fix" / "fix-1"
    (task / "tests").mkdir(parents=True)
    (task / "tests" / "ground_truth.json").write_text('{"files": ["src/a.py", "src/b.py"]}')
    for config in ("baseline", "mcp"):
        trial = tmp_path / "runs" / "fix_1" / config / "2026-03-01__12-00-00" / "fix-1__abc"
        (trial / "agent").mkdir(parents=True)
        (trial / "agent" / "claude-code.txt").write_text(json.dumps(_ENTRY) + "\n")
        (trial / "result.json").write_text('{"task_name": "fix-1"}')
    return tmp_path / "runs" / "fix_1"


def test_from_a_run_to_its_figures_in_three_commands(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "retrieval", "normalize", run)
    assert done.status == 0
    assert "2 documents written" in done.out
    done = call(capsys, "retrieval", "evaluate", run)
    assert done.status == 0
    assert "file_recall: mean 0.5000" in done.out
    files = sorted((run / "retrieval_events").glob("*/*.json"))
    assert len(files) == 4
    assert call(capsys, "retrieval", "validate", *files).status == 0


def test_json_says_the_same(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = json.loads(call(capsys, "retrieval", "normalize", run, "--json").out)
    assert [task["config_name"] for task in done["tasks"]] == ["baseline", "mcp"]
    assert done["tasks"][0]["summary"]["ground_truth_files_hit"] == 1
    summary = json.loads(call(capsys, "retrieval", "evaluate", run, "--json").out)
    assert summary["computable_tasks"] == 2
    files = sorted((run / "retrieval_events").glob("*/*.json"))
    checks = json.loads(call(capsys, "retrieval", "validate", *files, "--json").out)
    assert [check["problems"] for check in checks] == [[]] * 4


def test_all_runs_and_other_places(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert call(capsys, "retrieval", "normalize", run.parent, "--all", "--out", out).status == 0
    assert (out / "fix_1" / "mcp" / "fix-1.retrieval_events.json").is_file()
    assert not (run / "retrieval_events").exists()
    metrics = tmp_path / "metrics"
    done = call(capsys, "retrieval", "evaluate", "--events-dir", out / "fix_1", "--out", metrics)
    assert done.status == 0
    assert (metrics / "mcp" / "fix-1.retrieval_metrics.json").is_file()
    assert (metrics / "run_retrieval_summary.json").is_file()
    call(capsys, "retrieval", "normalize", run.parent, "--all")
    assert call(capsys, "retrieval", "evaluate", run.parent, "--all").status == 0
    assert (run.parent / "retrieval_events_aggregate" / "run_retrieval_summary.json").is_file()


def test_a_rehearsal_and_one_task(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "retrieval", "normalize", run, "--dry-run", "--task", "fix-1")
    assert (done.status, "would be written" in done.out) == (0, True)
    assert not (run / "retrieval_events").exists()
    assert call(capsys, "retrieval", "normalize", run, "--task", "other").status == 2


def test_explain_says_which_file_won(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "retrieval", "normalize", run, "--explain", "fix-1")
    assert done.status == 0
    assert "tests/ground_truth.json: taken" in done.out
    found = json.loads(
        call(capsys, "retrieval", "normalize", run, "--explain", "mcp_fix-1_abcdef", "--json").out
    )
    assert found["files"] == ["src/a.py", "src/b.py"]
    assert "no such task" in call(capsys, "retrieval", "normalize", run, "--explain", "nope").out


def test_older_documents_can_be_written(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "retrieval", "normalize", run, "--schema", "1.0")
    call(capsys, "retrieval", "evaluate", run, "--schema", "1.0", "--ranking", "reference")
    for file in (run / "retrieval_events").rglob("*.json"):
        assert json.loads(file.read_text())["schema_version"] == "1.0"
    files = sorted((run / "retrieval_events").glob("*/*.json"))
    assert call(capsys, "retrieval", "validate", *files).status == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["normalize", "nowhere"], "retrieval-directory-missing"),
        (["normalize", "."], "retrieval-nothing-found"),
        (["evaluate"], "retrieval-directory-missing"),
        (["evaluate", "."], "retrieval-nothing-found"),
        (["evaluate", ".", "--ranking", "best"], "retrieval-unknown-word"),
        (["normalize", ".", "--schema", "2.0"], "retrieval-unknown-word"),
        (["normalize", ".", "--tools", "none.toml"], "retrieval-tools-invalid"),
        (["normalize", ".", "--tasks", "nowhere"], "retrieval-directory-missing"),
    ],
)
def test_what_cannot_be_is_said(
    words: list[str],
    code: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call(capsys, "retrieval", *words)
    assert done.status == 2
    assert code in done.err


def test_a_document_that_exists_is_not_replaced(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "retrieval", "normalize", run)
    file = run / "retrieval_events" / "mcp" / "fix-1.retrieval_events.json"
    file.write_text("{}")
    done = call(capsys, "retrieval", "normalize", run)
    assert done.status == 1
    assert file.read_text() == "{}"
    assert call(capsys, "retrieval", "normalize", run, "--out", run / "again").status == 0


def test_unknown_major_versions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c" / "t.retrieval_events.json"
    file.parent.mkdir()
    file.write_text('{"schema_version": "2.0", "events": []}')
    done = call(capsys, "retrieval", "validate", file)
    assert done.status == 1
    assert "expected 1.x, found '2.0'" in done.out
    assert call(capsys, "retrieval", "evaluate", "--events-dir", tmp_path).status == 1


def test_evaluating_again_refreshes_what_was_written_before(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "retrieval", "normalize", run.parent, "--all")
    assert call(capsys, "retrieval", "evaluate", run.parent, "--all").status == 0
    later = run / "mcp" / "2026-03-02__12-00-00" / "fix-2__abc"
    (later / "agent").mkdir(parents=True)
    (later / "agent" / "claude-code.txt").write_text(json.dumps(_ENTRY) + "\n")
    (later / "result.json").write_text('{"task_name": "fix-1"}')
    assert call(capsys, "retrieval", "normalize", run.parent, "--all").status == 0
    done = call(capsys, "retrieval", "evaluate", run.parent, "--all", "--json")
    assert done.status == 0
    assert json.loads(done.out)["total_event_files"] == 3
    summary = run.parent / "retrieval_events_aggregate" / "run_retrieval_summary.json"
    assert json.loads(summary.read_text())["total_event_files"] == 3


def test_a_result_that_was_edited_by_hand_is_not_replaced(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "retrieval", "normalize", run)
    assert call(capsys, "retrieval", "evaluate", run).status == 0
    summary = run / "retrieval_events" / "run_retrieval_summary.json"
    edited = summary.read_text().replace('"computable_tasks": 2', '"computable_tasks": 9')
    summary.write_text(edited)
    done = call(capsys, "retrieval", "evaluate", run)
    assert done.status == 2
    assert "run_retrieval_summary.json" in done.err
    assert summary.read_text() == edited
