"""From traces to a report, as a user would go; and what it leaves alone."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

from repotrial import api
from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.digest import digest_file
from repotrial.report import build_run_page
from repotrial.score import build_run_report, build_score_card, load_evidence
from support.command_line import call, surroundings
from support.errors import raises_code
from support.retrieval_cases import DIRECTORY, load_case, unpack_case
from support.retrieval_studies import TrialPlan, plan_example, write_runs
from support.run_directories import build_sealed_run
from support.score_runs import FAILED, PASSED, ScoreRun, write_run


def prepare(name: str, directory: Path) -> Path:
    """A packed case's run, normalized and evaluated by us."""
    case = load_case(DIRECTORY / f"{name}.json")
    run = unpack_case(case, directory) / str(case["run_dir"])
    api.normalize_retrieval(api.NormalizationRequest(directory=run))
    api.evaluate_retrieval(run)
    return run


def digest_tree(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): digest_file(path) for path in root.rglob("*") if path.is_file()}


def test_pairs_that_a_prefix_of_the_task_hid_are_joined(tmp_path: Path) -> None:
    found = api.compare_retrieval([prepare("56_impact_matched", tmp_path)])
    assert found.unjoined_trials == ()
    assert [item.with_reward for item in found.coverage] == [9, 8]
    pooled = found.associations[0].associations[0]
    assert (pooled.measure, pooled.outcome, pooled.n_trials, pooled.n_tasks) == (
        "file_recall",
        "reward",
        15,  # 8 of the baseline, and the 7 of the other side
        8,
    )
    (pair,) = found.matched
    assert (pair.baseline, pair.treatment, pair.n_tasks) == ("baseline-local-direct", "mcp-remote-direct", 8)
    assert not isinstance(pair.deltas, NotComputable)
    by_name = {delta.quantity: delta for delta in pair.deltas}
    reward = by_name["reward"].shift
    assert not isinstance(reward, NotComputable)
    # Rewards 0.9 0.6 0.3 0.7 0.4 0.8 0.5 0.9 less 0 to 0.7 in steps of 0.1.
    assert reward.mean.value == pytest.approx(0.2875)
    assert by_name["cost_usd"].n_tasks == 7, "one baseline does not state its cost"
    assert by_name["file_recall"].n_tasks == 7, "one task has no ground truth"
    assert pair.only_baseline == ("noreward-001", "onlybase-001")
    assert pair.unverified == ("harness: 8",)


def test_the_layout_with_job_directories_is_compared_too(tmp_path: Path) -> None:
    found = api.compare_retrieval([prepare("59_impact_job_layout", tmp_path)])
    (pair,) = found.matched
    assert (pair.baseline, pair.treatment, pair.n_tasks) == ("baseline", "mcp", 3)
    assert not isinstance(pair.deltas, NotComputable)
    assert found.associations[0].associations[0].association == NotComputable(
        "needs at least 5 tasks, found 3"
    )


def test_repeats_of_a_trial_are_kept_apart(tmp_path: Path) -> None:
    found = api.compare_retrieval([prepare("47_repeat_trials", tmp_path)])
    (coverage,) = found.coverage
    assert (coverage.n_trials, coverage.n_tasks, coverage.with_reward) == (3, 1, 3)


def test_three_commands_lead_from_traces_to_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = load_case(DIRECTORY / "56_impact_matched.json")
    run = unpack_case(case, tmp_path) / str(case["run_dir"])
    before = digest_tree(run)
    with surroundings(tmp_path):
        assert call(capsys, "retrieval", "normalize", run).status == 0
        assert call(capsys, "retrieval", "evaluate", run).status == 0
        assert call(capsys, "retrieval", "validate", *run.rglob("*.retrieval_*.json")).status == 0
        done = call(capsys, "retrieval", "report", run, "--out", "report")
    assert done.status == 0, done.err
    assert "18 trials, 16 with figures" in done.out
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert names == {f"retrieval_report.{word}" for word in ("md", "csv", "json", "html")}
    after = digest_tree(run)
    assert {name: digest for name, digest in after.items() if name in before} == before
    assert all(name.startswith("retrieval_events/") for name in after if name not in before)


def test_compare_prints_tables_and_writes_its_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_runs(tmp_path, plan_example(tasks=6))
    out = tmp_path / "comparison.json"
    done = call(capsys, "retrieval", "compare", run, "--out", out)
    assert done.status == 0, done.err
    assert "association only: all configurations pooled" in done.out
    assert "mcp-remote less baseline-local: 6 matched tasks" in done.out
    written = json.loads(out.read_text())
    shown = json.loads(call(capsys, "retrieval", "compare", run, "--json").out)
    assert written | {"generated_at": ""} == shown | {"generated_at": ""}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["compare", "{run}", "--baseline", "nobody"], "retrieval-configuration"),
        (["compare", "{empty}"], "retrieval-no-metrics"),
        (["compare", "{run}", "--out", "{run}/comparison.json"], "retrieval-report-inside-run"),
        (["report", "{run}", "--format", "pdf"], "retrieval-report-format"),
        (["report", "{run}", "--among", "50"], "retrieval-report-format"),
        (["report", "{run}", "--out", "{run}/report"], "retrieval-report-inside-run"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_way_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: str
) -> None:
    run = write_runs(tmp_path / "runs", [TrialPlan(config="baseline", task="a")])
    (tmp_path / "empty").mkdir()
    before = digest_tree(run)
    words = [word.format(run=run, empty=tmp_path / "empty") for word in arguments]
    done = call(capsys, "retrieval", *words)
    assert done.status == 2
    assert f"error[{code}]" in done.err
    assert "fix:" in done.err
    assert digest_tree(run) == before


def test_only_the_forms_that_were_asked_for_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_runs(tmp_path / "runs", [TrialPlan(config="baseline", task=task) for task in "ab"])
    out = tmp_path / "report"
    done = call(capsys, "retrieval", "report", run, "--out", out, "--format", "csv", "--json")
    assert json.loads(done.out) == {
        "files": [str(out / "retrieval_report.csv")],
        "n_trials": 2,
        "computable": 2,
        "left_out": 0,
    }
    rows = list(csv.DictReader(io.StringIO((out / "retrieval_report.csv").read_text())))
    assert {row["section"] for row in rows} == {"coverage", "mean", "association", "trial"}


def test_further_views_are_off_unless_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_runs(tmp_path / "runs", plan_example(tasks=6))
    plain, full = tmp_path / "plain", tmp_path / "full"
    call(capsys, "retrieval", "report", run, "--out", plain, "--format", "json")
    asked = ("--supplementary", "--among", "0.5", "--flags")
    call(capsys, "retrieval", "report", run, "--out", full, "--format", "json", *asked)
    without = json.loads((plain / "retrieval_report.json").read_text())
    having = json.loads((full / "retrieval_report.json").read_text())
    assert without["supplements"] == {"has_columns": False, "least_recall": None, "has_flags": False}
    assert without["conditioned"] == []
    assert not any(row["flags"] or row["supplementary"] for row in without["trials"])
    assert len(having["conditioned"]) == 2
    assert all(row["supplementary"] for row in having["trials"])
    assert having["configurations"] == without["configurations"], "they change no figure of the core"
    assert having["comparison"]["matched"] == without["comparison"]["matched"]


def test_no_verdict_score_or_page_changes_where_retrieval_artefacts_exist(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"unit": FAILED})

    def judge() -> tuple[object, ...]:
        evidence = load_evidence(run)
        card = build_score_card(evidence)
        entry = api.judge_run(run).entry
        check = api.verify_run(run, trusted_keys=None)
        return card, build_run_report(evidence, card), entry, check, build_run_page(run)

    before, kept = judge(), digest_tree(run)
    events = run / "retrieval_events" / "noop"
    events.mkdir(parents=True)
    for name in ("x.retrieval_events.json", "x.retrieval_metrics.json", "../run_retrieval_summary.json"):
        (events / name).write_text('{"reward": 1, "verdict": "success", "file_recall": 1.0}')
    assert judge() == before
    assert {name: digest for name, digest in digest_tree(run).items() if name in kept} == kept


def test_a_seal_holds_beside_retrieval_artefacts(tmp_path: Path) -> None:
    paths = build_sealed_run(tmp_path / "run")[0]
    before = api.verify_run(paths.root, trusted_keys=None)
    api.normalize_retrieval(api.NormalizationRequest(directory=paths.root))
    api.evaluate_retrieval(paths.root)
    assert list(paths.retrieval_events.rglob("*.json"))
    assert api.verify_run(paths.root, trusted_keys=None) == before


def test_a_run_of_ours_has_the_outcome_that_its_evidence_gives(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"unit": FAILED})
    (run / "score.json").write_text('{"status": {"kind": "scorable", "verdict": "success"}}')
    api.normalize_retrieval(api.NormalizationRequest(directory=run))
    api.evaluate_retrieval(run)
    found = api.compare_retrieval([run])
    (coverage,) = found.coverage
    assert (coverage.n_trials, coverage.with_reward, coverage.without_outcome) == (1, 1, 0)
    out = tmp_path / "report"
    api.report_retrieval([run], out, formats=("json",))
    (row,) = json.loads((out / "retrieval_report.json").read_text())["trials"]
    assert row["values"]["reward"] == 0.0, "a forged score is not believed"
    assert row["group"] == "runs of this harness"
    assert not isinstance(row["progress"], Unknown)


def test_runs_of_ours_are_repeats_of_one_study(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for replicate, outcome in ((0, PASSED), (1, FAILED)):
        write_run(runs / f"x-r{replicate}", {"unit": outcome}, replicate=replicate)
    api.normalize_retrieval(api.NormalizationRequest(directory=runs, is_all=True))
    api.evaluate_retrieval(runs, is_all=True)
    found = api.compare_retrieval([runs])
    (coverage,) = found.coverage
    assert (coverage.n_trials, coverage.n_tasks, coverage.with_reward) == (2, 1, 2)
    api.report_retrieval([runs], tmp_path / "report", formats=("json",))
    rows = json.loads((tmp_path / "report" / "retrieval_report.json").read_text())["trials"]
    assert [(row["repeat"], row["values"]["reward"]) for row in rows] == [(1, 1.0), (2, 0.0)]


def test_a_second_attempt_at_one_planned_run_is_no_repeat_and_does_not_better_it(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name, outcome in (("x-a1", FAILED), ("x-a2", PASSED)):
        write_run(runs / name, {"unit": outcome})
    done = api.normalize_retrieval(api.NormalizationRequest(directory=runs, is_all=True))
    assert [(item.run, item.reason) for item in done.left_out] == [("x-a2", "another attempt counts")]
    api.evaluate_retrieval(runs, is_all=True)
    api.report_retrieval([runs], tmp_path / "report", formats=("json",))
    rows = json.loads((tmp_path / "report" / "retrieval_report.json").read_text())["trials"]
    assert [(row["repeat"], row["values"]["reward"]) for row in rows] == [(1, 0.0)]


def write_stopped(root: Path) -> Path:
    """An attempt that the operator stopped while the agent worked."""
    run = ScoreRun(root)
    run.end_acting(category="operator-abort", code="run-stopped", rationale="stopped by the operator")
    return run.finish()


def test_an_attempt_that_was_stopped_and_repeated_enters_no_figure_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, out = tmp_path / "runs", tmp_path / "report"
    write_stopped(runs / "x-a1")
    write_run(runs / "x-a2")
    said = call(capsys, "retrieval", "normalize", "--all", runs)
    assert said.status == 0
    assert "x-a1/.: left out: excused: operator" in said.out
    assert "1 document written" in said.out
    assert not (runs / "x-a1" / "retrieval_events").exists()
    summary = json.loads(call(capsys, "retrieval", "evaluate", "--all", runs, "--json").out)
    assert (summary["total_event_files"], summary["skipped_repeated"]) == (1, 1)
    assert summary["left_out"] == [
        {
            "run": "x-a1",
            "config_name": "script",
            "task": "wide-chars",
            "reason": "excused: operator",
        }
    ]
    written = api.report_retrieval([runs], out)
    assert (written.n_trials, written.left_out) == (1, 1)
    for word in ("md", "html"):
        text = (out / f"retrieval_report.{word}").read_text()
        assert "1 excused: operator (x-a1)" in text
    assert [Path(name).name for name in api.summarize_runs(runs).summary.repeated] == ["x-a1"]


def test_figures_of_a_stopped_attempt_count_only_until_it_is_repeated(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_stopped(runs / "x-a1")
    request = api.NormalizationRequest(directory=runs, is_all=True)
    assert api.normalize_retrieval(request).left_out == ()
    api.evaluate_retrieval(runs, out=tmp_path / "before", is_all=True)
    api.evaluate_retrieval(runs / "x-a1")
    before = api.compare_retrieval([runs])
    assert ([item.n_trials for item in before.coverage], before.left_out) == ([1], ())
    write_run(runs / "x-a2")
    api.normalize_retrieval(request)
    done = api.evaluate_retrieval(runs, is_all=True)
    assert [task.source.parts[-4] for task in done.tasks] == ["x-a2"]
    for named in ([runs], [runs / "x-a1", runs / "x-a2"], sorted(runs.glob("x-*/retrieval_events"))):
        after = api.compare_retrieval(named)
        assert [item.n_trials for item in after.coverage] == [1]
        assert [item.file for item in after.sources] == [
            "x-a2/retrieval_events/script/wide-chars.retrieval_metrics.json"
        ]
        assert [item.run for item in after.left_out] == ["x-a1"]


def test_only_the_task_that_was_asked_for_has_attempts_left_out(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_stopped(runs / "x-a1")
    write_run(runs / "x-a2")
    request = api.NormalizationRequest(directory=runs, is_all=True, task="wide-chars")
    assert [item.run for item in api.normalize_retrieval(request).left_out] == ["x-a1"]
    with raises_code("retrieval-nothing-found"):
        api.normalize_retrieval(api.NormalizationRequest(directory=runs, is_all=True, task="another"))


@pytest.mark.parametrize("spec", [b"", b"[" * 5000, b'{"schema": 1}', None])
def test_a_specification_that_cannot_be_read_leaves_nothing_out(tmp_path: Path, spec: bytes | None) -> None:
    runs = tmp_path / "runs"
    write_run(runs / "x-a2")
    path = write_stopped(runs / "x-a1") / "spec.json"
    path.unlink()
    if spec is None:
        os.mkfifo(path)
    else:
        path.write_bytes(spec)
    found = api.normalize_retrieval(api.NormalizationRequest(directory=runs, is_all=True))
    assert (len(found.tasks), found.left_out, found.holds) == (2, (), True)
