"""What a starved sandbox does to a verdict: a second execution counts, or the machine is to blame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from repotrial._core.pressure import ProcessorPressure
from repotrial.contract import Check
from repotrial.score import JudgedRun, Scorable, judge_run
from repotrial.signing import SigningKey
from repotrial.trace import Command, Exited, RunnerExecution, ToolInvocation
from support.score_runs import CRASHED, FAILED, HUNG, PASSED, UNIT, ScoreRun, build_contract

FAIR = ProcessorPressure(wall_us=60_000_000, processors=2, sandboxes=1, own_us=0, others_us=0, stalled_us=0)
STARVED = msgspec.structs.replace(FAIR, own_us=9_000_000, others_us=111_000_000, stalled_us=50_000_000)
TWICE = msgspec.structs.replace(UNIT, repeats=2)


class Measured(ScoreRun):
    """Its executions say what their sandboxes got of the processors."""

    def judge(self) -> JudgedRun:
        """Sealed: without a seal the harness is to blame, whatever was measured."""
        return judge_run(self.finish(key=SigningKey.load(self.paths.root.parent / "key.pem")))

    def execute(
        self, outcome: Any, pressure: ProcessorPressure, *, check: Check = UNIT, **fields: Any
    ) -> None:
        runner = RunnerExecution(
            started_at_us=1_000,
            ended_at_us=3_000,
            pressure=pressure,
            ceiling_us=60_000_000,
            command=Command(argv=("sh", "-c", "run"), cwd="."),
            exit=Exited(code=0),
            stdout=self.builder.writer.output(b""),
            stderr=self.builder.writer.output(b""),
        )
        self.check(check, outcome, runners=(runner,), **fields)


def open_run(root: Path, check: Check = UNIT, **fields: Any) -> Measured:
    run = Measured(root / "run", build_contract((check,)))
    run.end_acting(**fields)
    run.apply()
    return run


def describe(run: JudgedRun) -> tuple[str, str, str, bool]:
    assert isinstance(run.card.status, Scorable)
    return run.card.status.verdict, run.card.status.fault, run.cause.cause, run.cause.is_excused


@pytest.mark.parametrize("outcome", [HUNG, CRASHED])
def test_a_check_that_hangs_with_all_its_time_is_the_changes(tmp_path: Path, outcome: Any) -> None:
    run = open_run(tmp_path)
    run.execute(outcome, FAIR)
    judged = run.judge()
    assert describe(judged) == ("acceptance-error", "change", "finished", False)
    assert len(judged.card.tags) == 2, "the error, and what the change did"


def test_an_error_of_a_starved_sandbox_without_a_control_blames_neither(tmp_path: Path) -> None:
    run = open_run(tmp_path)
    run.execute(HUNG, STARVED)
    judged = run.judge()
    assert describe(judged) == ("acceptance-error", "unclear", "finished", False)
    assert [tag.id for tag in judged.card.tags] == ["evaluation-error"]


@pytest.mark.parametrize("starved", [HUNG, FAILED])
@pytest.mark.parametrize(
    ("again", "verdict", "fault"),
    [(PASSED, "success", "none"), (FAILED, "failure", "none"), (HUNG, "acceptance-error", "change")],
)
def test_a_second_execution_counts_in_place_of_a_starved_one(
    tmp_path: Path, starved: Any, again: Any, verdict: str, fault: str
) -> None:
    run = open_run(tmp_path)
    run.execute(starved, STARVED)
    run.execute(again, FAIR)
    judged = run.judge()
    assert describe(judged) == (verdict, fault, "finished", False)
    assert judged.card.checks[0].attempts == 1, "a repeat changes no count"
    assert len(judged.card.checks[0].events) == 2, "and is on view"


def test_a_second_execution_does_not_stand_for_one_that_had_its_time(tmp_path: Path) -> None:
    """As if a candidate had got itself another go."""
    run = open_run(tmp_path)
    run.execute(FAILED, FAIR)
    run.execute(PASSED, FAIR)
    assert describe(run.judge())[0] == "failure"


def test_each_second_execution_stands_for_one(tmp_path: Path) -> None:
    run = open_run(tmp_path, TWICE)
    run.execute(HUNG, STARVED, check=TWICE)
    run.execute(FAILED, STARVED, check=TWICE)
    run.execute(PASSED, FAIR, check=TWICE)
    assert describe(run.judge())[0] == "failure", "the second was not executed again"


def test_a_twin_that_survived_is_no_matter_of_time(tmp_path: Path) -> None:
    run = open_run(tmp_path)
    run.execute(FAILED, STARVED, variant="twins")
    run.execute(PASSED, FAIR, variant="twins")
    run.execute(PASSED, FAIR)
    assert describe(run.judge())[0] == "failure"


@pytest.mark.parametrize(
    ("outcome", "control", "verdict", "fault"),
    [
        (HUNG, HUNG, "acceptance-error", "machine"),
        (HUNG, FAILED, "acceptance-error", "machine"),
        (HUNG, PASSED, "acceptance-error", "change"),
        (FAILED, FAILED, "failure", "machine"),
        (FAILED, PASSED, "failure", "none"),
    ],
)
def test_what_stays_starved_is_held_against_the_reference(
    tmp_path: Path, outcome: Any, control: Any, verdict: str, fault: str
) -> None:
    run = open_run(tmp_path)
    run.execute(outcome, STARVED)
    run.execute(outcome, STARVED)
    run.execute(control, STARVED, subject="reference")
    is_machine = fault == "machine"
    expected = (verdict, fault, "machine" if is_machine else "finished", is_machine)
    assert describe(run.judge()) == expected


def test_a_rule_that_was_broken_beside_it_is_no_matter_of_time(tmp_path: Path) -> None:
    run = open_run(tmp_path)
    run.alert("prohibited-call", phase="accept", severity="critical")
    for subject in ("candidate", "candidate", "reference"):
        run.execute(FAILED, STARVED, subject=subject)
    assert describe(run.judge())[2:] == ("finished", False)


@pytest.mark.parametrize(("pressure", "cause"), [(STARVED, "machine"), (FAIR, "run-limit")])
def test_time_that_others_took_is_not_held_against_an_agent(
    tmp_path: Path, pressure: ProcessorPressure, cause: str
) -> None:
    run = Measured(tmp_path / "run", build_contract((UNIT,)))
    writer = run.builder.writer
    program = ToolInvocation(
        tool="script",
        source="sandbox",
        arguments=writer.body(b""),
        exit=Exited(code=0),
        started_at_us=1_000,
        wall_us=60_000_000,
        pressure=pressure,
        stdout=writer.output(b""),
        stderr=writer.output(b""),
    )
    writer.append(program, actor="agent")
    alert = run.alert("wall-time", severity="critical", monitor="resources")
    run.end_acting(
        category="run-timeout", nature="resource", code="wall-time", rationale="late", evidence=(alert,)
    )
    run.apply()
    run.check(UNIT, FAILED)
    judged = run.judge()
    assert (judged.cause.cause, judged.cause.is_excused) == (cause, cause == "machine")
