from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.errors import EvidenceError
from repotrial.retrieval import (
    ComparisonOptions,
    MatchedComparison,
    RetrievalComparison,
    compare_study,
    load_study,
)
from repotrial.retrieval._study import read_metrics
from support.errors import raises_code
from support.retrieval_studies import NOW, TrialPlan, plan_example, refuse_to_judge, write_runs

FAST = msgspec.structs.replace(ComparisonOptions(generated_at=NOW).statistics, draws=200, rearrangements=400)


def compare(
    *directories: Path, baseline: str | None = None, treatment: str | None = None
) -> RetrievalComparison:
    study = load_study(directories, judge=refuse_to_judge)
    options = ComparisonOptions(baseline=baseline, treatment=treatment, statistics=FAST, generated_at=NOW)
    return compare_study(study, options)


def get_pair(found: RetrievalComparison) -> MatchedComparison:
    (pair,) = found.matched
    return pair


def plan_pair(task: str, one: float, other: float, **further: object) -> list[TrialPlan]:
    return [
        TrialPlan(config="baseline", task=task, reward=one, cost_usd=1.0),
        msgspec.structs.replace(TrialPlan(config="mcp", task=task, reward=other, cost_usd=0.5), **further),
    ]


def test_differences_by_hand(tmp_path: Path) -> None:
    plans = [
        *plan_pair("a", 0.0, 1.0, met=("src/a.py", "src/b.py")),
        *plan_pair("b", 0.5, 0.5),
        *plan_pair("c", 1.0, 0.75, met=("src/other.py",)),
    ]
    pair = get_pair(compare(write_runs(tmp_path, plans)))
    assert (pair.baseline, pair.treatment, pair.n_tasks) == ("baseline", "mcp", 3)
    assert not isinstance(pair.deltas, NotComputable)
    by_name = {delta.quantity: delta for delta in pair.deltas}
    reward = by_name["reward"].shift
    assert not isinstance(reward, NotComputable)
    assert reward.mean.value == pytest.approx((1 + 0 - 0.25) / 3)
    assert (reward.positive, reward.zero, reward.negative) == (1, 1, 1)
    recall = by_name["file_recall"].shift
    assert not isinstance(recall, NotComputable)
    assert recall.mean.value == pytest.approx((0.5 + 0 - 0.5) / 3)
    cost = by_name["cost_usd"].shift
    assert not isinstance(cost, NotComputable)
    assert cost.mean.value == -0.5
    assert isinstance(cost.mean.interval, NotComputable)
    assert pair.tasks[0].deltas["reward"] == 1.0


def test_names_that_a_wrapper_changed_still_join(tmp_path: Path) -> None:
    plans = [
        plan for task in ("a", "b", "c") for plan in plan_pair(task, 0.0, 1.0, stated=f"mcp_{task}_AbC123")
    ]
    found = compare(write_runs(tmp_path, plans))
    assert get_pair(found).n_tasks == 3
    assert all(item.with_reward == 3 for item in found.coverage)
    assert not found.unjoined_trials


def test_repeats_are_averaged_and_count_as_one_task(tmp_path: Path) -> None:
    plans = [
        *plan_pair("a", 0.0, 1.0),
        TrialPlan(config="mcp", task="a", reward=0.0, number=2),
        *plan_pair("b", 0.0, 0.0),
        *plan_pair("c", 0.0, 0.0),
    ]
    found = compare(write_runs(tmp_path, plans))
    pair = get_pair(found)
    assert pair.n_tasks == 3
    assert pair.tasks[0].n_treatment == 2
    assert pair.tasks[0].deltas["reward"] == 0.5
    coverage = {item.config_name: item for item in found.coverage}
    assert (coverage["mcp"].n_trials, coverage["mcp"].n_tasks) == (4, 3)


def test_another_model_or_harness_is_left_out_and_listed(tmp_path: Path) -> None:
    plans = [
        *plan_pair("a", 0.0, 1.0),
        *plan_pair("b", 0.0, 1.0),
        *plan_pair("c", 0.0, 1.0),
        *plan_pair("d", 0.0, 1.0, model="example-small"),
        *plan_pair("e", 0.0, 1.0, version="9.9"),
        *plan_pair("f", 0.0, 1.0, model=None),
    ]
    pair = get_pair(compare(write_runs(tmp_path, plans)))
    assert [(item.task, item.field, item.baseline, item.treatment) for item in pair.mismatched] == [
        ("d", "model", "example-large", "example-small"),
        ("e", "harness", "example-agent 1.0", "example-agent 9.9"),
    ]
    assert [task.task for task in pair.tasks] == ["a", "b", "c", "f"]
    assert pair.unverified == ("model: 1",)


def test_a_reward_is_needed_on_both_sides(tmp_path: Path) -> None:
    plans = [
        *plan_pair("a", 0.0, 1.0),
        *plan_pair("b", 0.0, 1.0, reward=None),
        TrialPlan(config="baseline", task="c"),
        TrialPlan(config="mcp", task="d"),
    ]
    pair = get_pair(compare(write_runs(tmp_path, plans)))
    assert pair.without_reward == ("b",)
    assert (pair.only_baseline, pair.only_treatment) == (("c",), ("d",))
    assert pair.deltas == NotComputable("needs at least 3 matched tasks, found 1")


def test_tasks_without_ground_truth_have_rewards_and_no_measures(tmp_path: Path) -> None:
    plans = [plan for task in ("a", "b", "c", "d") for plan in plan_pair(task, 0.0, 1.0)]
    plans[0] = msgspec.structs.replace(plans[0], relevant=())
    plans[2] = msgspec.structs.replace(plans[2], met=())
    found = compare(write_runs(tmp_path, plans))
    coverage = {item.config_name: item for item in found.coverage}["baseline"]
    assert (coverage.computable, coverage.without_ground_truth, coverage.degraded) == (2, 1, 1)
    deltas = get_pair(found).deltas
    assert not isinstance(deltas, NotComputable)
    counts = {delta.quantity: delta.n_tasks for delta in deltas}
    assert (counts["reward"], counts["file_recall"]) == (4, 2)


def test_associations_are_those_of_scipy(tmp_path: Path) -> None:
    plans = [plan for plan in plan_example(tasks=12) if plan.config == "mcp-remote"]
    run = write_runs(tmp_path, plans)
    found = compare(run)
    (scope,) = found.associations
    assert not scope.is_pooled
    values = {}
    for plan in plans:
        file = run / "retrieval_events" / plan.config / f"{plan.task}.retrieval_metrics.json"
        values[plan.task] = json.loads(file.read_text())["file_level_metrics"]["file_recall"]
    expected = scipy_stats.spearmanr(list(values.values()), [plan.reward for plan in plans]).statistic
    item = scope.associations[0]
    assert (item.measure, item.outcome, item.n_tasks) == ("file_recall", "reward", 12)
    assert not isinstance(item.association, NotComputable)
    assert item.association.value == pytest.approx(float(expected))
    assert not isinstance(item.association.p_value, NotComputable)
    assert not isinstance(item.p_adjusted, NotComputable)
    assert item.p_adjusted >= item.association.p_value


def test_fewer_than_five_tasks_have_no_association(tmp_path: Path) -> None:
    plans = [plan for task in ("a", "b", "c", "d") for plan in plan_pair(task, 0.0, 1.0)]
    found = compare(write_runs(tmp_path, plans))
    assert [scope.scope for scope in found.associations] == ["all configurations pooled", "baseline", "mcp"]
    for scope in found.associations:
        assert scope.n_tests == 0
        for item in scope.associations:
            assert item.association == NotComputable("needs at least 5 tasks, found 4")


def test_every_figure_says_over_how_many_tasks_and_by_which_method(tmp_path: Path) -> None:
    document = json.loads(msgspec.json.encode(compare(write_runs(tmp_path, plan_example(tasks=8)))))
    assert document["schema_version"] == "1.0"
    assert "association only" in document["label"]
    for scope in document["associations"]:
        for item in scope["associations"]:
            assert item["n_tasks"] == 8
            assert item["association"]["method"].startswith("cluster-permutation")
            assert item["association"]["interval"]["method"] == "cluster-bootstrap-percentile"
    for delta in document["matched"][0]["deltas"]:
        assert delta["n_tasks"] <= 8
        if delta["shift"]["kind"] == "shift":
            assert delta["shift"]["sign_flip"]["method"] == "sign-flip-exact"
    assert len(document["sources"]) == 16
    assert all(source["digest"].startswith("sha256:") for source in document["sources"])


def test_the_same_files_give_the_same_figures_wherever_they_lie(tmp_path: Path) -> None:
    plans = plan_example(tasks=12)
    one = compare(write_runs(tmp_path / "one", plans))
    other = compare(write_runs(tmp_path / "other", list(reversed(plans))).parent)
    assert msgspec.json.encode(one) == msgspec.json.encode(other)


def test_the_pair_can_be_chosen(tmp_path: Path) -> None:
    plans = [TrialPlan(config=config, task=task) for config in ("x", "y", "baseline") for task in "abc"]
    run = write_runs(tmp_path, plans)
    pairs = [(pair.baseline, pair.treatment) for pair in compare(run).matched]
    assert pairs == [("baseline", "x"), ("baseline", "y"), ("x", "y")]
    chosen = get_pair(compare(run, baseline="y", treatment="x"))
    assert (chosen.baseline, chosen.treatment) == ("y", "x")
    one_sided = compare(run, treatment="x").matched
    assert [(pair.baseline, pair.treatment) for pair in one_sided] == [("baseline", "x"), ("y", "x")]
    with raises_code("retrieval-configuration", match="expected one of baseline, x, y, found z"):
        compare(run, baseline="z")


def test_sides_of_different_runs_are_not_matched(tmp_path: Path) -> None:
    one = write_runs(tmp_path / "1", [TrialPlan(config="baseline", task=task) for task in "abc"])
    other = write_runs(tmp_path / "2", [TrialPlan(config="mcp", task=task) for task in "abc"])
    pair = get_pair(compare(one, other))
    assert (pair.n_tasks, pair.only_baseline, pair.only_treatment) == (0, ("a", "b", "c"), ("a", "b", "c"))


def test_the_same_directory_named_twice_counts_once(tmp_path: Path) -> None:
    run = write_runs(tmp_path, [TrialPlan(config="baseline", task="a")])
    (coverage,) = compare(run, run.parent, run / "retrieval_events").coverage
    assert coverage.n_trials == 1


def test_metrics_of_different_rules_are_refused(tmp_path: Path) -> None:
    plans = [TrialPlan(config="baseline", task="a")]
    one = write_runs(tmp_path / "1", plans)
    other = write_runs(tmp_path / "2", plans, rule="reference")
    with raises_code("retrieval-mixed-ranking", match="reads and reference"):
        compare(one, other)


def test_a_directory_without_metrics_is_refused(tmp_path: Path) -> None:
    with raises_code("retrieval-no-metrics", match="expected files"):
        compare(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"schema_version": "2.0"}', '{"file_level_metrics": {"computable": true, "mrr": 7}}'],
)
def test_metrics_that_cannot_be_read_are_said_and_stop_nothing(tmp_path: Path, text: str) -> None:
    run = write_runs(tmp_path, [TrialPlan(config="baseline", task=task) for task in "ab"])
    file = run / "retrieval_events" / "baseline" / "a.retrieval_metrics.json"
    file.write_text(text)
    found = compare(run)
    (problem,) = found.unreadable
    assert problem.startswith(str(file))
    assert found.coverage[0].n_trials == 1
    assert found.unjoined_trials == ("fix_2026/baseline/a__Bas0001",)


def test_metrics_elsewhere_have_no_outcome(tmp_path: Path) -> None:
    run = write_runs(tmp_path, [TrialPlan(config="baseline", task="a")])
    place = (run / "retrieval_events").rename(tmp_path / "metrics")
    study = load_study([place], judge=refuse_to_judge, has_progress=True)
    (item,) = study.observations
    assert isinstance(item.outcome, Unknown)
    assert item.artefact.file == "metrics/baseline/a.retrieval_metrics.json"
    assert not isinstance(item.progress, Unknown)
    assert item.progress.recall == ((1, 0.5), (1, 0.5))


def test_tasks_of_different_runs_are_rearranged_together(tmp_path: Path) -> None:
    runs = []
    for number, plan in enumerate(plan_example(tasks=7)[::2]):
        run = write_runs(tmp_path / str(number), [plan])
        runs.append(run.rename(run.with_name(f"run_{number}")))
    (scope,) = compare(*runs).associations
    item = scope.associations[0]
    assert item.n_tasks == 7
    assert not isinstance(item.association, NotComputable)
    assert not isinstance(item.association.p_value, NotComputable)


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_METRICS = json.loads(
    """{"schema_version": "1.1", "provenance": {"task_name": "t"}, "coverage": {}, "ranking": "reads",
    "file_level_metrics": {"computable": true, "precision": {"1": 1}, "recall": {"1": 1}, "f1": {"1": 1},
      "ndcg": {"1": 1}, "mrr": 1, "map_score": 1, "file_recall": 1, "context_efficiency": 1, "n_retrieved": 1,
      "n_ground_truth": 1, "n_overlap": 1, "first_gt_hit_step": 0, "ttfr_seconds": 1, "ttfr_tokens": 1},
    "utilization_probes": {"util_read_overlap_with_relevant_files": 1},
    "error_taxonomy": {"labels": {"x": 1}, "slices": {"y": "z"}}}"""
)


@settings(max_examples=100)
@given(st.sampled_from(sorted(_METRICS)), st.sampled_from(sorted(_METRICS["file_level_metrics"])), _ANYTHING)
def test_whatever_a_metrics_document_holds_it_is_read_or_refused(top: str, inner: str, value: Any) -> None:
    files = _METRICS["file_level_metrics"]
    for document in (_METRICS | {top: value}, _METRICS | {"file_level_metrics": files | {inner: value}}):
        try:
            found = read_metrics(json.dumps(document).encode())
        except EvidenceError as error:
            if error.code != "retrieval-metrics-document":
                raise
            continue
        assert found.files.computable in {True, False}
