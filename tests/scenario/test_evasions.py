"""Whoever fails would gain by a harness that gives up: no change makes a run invalid, or judging endless."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from repotrial.environment import Installation, InstallationSettings, open_installation
from repotrial.run import RunEnded, ScriptAgent, conduct_run
from repotrial.score import Scorable, build_score_card, load_evidence
from support.greetings import SAY, build_request, make_say_contract
from support.harness import require_sandboxes
from support.workspaces import scratch

HEAD = SAY.partition("[[checks]]")[0]
CHECK = """
[[checks]]
id = "said"
gate = "acceptance"
judge = "out-of-process"
baseline = "fail"
timeout_seconds = 20
"""
BUILD = """
[[checks]]
id = "build"
gate = "build"
judge = "out-of-process"
baseline = "fail"
run = "sh ./said.txt"
timeout_seconds = 20
outputs = ["target/out", "notes/out", "notes/list.txt"]
"""
JUNIT = CHECK + 'run = "sh ./said.txt"\nresults = [{ format = "junit", path = "r.xml" }]\n'
TAP = CHECK + 'run = "sh ./said.txt"\nresults = [{ format = "tap", path = "r.tap" }]\n'
AFTER = CHECK + 'needs = ["build"]\n'

Conduct = Callable[[str, str], RunEnded]


@pytest.fixture
def conduct() -> Iterator[Conduct]:
    """Conduct a run of a contract with these checks and an agent with this script."""
    require_sandboxes()
    with scratch() as root:
        opened: list[Installation] = []

        def conduct_one(checks: str, script: str) -> RunEnded:
            loaded = make_say_contract(root / "contract", HEAD + checks)
            settings = InstallationSettings(cache=root / "cache", home=root, variables={})
            opened.append(open_installation(loaded, settings))
            agent = ScriptAgent(script=script.encode())
            return conduct_run(*build_request(loaded, agent, opened[-1], root / "runs"))

        yield conduct_one
        for installation in opened:
            installation.close()


def verdict(run: RunEnded) -> str:
    status = build_score_card(load_evidence(run.paths.root)).status
    assert run.fault is None
    assert isinstance(status, Scorable)
    return status.verdict


def say(text: str) -> str:
    return f"cat > said.txt <<'END'\n{text}\nEND\n"


def test_results_that_quote_megabytes_into_the_record(conduct: Conduct) -> None:
    count = "head -c 20000000 /dev/zero | tr '\\0' 1"
    results = (
        f"""{{ printf '<testsuite failures="'; {count}; printf '"><testcase name="a"/></testsuite>'; }}"""
    )
    run = conduct(JUNIT, say(f'cd "$REPOTRIAL_RESULTS"; {results} > r.xml'))
    assert verdict(run) == "acceptance-error"
    assert run.paths.trace.stat().st_size < 1_000_000


def test_results_with_a_million_blanks(conduct: Conduct) -> None:
    blanks = "head -c 1000000 /dev/zero | tr '\\0' ' '"
    results = f"""{{ printf '1..1\\nnot ok 1 - a'; {blanks}; echo b; }}"""
    assert verdict(conduct(TAP, say(f'cd "$REPOTRIAL_RESULTS"; {results} > r.tap'))) == "acceptance-error"


def test_a_file_where_an_output_needs_a_directory(conduct: Conduct) -> None:
    script = "echo x > target\n" + say("rm target; mkdir -p target/out; echo 1 > target/out/f")
    assert verdict(conduct(BUILD + AFTER + 'run = "test -f target/out/f"\n', script)) == "failure"


@pytest.mark.parametrize("made", ["notes/out/f", "notes/list.txt"])
def test_a_build_that_makes_again_what_the_change_deletes(conduct: Conduct, made: str) -> None:
    script = "rm -rf notes\n" + say("mkdir -p notes/out; echo 1 > notes/out/f; echo 2 > notes/list.txt")
    check = f'run = "test -f {made} && ! grep -rq first notes"\n'
    assert verdict(conduct(BUILD + AFTER + check, script)) == "success"


def test_a_path_on_which_patterns_never_come_to_an_end(conduct: Conduct) -> None:
    policy = '\n[policy]\nprotected = ["**/a/**/a/**/a/**/q*z"]\n'
    deep = "i=0; while [ $i -lt 1000 ]; do mkdir a; cd a; i=$((i+1)); done; echo x > f; cd /workspace\n"
    run = conduct(CHECK + 'run = "test -f said.txt"\n' + policy, deep + "echo > said.txt\n")
    assert verdict(run) == "success"
