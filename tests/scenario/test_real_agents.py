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
from repotrial.policy import read_thresholds
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
from support.consoles import REAL_AGENT, ROOT, Step, iter_blocks, open_copy, verify_steps
from support.examples import EXAMPLES, load_example, require_tools
from support.model_agents import ModelRun, finish, shell, try_script, try_upstream, write_script
from support.real_agents import CACHE, WANTED, require_agent
from support.trials import Court, open_court

EXAMPLE = EXAMPLES / "querycache-stale"
SCRIPT = EXAMPLES.parent / "agents" / "querycache-stale" / "honest.toml"
READS = 3
"""Steps at the beginning of the script that change nothing."""
LOOK = shell("echo we are $WHERE; cat answer.sh")

HEAVY = {"mini-swe-agent"}
"""Agents that take as long to start as the others take for all their work."""

ALIKE = {"goose"}
"""Agents that speak as another one of them does; what is told of a difference goes by that."""

CAPS = {
    "pi": ("cost_usd = 0.24", 60_000, "cost-cap"),
    "goose": ("tokens = 1_000_000\ncost_usd = 1000", 495_000, "token-cap"),
}
"""What ends an agent half-way, how many tokens each answer takes, and how the end is called.

The others are ended by their number of calls.
"""

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
    # Some believe in another price; of what was done and counted, all say the same.
    assert {alert.rule for alert in run.list_alerts("transcript")} <= {"cost-differs"}
    _assert_staged(run)
    _assert_sound(run)


def _assert_staged(run: ModelRun) -> None:
    """The rule saw an answer, the sandbox moved, the agent got the answer, and only then anything changed."""
    transitions = [(e.seq, e.payload) for e in run.list_of(StageTransition)]
    moved = [
        (seq, each)
        for seq, each in transitions
        if isinstance(each, StageTransition) and isinstance(each.status, Enforced)
    ]
    assert [(each.before, each.after) for _, each in moved] == [("read", "write"), ("write", "test")]
    answers = {event.seq for event in run.list_of(Response)}
    for seq, each in moved:
        assert set(each.evidence) <= answers
        assert max(each.evidence) < seq
    changes = [event.seq for event in run.list_of(WorkspaceMutation)]
    assert moved[0][0] < changes[0]
    uses = [event for event in run.list_of(ToolInvocation) if event.seq < moved[0][0]]
    read = [e for e in uses if isinstance(e.payload, ToolInvocation) and e.payload.source == "gateway"]
    assert len(read) == READS


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
    (directory,) = (home / "runs").glob("[!.]*")
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

    if name in ALIKE:
        return
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
    cap, tokens, code = CAPS.get(name, ("tool_calls = 2", 1000, "tool-call-cap"))
    contract = court.write_contract(limits=cap)
    steps = [shell("sed -i s/41/42/ answer.sh"), *[shell(f"echo {n}") for n in range(6)], finish()]
    steps = [f"{step}usage = {{ input_uncached = {tokens}, output = 10 }}\n" for step in steps]
    words = ("--model", "gpt-5") if code == "cost-cap" else ()  # one that has a price
    patient = court.write_thresholds("percent = 80", "percent = 0")  # else `dominance` may come first
    run = try_script(
        court, capsys, steps, "--cache", CACHE, "--thresholds", patient, *words, agent=name, contract=contract
    )
    assert (run.termination.nature, run.termination.code) == ("resource", code)
    (action,) = run.list_actions()
    assert isinstance(action, Terminate)
    assert 2 <= len(run.list_calls()) <= (3 if code == "tool-call-cap" else 4)
    assert run.list_of(AcceptanceExecution)
    assert run.status != "invalid"
    _assert_sound(run)


def test_a_real_agent_that_does_the_same_again_and_again_is_ended_by_a_breaker(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    require_agent("pi")
    published = read_thresholds().decode()
    strict = re.sub(
        r"(\[identical-calls\]\nalert_after =) 5(.*\nthrottle_after =) 8(\nterminate_after =) 16",
        r"\g<1> 2\g<2> 0\g<3> 4",
        published,
    )
    assert strict != published
    thresholds = court.write("thresholds.toml", strict)
    steps = [*[shell("cat answer.sh")] * 8, finish()]
    run = try_script(court, capsys, steps, "--cache", CACHE, "--thresholds", thresholds, agent="pi")
    assert (run.termination.category, run.termination.nature) == ("circuit-breaker", "resource")
    assert run.termination.code == "identical-calls"
    (action,) = run.list_actions()
    assert isinstance(action, Terminate)
    assert 4 <= len(run.list_calls()) < 8
    assert run.list_of(AcceptanceExecution)
    _assert_sound(run)


def test_the_real_agent_of_the_readme_works_as_shown() -> None:
    require_agent("pi")
    require_tools(load_example(EXAMPLE))
    readme = ROOT / "README.md"
    (block,) = (
        block
        for block in iter_blocks(readme.read_text(encoding="utf-8"))
        if any(step.command.startswith(REAL_AGENT) for step in block)
    )
    setup = Step(0, 'export PATH="$PWD/.venv/bin:$PATH"', [])
    with open_copy() as place:
        verify_steps(readme, [setup, *block], place=place, cache=CACHE)
