"""Changes of flaky contracts: so many passes within so many judgments, the same for all arms (B11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from repotrial.analysis import (
    Adjudication,
    Analysis,
    ConductedPilot,
    PilotFigures,
    adjudicate,
    analyze_pilot,
    is_adjudicated,
)
from repotrial.cost import load_price_book
from repotrial.score import JudgedRun, judge_run
from repotrial.trace import Signal
from support.miniature_pilots import conduct_pilot
from support.score_runs import FAILED, ScoreRun, write_run

RULE = Adjudication(contracts=("t00",), passes=2, reruns=3)


def _judge(root: Path, letter: str) -> JudgedRun:
    if letter == "b":  # its own budget ended acting
        run = ScoreRun(root)
        signals = (Signal(name="spent_usd", value=1),)
        run.end_acting(category="circuit-breaker", nature="resource", code="cost-cap", signals=signals)
        run.apply()
        return judge_run(run.finish())
    if letter == "e":  # a budget that runs share ended acting
        run = ScoreRun(root)
        run.end_acting(category="circuit-breaker", nature="resource", code="shared-envelope")
        run.apply()
        return judge_run(run.finish())
    return judge_run(write_run(root, {} if letter == "p" else {"unit": FAILED}))


@pytest.mark.parametrize(
    ("letters", "end", "outcome"),
    [
        ("p", None, None),
        ("pp", None, "success"),
        ("pfp", None, "success"),
        ("fpp", None, "success"),
        ("pff", None, "failure"),
        ("ff", None, "failure"),
        ("fp", None, None),
        ("p", "run-envelope", "failure"),
        ("p", "shared-envelope", "indeterminate"),
        ("ff", "shared-envelope", "failure"),
        ("pb", None, "failure"),
        ("pe", None, "indeterminate"),
    ],
)
def test_the_rule_decides_as_soon_as_it_can(
    tmp_path: Path, letters: str, end: Any, outcome: str | None
) -> None:
    own, *again = (_judge(tmp_path / str(place), letter) for place, letter in enumerate(letters))
    assert adjudicate(RULE, own, again, end).outcome == outcome


def test_contracts_that_are_not_listed_and_changes_that_break_a_rule_are_never_judged_again(
    tmp_path: Path,
) -> None:
    sound = _judge(tmp_path / "sound", "f")
    assert is_adjudicated(RULE, "t00", sound)
    assert not is_adjudicated(RULE, "t01", sound)
    unsafe = judge_run(write_run(tmp_path / "unsafe", {"guard": FAILED}))
    assert not is_adjudicated(RULE, "t00", unsafe)


def _analyze(pilot: ConductedPilot) -> tuple[Analysis, PilotFigures]:
    found = analyze_pilot(pilot, load_price_book(None))
    assert isinstance(found.pilot, PilotFigures)
    return found, found.pilot


def test_the_contracts_own_verdict_stays_beside_and_the_cost_of_judgments_is_counted(tmp_path: Path) -> None:
    pilot = conduct_pilot(tmp_path, {"a": ["s"] * 4, "b": ["f"] * 4}, adjudication=RULE)
    write_run(tmp_path / "runs" / "again-1", {"unit": FAILED})
    write_run(tmp_path / "runs" / "again-2", {"unit": FAILED})
    first, *others = pilot.planned
    again = msgspec.structs.replace(first, again=("runs/again-1", "runs/again-2"))
    found, figures = _analyze(msgspec.structs.replace(pilot, planned=(again, *others)))
    arms = {arm.name: arm for arm in found.arms}
    assert arms["a"].rate.estimate == pytest.approx(3 / 4)
    assert figures.adjudication.own_rates["a"] == 1  # type: ignore[union-attr]
    (one, *_) = figures.adjudication.trials  # type: ignore[union-attr]
    assert (one.task, one.own, one.outcome, one.passes, one.judgments) == ("t00", "success", "failure", 1, 3)
    # The judgments are evidence: without them, another digest.
    _, plain = _analyze(pilot)
    assert plain.adjudication.trials[0].outcome == "indeterminate"  # type: ignore[union-attr]


def test_a_judgment_that_an_envelope_did_not_allow_leaves_the_trial_indeterminate_with_bounds(
    tmp_path: Path,
) -> None:
    pilot = conduct_pilot(tmp_path, {"a": ["s"] * 4, "b": ["f"] * 4}, adjudication=RULE)
    first, *others = pilot.planned
    ended = msgspec.structs.replace(first, adjudication_end="shared-envelope")
    found, figures = _analyze(msgspec.structs.replace(pilot, planned=(ended, *others)))
    record = next(one for one in figures.arms if one.arm == "a")
    assert (record.worst_rate, record.best_rate) == pytest.approx((3 / 4, 1))
    assert next(arm for arm in found.arms if arm.name == "a").indeterminate == 1
    assert record.endings["indeterminate"] == 1
    assert found.artefacts


def test_trials_beside_a_stop_are_shown_and_in_no_rate(tmp_path: Path) -> None:
    pilot = conduct_pilot(tmp_path, {"a": ["s"] * 4, "b": ["f"] * 4})
    kept = [one for one in pilot.planned if one.task != "t03"]
    left = [one for one in pilot.planned if one.task == "t03"]
    found, figures = _analyze(
        msgspec.structs.replace(pilot, planned=tuple(kept), beside=tuple(left), never_started=5)
    )
    assert [arm.trials for arm in found.arms] == [3, 3]
    assert figures.beside == {"a": {"success": 1}, "b": {"failure": 1}}
    flow = figures.flow
    assert (flow["trials planned"], flow["trials analyzed"], flow["trials never started"]) == (13, 6, 5)


def test_after_a_stop_for_one_contrast_the_others_only_describe_and_the_level_stays_split(
    tmp_path: Path,
) -> None:
    words = {"a": ["s"] * 12, "b": ["f"] * 12, "c": ["s", "f"] * 6}
    both = (("a-b", "a", "b"), ("a-c", "a", "c"))
    plain, _ = _analyze(conduct_pilot(tmp_path / "plain", words, contrasts=both))
    stopped = conduct_pilot(
        tmp_path / "stopped",
        words,
        contrasts=(("a-b", "a", "b", "primary"), ("a-c", "a", "c", "exploratory")),
        family=2,
    )
    found, _ = _analyze(stopped)
    assert [one.family for one in found.contrasts if one.name in {"a-b", "a-c"}] == ["primary", "exploratory"]
    assert found.contrasts[0].p_holm == plain.contrasts[0].p_holm == pytest.approx(2 * plain.contrasts[0].p)  # type: ignore[operator]
    assert found.contrasts[0].low_family == plain.contrasts[0].low_family
