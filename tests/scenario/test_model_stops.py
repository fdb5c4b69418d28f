"""Runs of agents that ask a model: many at once, and stopped or broken at the worst moment."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial import api
from repotrial.policy import BreakerState, Decision, decide, read_thresholds
from repotrial.trace import (
    Event,
    Intervention,
    MonitorAlert,
    OperatorDecision,
    Prompt,
    Response,
    ToolInvocation,
)
from support.command_line import start
from support.model_agents import TINY, ModelRun, finish, shell, try_script, write_script
from support.trials import Court, open_court
from support.waiting import wait_until


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as court:
        yield court


def test_a_run_that_is_stopped_while_it_waits_for_a_person_ends_at_once(court: Court) -> None:
    published = read_thresholds().decode()
    strict = court.write("thresholds.toml", published.replace("pause_after = 0", "pause_after = 1"))
    script = write_script(court, [shell("curl -s http://example.org/ || true"), finish()])
    words = ["--agent", f"agent:{TINY}", "--upstream", f"script:{script}", "--thresholds", str(strict)]
    process = start(
        *court.build_words(court.write_contract(), *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"XDG_CONFIG_HOME": str(court.place / "config")},
    )
    with process:
        assert wait_until(lambda: list(court.runs.glob(".inbox/*/question.json")))
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=300)  # a person would have a quarter of an hour
        finally:
            process.kill()
    (directory,) = court.runs.glob("answer-*")
    run = ModelRun(directory, "")
    assert run.termination.category == "operator-abort"
    actions = [e.payload.action for e in run.list_of(Intervention) if isinstance(e.payload, Intervention)]
    assert [str(action.__struct_config__.tag) for action in actions] == ["pause"]
    (decision,) = run.list_of(OperatorDecision)
    assert isinstance(decision.payload, OperatorDecision)
    assert decision.payload.answers is None
    assert not list(court.runs.glob(".inbox/*"))
    assert api.recompute_run(directory).holds


def test_a_watch_that_fails_makes_the_run_invalid(
    court: Court, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("repotrial.run._watch._inspection.check_text", fail)
    run = try_script(court, capsys, [shell("sed -i s/41/42/ answer.sh"), finish()])
    assert run.status == "invalid"
    (alert,) = run.list_alerts("harness")
    assert isinstance(alert, MonitorAlert)
    assert alert.rule == "watch-failed"
    assert alert.segment is not None
    assert "a mistake of ours" in run.read(alert.segment.body)


def test_an_overseer_that_breaks_ends_the_run_which_is_invalid_and_says_why(
    court: Court, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(state: BreakerState, event: Event) -> tuple[Decision, ...]:
        if isinstance(event.payload, Response):
            raise SystemExit("a mistake of ours")
        return tuple(decide(state, event))

    monkeypatch.setattr("repotrial.run._watch._breakers.decide", fail)
    # It would stay for ever: only the end of its sandbox ends it.
    run = try_script(court, capsys, [shell("sed -i s/41/42/ answer.sh"), shell("sleep 100000"), finish()])
    assert run.status == "invalid"
    assert (run.termination.category, run.termination.code) == ("harness-fault", "overseer-failed")
    assert "a mistake of ours" in run.termination.rationale
    assert [alert.rule for alert in run.list_alerts("harness")] == ["watch-failed"]
    assert run.list_calls() == [], "no answer went on that nobody had judged"


def test_a_desk_that_breaks_refuses_every_stage_and_the_run_is_invalid(
    court: Court, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> bool:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("repotrial.run._watch._stages.StageController.advance", fail)
    contract = court.write_contract(policy='stages = "explicit"')
    # It would wait for ever at a desk that nobody serves.
    script = court.write("agent.sh", '"$REPOTRIAL_STAGE" write\n')
    status, told = court.start_json(capsys, contract, "--agent", f"script:{script}")
    assert status == 3
    (directory,) = court.runs.glob("answer-*")
    run = ModelRun(directory, "")
    assert (run.termination.category, run.termination.code) == ("harness-fault", "harness-exception")
    assert "a mistake of ours" in run.termination.rationale
    assert any("a mistake of ours" in str(event) for event in told)


def test_many_runs_at_once_share_one_gateway_and_mix_nothing_up(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    # Each run's result is its own, and of no other run.
    steps = [shell("mktemp -u /tmp/XXXXXXXXXXXXXXXXXXXX"), shell("sed -i s/41/42/ answer.sh"), finish()]
    script = write_script(court, steps)
    words = ["--agent", f"agent:{TINY}", "--upstream", f"script:{script}"]
    status, told = court.start_json(capsys, court.write_contract(), *words, "--repeats", "24", "--jobs", "12")
    assert status == 0
    runs = [ModelRun(Path(e["entry"]["directory"]), e["entry"]["status"]) for e in told if "entry" in e]
    assert [run.status for run in runs] == ["success"] * 24
    names = set()
    for run in runs:
        prompts, answers = run.list_of(Prompt), run.list_of(Response)
        assert [event.payload.prompt for event in answers] == [event.seq for event in prompts]  # type: ignore[union-attr]
        assert len(prompts) == 3
        calls = [e.payload for e in run.list_of(ToolInvocation) if isinstance(e.payload, ToolInvocation)]
        results = [run.read(call.result) for call in calls if call.source == "gateway" and call.result]
        assert len(results) == 2
        names.add(results[0].split()[0])
        sent = [run.read(message.body) for event in prompts for message in event.payload.messages]  # type: ignore[union-attr]
        assert any(results[0].split()[0] in text for text in sent)
    assert len(names) == 24
