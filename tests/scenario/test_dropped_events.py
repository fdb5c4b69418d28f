"""An event that is not written is missed: real runs without one kind of event are invalid, by name (P15)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repotrial.environment import Installation, InstallationSettings, open_installation
from repotrial.run import RunEnded, ScriptAgent, Stopper, conduct_run
from repotrial.score import EventPointer, build_score_card, load_evidence
from repotrial.trace import EventRef, Holds, RunPaths, TraceWriter, check_run, iter_events, iter_payload_types
from support.errors import raises_code
from support.greetings import SAY, build_request, make_say_contract
from support.harness import require_sandboxes
from support.model_agents import finish, shell, try_script
from support.trials import Court, open_court
from support.workspaces import scratch

_MORE = """
[[checks]]
id = "built"
gate = "build"
judge = "out-of-process"
baseline = "pass"
run = "true"
timeout_seconds = 60

[[checks]]
id = "linted"
gate = "build"
layer = "static"
judge = "out-of-process"
baseline = "pass"
run = "true"
timeout_seconds = 60

[[checks]]
id = "doubted"
gate = "acceptance"
baseline = "fail"
files = [{ from = "oracle/right.sh", to = "suite.sh" }]
negative = [{ from = "oracle/wrong.sh", to = "suite.sh" }]
run = "sh suite.sh"
timeout_seconds = 60

[[setup]]
run = "true"

[limits]
wall_seconds = 4

[policy]
stages = "explicit\""""
_WORK = "$REPOTRIAL_STAGE write\necho hello > said.txt\n$REPOTRIAL_STAGE test\n"
_RISKY = f"{_WORK}unshare --user true || true\n"
_ENDLESS = f"{_WORK}sleep 600\n"

_SCRIPTED = {
    "phase-changed": (_WORK, "expected a phase-changed event into"),
    "briefing": (_WORK, "expected one briefing event"),
    "harness-execution": (_WORK, "expected a harness-execution event of step 0 of Setup"),
    "monitor-report": (_WORK, "expected monitor-report at"),
    "monitor-alert": (_RISKY, "events of monitor-alert of system-calls"),
    "stage-transition": (_WORK, "events of stage-transition"),
    "intervention": (_ENDLESS, "expected the intervention that led to run-timeout"),
    "termination": (_WORK, "expected a termination event"),
    "tool-invocation": (_WORK, "expected a tool-invocation event of the agent's own program"),
    "workspace-mutation": (_WORK, "workspace-mutation: said.txt: expected a mutation event"),
    "change-taken": (_WORK, "expected one change-taken event"),
    "patch-application": (_WORK, "expected one patch-application event"),
    "build-check": (_WORK, "check built: expected an event of its execution"),
    "static-check": (_WORK, "check linted: expected an event of its execution"),
    "acceptance-execution": (_WORK, "check said: expected an event of its execution"),
    "draw-revealed": (_WORK, "check doubted: expected draw-revealed after its twins"),
    "program-start": (_WORK, "expected program-start of"),
    "program-end": (_WORK, "expected program-end of"),
    "witness-report": (_WORK, "expected witness-report at the start and the end of act"),
    "operator-decision": (None, "to be an alert, an intervention or a decision"),
}
_MODELED = {
    "agent-configuration": "expected an agent-configuration event",
    "prompt": "expected event",
    "response": "expected response events",
    "agent-transcript": "events of agent-transcript",
}


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    require_sandboxes()
    with scratch() as root:
        text = SAY.replace("\n[policy]", _MORE, 1)
        files = {"oracle/right.sh": 'test "$(cat said.txt)" = hello\n', "oracle/wrong.sh": "false\n"}
        loaded = make_say_contract(root / "contract", text, files=files)
        settings = InstallationSettings(cache=root / "cache", home=root, variables={})
        with open_installation(loaded, settings) as opened:
            if opened.capabilities.syscall_audit != "notify" or not opened.capabilities.has_stages:
                pytest.skip("no supervisor for system calls, or no stages here")
            yield opened


def _drop(monkeypatch: pytest.MonkeyPatch, event_type: str) -> None:
    """As if the calls that write such events were not there."""
    real: Any = TraceWriter.append

    def append(writer: TraceWriter, payload: Any, *, actor: Any) -> Any:
        if payload.event_type == event_type:
            return EventRef(seq=writer.last_seq, t=0, hash="0" * 64)
        return real(writer, payload, actor=actor)

    monkeypatch.setattr(TraceWriter, "append", append)


def _conduct(installation: Installation, runs: Path, script: str | None) -> RunEnded:
    agent = ScriptAgent(script=(script or _WORK).encode())
    request = build_request(installation.loaded, agent, installation, runs)
    if script is None:
        stopper = Stopper()
        stopper.stop()
        request = request.with_settings(stopper=stopper)
    return conduct_run(*request)


def _list_findings(run: RunEnded) -> list[str]:
    verdict = check_run(run.paths, trusted_keys=None).completeness
    return [] if isinstance(verdict, Holds) else [finding.text for finding in verdict.findings]


def test_every_kind_of_event_is_asked_for() -> None:
    """A trace has to open, and counts of dropped events are held against what the budget says. Programs are
    folded beyond a thousand: that has a test without a sandbox.
    """
    elsewhere = {"run-opened", "trace-truncated", "programs-folded"}
    asked = {*_SCRIPTED, *_MODELED, "manifest-bound"}
    assert {row.name for row in iter_payload_types()} - elsewhere == asked


@pytest.mark.parametrize("script", [_WORK, _RISKY, _ENDLESS])
def test_an_honest_run_lacks_nothing(installation: Installation, tmp_path: Path, script: str) -> None:
    run = _conduct(installation, tmp_path / "runs", script)
    assert _list_findings(run) == []


def test_a_clean_fourth_gate_rests_on_monitors_that_reported_in(
    installation: Installation, tmp_path: Path
) -> None:
    run = _conduct(installation, tmp_path / "runs", _WORK)
    gate = build_score_card(load_evidence(run.paths.root)).gates[3]
    assert gate.outcome == "passed"
    assert "monitors reported in at the start and the end of acting and of" in gate.why[0]
    types = {event.seq: event.type for event in iter_events(run.paths.trace)}
    pointed = [types[pointer.seq] for pointer in gate.evidence if isinstance(pointer, EventPointer)]
    assert pointed
    assert {*pointed} == {"monitor-report"}


def test_silent_monitors_do_not_make_a_clean_gate(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _drop(monkeypatch, "monitor-report")
    run = _conduct(installation, tmp_path / "runs", _WORK)
    gate = build_score_card(load_evidence(run.paths.root)).gates[3]
    assert gate.outcome == "errored"
    assert "no monitor reported in at the start and the end of acting" in gate.why[0]


def test_a_run_that_is_bound_to_no_manifest_cannot_be_sealed(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _drop(monkeypatch, "manifest-bound")
    with raises_code("unsealable", match="expected a trace of the manifest"):
        _conduct(installation, tmp_path / "runs", _WORK)
    (directory,) = (tmp_path / "runs").glob("say-*")
    verdict = check_run(RunPaths(directory), trusted_keys=None).completeness
    assert not isinstance(verdict, Holds)
    assert any("expected one manifest-bound event" in finding.text for finding in verdict.findings)


@pytest.mark.parametrize("event_type", _SCRIPTED)
def test_a_run_without_such_events_is_invalid_by_name(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event_type: str
) -> None:
    script, words = _SCRIPTED[event_type]
    _drop(monkeypatch, event_type)
    run = _conduct(installation, tmp_path / "runs", script)
    found = _list_findings(run)
    assert any(words in text for text in found), found
    card = build_score_card(load_evidence(run.paths.root))
    assert card.status.__struct_config__.tag == "invalid"


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as court:
        yield court


def test_an_honest_dialogue_lacks_nothing(court: Court, capsys: pytest.CaptureFixture[str]) -> None:
    run = try_script(court, capsys, [shell("echo hello > said.txt"), finish()])
    assert isinstance(check_run(RunPaths(run.directory), trusted_keys=None).completeness, Holds)


@pytest.mark.parametrize("event_type", _MODELED)
def test_a_dialogue_without_such_events_is_invalid_by_name(
    court: Court, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, event_type: str
) -> None:
    _drop(monkeypatch, event_type)
    run = try_script(court, capsys, [shell("echo hello > said.txt"), finish()])
    verdict = check_run(RunPaths(run.directory), trusted_keys=None).completeness
    assert not isinstance(verdict, Holds)
    assert any(_MODELED[event_type] in finding.text for finding in verdict.findings), verdict
