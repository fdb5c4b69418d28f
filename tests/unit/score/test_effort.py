"""What agents' runs took: sums over what is stated, and nothing made up for what is not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from repotrial._core.absence import NotComputable
from repotrial.score import (
    AgentEffort,
    ScoreCard,
    build_effort,
    build_score_card,
    find_run_directories,
    load_evidence,
)
from repotrial.trace import Signal
from support.errors import raises_code
from support.score_runs import FAILED, PASSED, ScoreRun


def build_card(root: Path, *, does_fail: bool = False, **signals: str | int) -> ScoreCard:
    run = ScoreRun(root)
    run.end_acting(signals=tuple(Signal(name=name, value=value) for name, value in signals.items()))
    run.apply()
    for check in run.contract.checks:
        run.check(check, FAILED if does_fail and check.gate == "acceptance" else PASSED)
    return build_score_card(load_evidence(run.finish()))


def test_money_is_added_exactly_and_only_where_it_is_stated(tmp_path: Path) -> None:
    cards = [
        build_card(tmp_path / "a", cost_usd="0.1", tokens=100, wall_us=2_000_000),
        build_card(tmp_path / "b", cost_usd="0.2", tokens=50),
        build_card(tmp_path / "c"),
    ]
    found = build_effort(cards)
    sums = msgspec.to_builtins(found)
    assert sums["cost_usd"] == {"value": "0.3", "runs": 2}
    assert sums["tokens"] == {"value": "150", "runs": 2}
    assert sums["wall_us"] == {"value": "2000000", "runs": 1}
    assert isinstance(found.cost_units, NotComputable), "no zero for what no record states"


def test_failure_modes_are_counted_by_run_the_most_frequent_first(tmp_path: Path) -> None:
    cards = [
        build_card(tmp_path / "a", does_fail=True),
        build_card(tmp_path / "b", does_fail=True),
        build_card(tmp_path / "c"),
    ]
    assert build_effort(cards).tags == {"acceptance-failure": 2}


def test_no_runs_have_no_sums() -> None:
    found = build_effort([])
    assert isinstance(found, AgentEffort)
    assert isinstance(found.cost_usd, NotComputable)
    assert found.tags == {}


@pytest.mark.parametrize("field", AgentEffort.__struct_fields__)
def test_every_quantity_is_a_figure_for_people(field: str, tmp_path: Path) -> None:
    nothing = build_effort([])
    total = build_effort([build_card(tmp_path / "a", wall_us=7_000_000)]).wall_us
    value = {"non-termination": 1} if field == "tags" else total
    stated = msgspec.structs.replace(nothing, **{field: value})
    assert stated.describe(attempted=1, success=1) != nothing.describe(attempted=1, success=1)


def test_a_directory_of_runs_is_taken_apart_and_a_run_stands_for_itself(tmp_path: Path) -> None:
    for name in ("b", "a"):
        build_card(tmp_path / "runs" / name)
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "runs" / "ledger.jsonl").write_text("")
    runs = tmp_path / "runs"
    assert find_run_directories(runs) == [runs / "a", runs / "b"]
    assert find_run_directories(runs / "a") == [runs / "a"]
    with raises_code("run-directory-missing"):
        find_run_directories(tmp_path / "none")
