"""Aggregates (P5, S7) and the run report (P32)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from repotrial._core.absence import NotComputable
from repotrial.score import (
    RunReport,
    ScoreCard,
    build_aggregate,
    build_run_report,
    build_score_card,
    load_evidence,
)
from repotrial.trace import Intervention, OnAlert, Throttle
from support.errors import raises_code
from support.score_runs import (
    BUILD,
    CRASHED,
    FAILED,
    HUNG,
    UNIT,
    ScoreRun,
    build_contract,
    write_run,
    write_score,
)


def judge(root: Path) -> ScoreCard:
    return build_score_card(load_evidence(root))


def _build_cards(place: Path) -> list[ScoreCard]:
    contract = build_contract((UNIT,))
    cards = [judge(write_run(place / "success", contract=contract))]
    cards.append(judge(write_run(place / "failure", {"unit": FAILED}, contract=contract)))
    for name, control in (("change", None), ("machine", CRASHED)):
        run = ScoreRun(place / name, contract)
        run.end_acting()
        run.apply()
        run.check(UNIT, HUNG)
        if control is not None:
            run.check(UNIT, control, subject="reference")
        cards.append(judge(run.finish()))
    broken = write_run(place / "invalid", contract=contract)
    (broken / "change.patch").unlink()
    cards.append(judge(broken))
    return cards


def test_the_categories_are_kept_apart_and_every_denominator_is_named(tmp_path: Path) -> None:
    aggregate = build_aggregate({"script": _build_cards(tmp_path)})
    (row,) = aggregate.by_version
    assert (row.attempted, row.scorable) == (5, 4)
    assert (row.success.count, row.success.of, row.success.value) == (1, 4, "0.25")
    assert (row.acceptance_error.count, row.acceptance_error.of) == (2, 4)
    assert (row.invalid.count, row.invalid.of) == (1, 5)
    assert (row.over_attempted.count, row.over_attempted.of) == (1, 4), "one was the machine's fault"
    assert (row.over_all.count, row.over_all.of) == (1, 5)
    assert (row.graded, row.mean_graded) == (1, "1")
    assert "counts 0" in aggregate.error_treatment


def test_a_planned_run_of_which_nothing_is_known_counts_0_over_all(tmp_path: Path) -> None:
    good, failed, hung, *_ = _build_cards(tmp_path)
    (row,) = build_aggregate({"script": [good, failed]}, indeterminate={"script": [hung]}).by_agent
    assert (row.over_all.count, row.over_all.of, row.indeterminate) == (1, 3, 1)
    assert (row.success.count, row.success.of) == (1, 2)


def test_hanging_a_check_never_raises_an_agents_rate(tmp_path: Path) -> None:
    good, failed, hung, *_ = _build_cards(tmp_path)
    honest = build_aggregate({"script": [good, failed]}).by_agent[0]
    hanging = build_aggregate({"script": [good, hung]}).by_agent[0]
    assert hanging.over_attempted == honest.over_attempted


def test_versions_are_not_pooled_unless_asked_and_then_labeled(tmp_path: Path) -> None:
    first = judge(write_run(tmp_path / "a", contract=build_contract((UNIT,))))
    second = judge(write_run(tmp_path / "b", contract=build_contract((BUILD, UNIT))))
    with raises_code("mixed-versions"):
        build_aggregate({"script": [first, second]})
    pooled = build_aggregate({"script": [first, second]}, pool_versions=True)
    assert pooled.is_pooled
    assert "POOLED" in pooled.label
    assert len(pooled.by_version[0].contract_version_ids) == 2


def test_a_rate_over_nothing_is_not_zero(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    (root / "change.patch").unlink()
    (row,) = build_aggregate({"script": [judge(root)]}).by_version
    assert isinstance(row.success.value, NotComputable)
    assert isinstance(row.mean_graded, NotComputable)


@pytest.mark.parametrize(
    ("command", "cycles"), [("pytest -q", 1), ("cd sub && npm test", 1), ("echo pytest is slow", 0)]
)
def test_a_test_cycle_is_a_command_that_runs_tests_not_one_that_names_them(
    tmp_path: Path, command: str, cycles: int
) -> None:
    run = ScoreRun(tmp_path / "run", build_contract((UNIT,)), root_seed=7)
    run.builder.tool(arguments=json.dumps({"command": command}))
    run.end_acting()
    run.apply()
    run.check(UNIT)
    root = run.finish()
    report = build_run_report(load_evidence(root), write_score(root))
    assert (report.tool_calls, report.test_cycles) == (1, cycles)


def test_nothing_gives_no_rows() -> None:
    assert build_aggregate({}).by_version == ()


def test_a_report_binds_what_was_judged_to_what_came_of_it(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run", build_contract((UNIT,)), root_seed=7)
    tool = run.builder.tool(arguments='{"command": "pytest -q"}')
    alert = run.alert("burst", monitor="backpressure")
    run.builder.add(Intervention(action=Throttle(wait_us=5), basis=OnAlert(alert=alert), effective=True))
    run.end_acting()
    run.apply()
    run.check(UNIT)
    root = run.finish()
    card = write_score(root)
    report = msgspec.json.decode((root / "report.json").read_bytes(), type=RunReport)
    assert report == build_run_report(load_evidence(root), card)
    assert report.event_counts["acceptance-execution"] == 1
    assert (report.tool_calls, report.test_cycles) == (1, 1)
    assert report.interventions[0].action == "throttle"
    assert report.interventions[0].rule == "burst"
    assert [remark.code for remark in report.deviations] == ["root-seed"]
    assert report.checks[0].wall_us == 2_000
    assert card.attribution.label == "interpretation"
    assert card.attribution.last_green == tool.seq
    assert msgspec.json.decode((root / "score.json").read_bytes(), type=ScoreCard) == card
