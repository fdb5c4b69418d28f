"""Results of other harnesses, read as trials: nothing is made up, and nothing of it is witnessed."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from repotrial import api
from repotrial.interop import build_exports, is_foreign, read_results
from repotrial.score import iter_judged_runs
from repotrial.signing import SigningKey
from support.command_line import call
from support.errors import raises_code
from support.score_runs import CRASHED, FAILED, write_run


def _harbor(task: str, agent: str, **fields: Any) -> dict[str, Any]:
    """A `result.json` with the keys that Harbor writes."""
    return {
        "id": "1",
        "task_name": task,
        "trial_name": f"{task}__x",
        "trial_uri": "file:///x",
        "task_id": {"path": "x"},
        "source": None,
        "task_checksum": "x",
        "config": {},
        "agent_info": {"name": agent, "version": "1", "model_info": {"name": "m", "provider": "p"}},
        "agent_result": {"n_input_tokens": 5, "n_output_tokens": None, "cost_usd": 0.25},
        "verifier_result": {"rewards": {"reward": 1.0}},
        "exception_info": None,
        "agent_execution": {"started_at": "2026-08-01T10:00:00Z", "finished_at": "2026-08-01T10:01:30Z"},
        **fields,
    }


def _raised(name: str) -> dict[str, Any]:
    return {"verifier_result": None, "exception_info": {"exception_type": name, "exception_message": "x"}}


def _write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    trials = [
        _harbor("a", "x"),
        _harbor("a", "x", verifier_result={"rewards": {"reward": 1, "style": 0.5}}),
        _harbor("b", "x", verifier_result={"rewards": {"reward": 0.0}}, agent_result=None),
        _harbor("b", "y", **_raised("VerifierTimeoutError")),
        _harbor("c", "y", **_raised("EnvironmentStartTimeoutError"), agent_execution=None),
    ]
    for number, trial in enumerate(trials):
        _write(tmp_path / "job" / f"{number}" / "result.json", trial)
    _write(tmp_path / "job" / "config.json", {"job_name": "x"})
    return tmp_path / "job"


def test_trials_of_harbor_are_read_as_they_ended(job: Path) -> None:
    found = read_results(job)
    assert [(t.task, t.arm, t.repeat, t.outcome) for t in found.trials] == [
        ("a", "x/m", 0, "success"),
        ("a", "x/m", 1, "failure"),
        ("b", "x/m", 0, "failure"),
        ("b", "y/m", 0, "error"),
        ("c", "y/m", 0, "invalid"),
    ]
    assert [(t.cost_usd, t.wall_seconds) for t in found.trials] == [
        (0.25, 90.0),
        (0.25, 90.0),
        (None, 90.0),
        (0.25, 90.0),
        (0.25, None),
    ]


def test_the_analysis_says_whose_word_it_is_and_names_the_digest(job: Path) -> None:
    found = api.analyze_table(job)
    assert not found.is_witnessed
    assert found.label.startswith("not witnessed: ")
    assert "as a file of Harbor states them" in found.label
    assert {arm.name: (arm.successes, arm.failures, arm.errors, arm.invalid) for arm in found.arms} == {
        "x/m": (1, 2, 0, 0),
        "y/m": (0, 0, 1, 1),
    }
    before = found.artefacts[0].digest
    _write(job / "0" / "result.json", _harbor("a", "x", verifier_result={"rewards": {"reward": 0}}))
    assert api.analyze_table(job).artefacts[0].digest != before


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    key = SigningKey.load(tmp_path / "seal.pem")
    write_run(tmp_path / "runs" / "good", key=key)
    write_run(tmp_path / "runs" / "bad", {"unit": FAILED}, key=key)
    write_run(tmp_path / "runs" / "broken", {"unit": CRASHED}, key=key)
    return tmp_path / "runs"


def _export(form: Any, runs: Path, tmp_path: Path) -> Path:
    judged = [*iter_judged_runs(runs)]
    (made,) = build_exports(form, judged, key=SigningKey.load(tmp_path / "seal.pem"))
    path = tmp_path / made.name
    path.write_bytes(made.data)
    return path


def test_a_log_of_inspect_that_we_wrote_comes_back_trial_for_trial(runs: Path, tmp_path: Path) -> None:
    log = _export("inspect", runs, tmp_path)
    with zipfile.ZipFile(log) as archive:
        samples = [
            json.loads(archive.read(n)) for n in sorted(archive.namelist()) if n.startswith("samples/")
        ]
    found = read_results(log)
    assert sorted(trial.outcome for trial in found.trials) == ["failure", "failure", "success"]
    assert [trial.task for trial in found.trials] == [sample["id"] for sample in samples]
    assert [trial.wall_seconds for trial in found.trials] == [sample.get("total_time") for sample in samples]
    assert sorted(trial.repeat for trial in found.trials) == [0, 1, 2]


def test_a_log_of_inspect_in_json_is_judged_by_every_score(tmp_path: Path) -> None:
    samples = [
        {"id": 1, "epoch": 1, "scores": {"s": {"value": "C"}}, "model_usage": {"m": {"total_cost": 0.5}}},
        {"id": 1, "epoch": 2, "scores": {"s": {"value": "C"}, "t": {"value": 0.5}}},
        {"id": 2, "epoch": 1, "scores": {"s": {"value": {"one": 1, "two": True}}}, "total_time": 3.5},
        {"id": 3, "epoch": 1, "scores": {"s": {"value": "N"}}},
        {"id": 4, "epoch": 1, "scores": {"s": {"value": "C"}}, "error": {"message": "x"}},
        {"id": 5, "epoch": 1, "scores": None},
        {"id": 6, "epoch": 1, "scores": {"s": {"value": "C"}}, "invalidation": {"reason": "x"}},
    ]
    log = {"version": 2, "status": "success", "eval": {"model": "m", "task": "t"}, "samples": samples}
    found = read_results(_write(tmp_path / "log.json", log))
    assert [(t.task, t.repeat, t.outcome) for t in found.trials] == [
        ("1", 0, "success"),
        ("1", 1, "failure"),
        ("2", 0, "success"),
        ("3", 0, "failure"),
        ("4", 0, "invalid"),
        ("5", 0, "invalid"),
        ("6", 0, "invalid"),
    ]
    assert [(t.cost_usd, t.wall_seconds) for t in found.trials[:3]] == [
        (0.5, None),
        (None, None),
        (None, 3.5),
    ]


def test_a_log_with_members_that_this_python_cannot_unpack_names_the_way(tmp_path: Path) -> None:
    log = tmp_path / "log.eval"
    with zipfile.ZipFile(log, "w") as archive:
        archive.writestr("header.json", "{}")
    # 93 is zstd, in the local header and in the directory of the archive.
    data = bytearray(log.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        data[data.index(mark) + offset] = 93
    log.write_bytes(bytes(data))
    with raises_code("foreign-results", match="zstd") as caught:
        read_results(log)
    assert "inspect log convert" in caught.value.hint


def test_a_report_of_swebench_is_read_by_its_lists(tmp_path: Path) -> None:
    report = {
        "schema_version": 2,
        "submitted_ids": ["a", "b", "c", "d", "e", "f"],
        "completed_ids": ["a", "b"],
        "resolved_ids": ["a", "f"],
        "unresolved_ids": ["b"],
        "empty_patch_ids": ["c"],
        "error_ids": ["d", "f"],
        "infra_failure_ids": ["e"],
        "incomplete_ids": ["g"],
    }
    for run in ("first", "second"):
        _write(tmp_path / "reports" / f"model-1.5.{run}.json", report)
    found = read_results(tmp_path / "reports")
    first = [(trial.task, trial.outcome) for trial in found.trials if trial.repeat == 0]
    assert first == [
        ("a", "success"),
        ("b", "failure"),
        ("c", "failure"),
        ("d", "error"),
        ("e", "invalid"),
        ("f", "error"),
    ]
    assert {(trial.arm, trial.repeat) for trial in found.trials} == {("model-1.5", 0), ("model-1.5", 1)}


def test_reports_and_tables_of_other_harnesses_go_into_a_report(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    ended = call(capsys, "report", "build", job, "--out", out)
    assert ended.status == 0, ended.err
    assert "Not witnessed: outcomes, costs and times are as a file of Harbor" in out.read_text()
    shown = call(capsys, "pilot", "analyze", "--table", job)
    assert (shown.status, "x/m" in shown.out) == (0, True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"trial_name": "x", "task_name": "x", "agent_info": {}}',
        b'{"eval": {"model": "m"}, "samples": [7]}',
        b'{"resolved_ids": [7], "submitted_ids": []}',
        b'{"resolved_ids": [], "submitted_ids": []}',
    ],
)
@pytest.mark.parametrize("suffix", [".json", ".eval"])
def test_damaged_files_are_one_clear_line(tmp_path: Path, data: bytes, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(data)
    with raises_code("foreign-results", match=r"x\.(json|eval)"):
        read_results(path)


def test_directories_of_ours_are_nobody_elses_results(runs: Path, tmp_path: Path) -> None:
    assert not is_foreign(runs)
    (tmp_path / "empty").mkdir()
    assert not is_foreign(tmp_path / "empty")
    with raises_code("foreign-results"):
        read_results(tmp_path / "empty")
