"""Real agents with a canned model: on an example, with a wrong fix, with a cap, and replayed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial import api
from repotrial.contract import parse_run_spec
from repotrial.trace import (
    AcceptanceExecution,
    AgentTranscript,
    Enforced,
    Prompt,
    Response,
    RunPaths,
    StageTransition,
    Terminate,
    ToolInvocation,
    WorkspaceMutation,
)
from support.accounts import ORDINARY_UID, build_ordinary_variables, require_ordinary_python
from support.examples import EXAMPLES, load_example, require_tools
from support.model_agents import ModelRun, finish, shell, try_script, try_upstream, write_script
from support.real_agents import CACHE, WANTED, require_agent
from support.trials import Court, open_court

EXAMPLE = EXAMPLES / "querycache-stale"
SCRIPT = EXAMPLES.parent / "agents" / "querycache-stale" / "honest.toml"
LOOK = shell("echo we are $WHERE; cat answer.sh")

HEAVY = {"mini-swe-agent"}
"""Agents that take as long to start as the others take for all their work."""

each_agent = pytest.mark.parametrize("name", WANTED)


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as court:
        yield court


def _assert_sound(run: ModelRun) -> None:
    check = api.verify_run(run.directory, trusted_keys=None)
    assert check.holds, check
    again = api.recompute_run(run.directory)
    assert again.holds, again


@each_agent
def test_a_real_agent_solves_an_example_and_everything_is_on_record(
    name: str, court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    require_tools(load_example(EXAMPLE))
    require_agent(name)
    run = try_upstream(court, capsys, f"script:{SCRIPT}", "--cache", CACHE, agent=name, contract=EXAMPLE)
    assert (run.status, run.termination.category) == ("success", "agent-exit")
    assert parse_run_spec(RunPaths(run.directory).spec.read_bytes()).configuration.isolation == "L3"
    steps = SCRIPT.read_text(encoding="utf-8").count("[[steps]]")
    assert len(run.list_of(Prompt)) == len(run.list_of(Response)) >= steps
    assert len(run.list_calls()) >= steps - 1
    assert any("supersedeAll" in arguments for _, arguments in run.list_calls())
    assert run.list_of(AgentTranscript)
    # Some count neither side requests nor as the provider does; of what was done, all say the same.
    assert {alert.rule for alert in run.list_alerts("transcript")} <= {"cost-differs", "tokens-differ"}
    moved = [event for event in run.list_of(StageTransition) if isinstance(event.payload.status, Enforced)]  # type: ignore[union-attr]
    assert moved[0].seq < run.list_of(WorkspaceMutation)[0].seq
    _assert_sound(run)


def test_the_wrong_script_of_the_example_fails_acceptance(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    require_tools(load_example(EXAMPLE))
    require_agent("goose")
    upstream = f"script:{SCRIPT.with_name('wrong.toml')}"
    run = try_upstream(court, capsys, upstream, "--cache", CACHE, agent="goose", contract=EXAMPLE)
    assert (run.status, run.termination.category) == ("failure", "agent-exit")
    assert run.list_of(WorkspaceMutation)
    _assert_sound(run)


def test_a_real_agent_works_for_an_ordinary_user_too(court: Court) -> None:
    python = require_ordinary_python()
    if shutil.which("npm", path=build_ordinary_variables(court.place)["PATH"]) is None:
        pytest.skip("no npm that another user could run")
    installed = require_agent("goose")
    assert installed.tree is not None
    entry = installed.tree.path.parent
    home = court.place / "user"
    kept = home / "cache" / entry.relative_to(CACHE)
    shutil.copytree(entry, kept, symlinks=True)
    contract = court.write_contract()
    script = write_script(court, [LOOK, shell("sed -i s/41/42/ answer.sh"), finish()])
    for path in (home, *(place for place in kept.parents if home in place.parents), kept, *kept.iterdir()):
        os.chown(path, ORDINARY_UID, ORDINARY_UID)
    words = (
        "--agent",
        "goose",
        "--upstream",
        f"script:{script}",
        "--runs",
        home / "runs",
        "--cache",
        home / "cache",
    )
    done = subprocess.run(
        [*python, "-m", "repotrial", "run", "start", contract, *words, "--expect", "success"],
        env=build_ordinary_variables(home),
        cwd=home,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    assert [path.name for path in kept.parent.glob("sha256-*")] == [kept.name]
    (directory,) = (home / "runs").iterdir()
    assert directory.stat().st_uid == ORDINARY_UID
    run = ModelRun(directory, "success")
    assert len(run.list_calls()) == 2
    _assert_sound(run)


def _try_wrong_fix(name: str, court: Court, capsys: pytest.CaptureFixture[str], contract: Path) -> ModelRun:
    require_agent(name)
    steps = [
        LOOK,
        shell("sed -i s/41/43/ answer.sh"),
        shell("test $(id -u) = 0 || echo an ordinary user"),
        finish(),
    ]
    run = try_script(court, capsys, steps, "--cache", CACHE, agent=name, contract=contract)
    assert (run.status, run.termination.category) == ("failure", "agent-exit")
    uses = [event.payload for event in run.list_of(ToolInvocation)]
    results = [run.read(use.result) for use in uses if isinstance(use, ToolInvocation) and use.result]
    assert "an ordinary user" in results[-1]
    _assert_sound(run)
    return run


@pytest.mark.parametrize("name", [name for name in WANTED if name in HEAVY])
def test_a_wrong_fix_of_a_heavy_agent_fails_acceptance(
    name: str, court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    _try_wrong_fix(name, court, capsys, court.write_contract())


@pytest.mark.parametrize("name", [name for name in WANTED if name not in HEAVY])
def test_a_wrong_fix_of_a_real_agent_fails_acceptance_and_is_replayed_from_its_recording(
    name: str, court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract(environment='variables = { WHERE = "here" }')
    run = _try_wrong_fix(name, court, capsys, contract)

    replay = ("--cache", CACHE, "--again")
    upstream = f"recording:{run.directory}"
    again = try_upstream(court, capsys, upstream, *replay, agent=name, contract=contract)
    assert again.directory != run.directory
    assert again.list_alerts("replay") == []
    assert again.list_calls() == run.list_calls()
    assert (again.status, again.termination.category) == ("failure", "agent-exit")

    court.write_contract(environment='variables = { WHERE = "elsewhere" }')
    other = try_upstream(court, capsys, upstream, *replay, agent=name, contract=contract)
    (alert,) = other.list_alerts("replay")
    assert alert.segment is not None
    _assert_first_difference(other.read(alert.segment.body))
    assert other.list_calls() == run.list_calls()[:1]
    _assert_sound(other)


def _assert_first_difference(text: str) -> None:
    found = re.match(r"request (\d+): expected exchange (\d+); at /\S+: expected (.*), found (.*)$", text)
    assert found, text
    assert found[1] == found[2]
    assert "we are here" in found[3]
    assert "we are elsewhere" in found[4]


@each_agent
def test_a_cap_ends_a_real_agent_and_acceptance_is_still_executed(
    name: str, court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    require_agent(name)
    contract = court.write_contract(limits="tool_calls = 2")
    steps = [shell("sed -i s/41/42/ answer.sh"), *[shell(f"echo {n}") for n in range(6)], finish()]
    run = try_script(court, capsys, steps, "--cache", CACHE, agent=name, contract=contract)
    assert (run.termination.nature, run.termination.code) == ("resource", "tool-call-cap")
    (action,) = run.list_actions()
    assert isinstance(action, Terminate)
    assert len(run.list_calls()) == 2
    assert run.list_of(AcceptanceExecution)
    assert run.status != "invalid"
    _assert_sound(run)
