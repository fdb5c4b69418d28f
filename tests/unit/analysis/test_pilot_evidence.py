"""What a pilot's sealed runs show beside outcomes: calls, phases, failure modes, coherence, flakiness."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from repotrial._core.absence import NotComputable
from repotrial.analysis import ConductedPilot, PilotFigures, PlannedRow, analyze_pilot, judge_planned
from repotrial.analysis._stricter_caps import describe_discovery
from repotrial.conduct._state import PilotRun
from repotrial.contract import Check
from repotrial.cost import PriceBook, load_price_book
from repotrial.score import judge_run
from support.miniature_pilots import conduct_pilot
from support.score_runs import FAILED, PASSED, SAFETY, UNIT, ScoreRun, build_contract
from support.work_runs import Worker

PRICES = """\
action_type,unit,unit_price,notes
exec:wall,second,10,test
overhead:wall,second,0,test
storage:byte,byte,0,test
human:minute,minute,1,test
"""


def _analyze(pilot: ConductedPilot, book: PriceBook | None = None) -> PilotFigures:
    found = analyze_pilot(pilot, book or load_price_book(None)).pilot
    assert isinstance(found, PilotFigures)
    return found


def _work(root: Path, *commands: str) -> None:
    """A run that calls a shell, changes one file and is judged."""
    worker = Worker(root)
    for command in commands:
        worker.shell(command, 1)
    worker.run.end_acting()
    worker.run.apply()
    worker.run.check(UNIT)
    worker.run.finish()


def test_a_stratum_has_the_calls_and_failing_test_runs_of_its_trials(tmp_path: Path) -> None:
    pilot = conduct_pilot(tmp_path, {"a": ["s"] * 4, "b": ["f"] * 4})
    for place, commands in ((0, ("pytest",)), (2, ("pytest", "pytest", "ls"))):
        _work(tmp_path / "worked" / str(place), *commands)
        shutil.rmtree(tmp_path / "runs" / f"a-{place}-0")
        shutil.move(tmp_path / "worked" / str(place) / "run", tmp_path / "runs" / f"a-{place}-0")
    found = _analyze(pilot)
    rust = next(one for one in found.strata if (one.stratum, one.arm) == ("rust", "a"))
    (calls,) = [one for one in rust.tool_calls if one.outcome == "all"]
    assert (calls.median, calls.maximum) == (2, 3)
    (cycles,) = [one for one in rust.failed_check_cycles if one.outcome == "all"]
    assert (cycles.median, cycles.maximum) == (1.5, 2)


def test_phases_have_the_price_of_their_time(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(PRICES, "utf-8")
    pilot = conduct_pilot(tmp_path, {"a": ["s"] * 3, "b": ["f"] * 3})
    record = next(
        one for one in _analyze(pilot, load_price_book(tmp_path / "prices.csv")).arms if one.arm == "a"
    )
    # Three runs, each with a patch and three checks of 2 ms; and without a price there is none.
    assert isinstance(record.phases_usd["execution"], float)
    assert record.phases_usd["execution"] >= 3 * 4 * 0.002 * 10
    assert (record.phases_usd["inference"], record.phases_usd["adjudication"]) == (0, 0)
    assert isinstance(_analyze(pilot).arms[0].phases_usd["execution"], NotComputable)


def test_one_more_failure_mode_costs_the_mean_trial_over_the_chance_of_a_new_one(tmp_path: Path) -> None:
    trials = judge_planned(conduct_pilot(tmp_path, {"a": ["s", "f", "f", "b"]}))
    replace = msgspec.structs.replace
    found = describe_discovery([replace(one, trial=replace(one.trial, cost_usd=3.0)) for one in trials])
    once = [mode for mode, count in found.modes.items() if count == 1]
    assert once == ["build-failure"]
    assert found.chance_of_another == pytest.approx(1 / 4)
    assert found.usd_for_another == pytest.approx(12)


def test_conventions_are_the_share_of_static_checks_that_pass(tmp_path: Path) -> None:
    lint = Check(id="lint", gate="build", layer="static", run="lint", timeout_seconds=60, is_mandatory=False)
    pilot = conduct_pilot(tmp_path, {"a": ["s"] * 4, "b": ["f"] * 4})
    for place, outcome in ((0, PASSED), (1, FAILED)):
        name = tmp_path / "runs" / f"a-{place}-0"
        shutil.rmtree(name)
        run = ScoreRun(name, build_contract((lint, UNIT, SAFETY)))
        run.end_acting()
        run.apply()
        run.check(lint, outcome, is_static=True)
        run.check(UNIT)
        run.check(SAFETY)
        run.finish()
    rubric = _analyze(pilot).arms[0].rubric
    assert not isinstance(rubric, NotComputable)
    assert rubric.conventions == pytest.approx(1 / 2)
    assert isinstance(rubric.read_before, NotComputable)


def test_a_changed_file_that_was_never_read_is_less_coherent(tmp_path: Path) -> None:
    pilot = conduct_pilot(tmp_path, {"a": ["s"] * 4, "b": ["f"] * 4})
    for place, read in ((0, "src/wrap.py"), (1, "src/other.py")):
        worker = Worker(tmp_path / "worked" / str(place))
        worker.call(f"cat {read}", worker.tick(), result=b"first")
        worker.run.end_acting()
        worker.run.apply()
        worker.run.check(UNIT)
        worker.run.finish()
        shutil.rmtree(tmp_path / "runs" / f"a-{place}-0")
        shutil.move(tmp_path / "worked" / str(place) / "run", tmp_path / "runs" / f"a-{place}-0")
    rubric = _analyze(pilot).arms[0].rubric
    assert not isinstance(rubric, NotComputable)
    assert rubric.read_before == pytest.approx(1 / 2)


def test_a_check_whose_attempts_differ_and_a_change_judged_otherwise_are_counted_as_flaky(
    tmp_path: Path,
) -> None:
    flaky = Check(
        id="unit",
        gate="acceptance",
        layer="unit",
        run="pytest",
        timeout_seconds=60,
        repeats=3,
        rule="passes-required",
        passes_required=2,
    )
    runs = {}
    for name, outcomes in (("differs", (PASSED, FAILED, PASSED)), ("stable", (PASSED,) * 3)):
        run = ScoreRun(tmp_path / name, build_contract((flaky,)))
        run.end_acting()
        run.apply()
        for outcome in outcomes:
            run.check(flaky, outcome)
        runs[name] = judge_run(run.finish())
    failing = ScoreRun(tmp_path / "again", build_contract((UNIT,)))
    failing.end_acting()
    failing.apply()
    failing.check(UNIT, FAILED)
    again = judge_run(failing.finish())
    row = PlannedRow(order=0, stage=1, block=0, task="t", stratum="s", arm="a", replicate=0, run_id="r")
    assert PilotRun(row=row, judged=runs["differs"]).compare_judgments() == (1, 1)
    assert PilotRun(row=row, judged=runs["stable"]).compare_judgments() == (0, 1)
    assert PilotRun(row=row, judged=runs["stable"], again=(again,)).compare_judgments() == (1, 2)
