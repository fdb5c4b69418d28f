"""Attempts to get out of a sandbox, or to reach what is not inside: each against the real back end, by a
harness that is root and by one that is an ordinary user.

Attempts on the kernel's calls are in `test_sandbox_system_calls`; on the workspace, in
`test_sandbox_workspace`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from repotrial._core.words import Level
from repotrial.machine import execute_probe
from repotrial.machine._probe_suite._attempts import ATTEMPTS, PLANTED, EscapeAttempt
from repotrial.machine._probe_suite._run import build_probe_argv, parse_outcomes
from repotrial.machine._probe_suite._scene import NEIGHBOR_PORT, open_scene
from support.harness import (
    HARNESSES,
    SECRET,
    HarnessProcess,
    RemoteSandbox,
    make_workspace,
    require_sandboxes,
    start_harness,
)

CLAIMED: Final = 123
"""How many attempts each back end must stop for each kind of harness; a number that only grows."""


class Played(NamedTuple):
    results: dict[str, tuple[str, str]]
    workspace: Path
    owner: int


def play(harness: HarnessProcess, level: str) -> Iterator[Played]:
    """Make every attempt, once."""
    with (
        open_scene() as scene,
        make_workspace(harness) as workspace,
        make_workspace(harness) as elsewhere,
        harness.sandbox(elsewhere, level=level, listener_port=NEIGHBOR_PORT),
        harness.sandbox(workspace, level=level) as sandbox,
    ):
        # The harness itself is what must not be seen.
        facts = {**scene.facts, "secret": "do-not-leak-me", "process": "harness_process"}
        results = make_probe_attempts(sandbox, ATTEMPTS, facts)
        # Whatever was said inside: nothing arrived outside.
        assert not scene.has_datagram()
        assert not scene.has_connection()
        assert not any(Path(path).exists() for path in PLANTED)
        yield Played(results, workspace, harness.owner)


def make_probe_attempts(
    sandbox: RemoteSandbox, attempts: Sequence[EscapeAttempt], facts: dict[str, str]
) -> dict[str, tuple[str, str]]:
    """What came of each."""
    argv = build_probe_argv(attempts, facts)
    result = sandbox.run(*argv, prefix_bytes=10**6, timeout_seconds=600)
    assert result["exit"] == {"kind": "exited", "code": 0}, result
    return parse_outcomes(result["stdout"]["prefix"].encode("latin-1"))


def make_attempts(
    sandbox: RemoteSandbox, programs: dict[str, str], variables: dict[str, str]
) -> dict[str, str]:
    """What came of programs that find their way by variables, each in one line."""
    attempts = [
        EscapeAttempt(name=name, layer="mounts", program=program) for name, program in programs.items()
    ]
    result = sandbox.run(
        *build_probe_argv(attempts, {}), variables=variables, prefix_bytes=10**6, timeout_seconds=600
    )
    assert result["exit"] == {"kind": "exited", "code": 0}, result
    outcomes = parse_outcomes(result["stdout"]["prefix"].encode("latin-1"))
    return {
        name: outcome if outcome == "escaped" else f"{outcome}: {said}"
        for name, (outcome, said) in outcomes.items()
    }


@pytest.fixture(scope="module", params=HARNESSES)
def played(request: pytest.FixtureRequest) -> Iterator[Played]:
    with start_harness(request.param) as harness:
        yield from play(harness, "L3")


@pytest.fixture(scope="module", params=HARNESSES)
def played_without_overlay(request: pytest.FixtureRequest) -> Iterator[Played]:
    with start_harness(request.param) as harness:
        yield from play(harness, "L2")


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
def test_attempt_is_stopped(played: Played, attempt: EscapeAttempt) -> None:
    outcome, said = played.results[attempt.name]
    assert outcome == "stopped", said
    assert not attempt.refusals or said in attempt.refusals


def test_every_attempt_was_made(played: Played) -> None:
    assert len(played.results) == len(ATTEMPTS) >= CLAIMED


def test_no_two_attempts_have_the_same_name() -> None:
    assert len({attempt.name for attempt in ATTEMPTS}) == len(ATTEMPTS)


def test_every_attempt_is_stopped_at_level_2(played_without_overlay: Played) -> None:
    outcomes = played_without_overlay.results
    assert len(outcomes) == len(ATTEMPTS) >= CLAIMED
    assert {name: said for name, (outcome, said) in outcomes.items() if outcome != "stopped"} == {}


@pytest.mark.parametrize("level", [Level.L3, Level.L2])
def test_the_probe_of_this_machine_finds_that_everything_holds(level: Level) -> None:
    require_sandboxes()
    report = execute_probe(level)
    assert len(report.results) == len(ATTEMPTS)
    assert [result for result in report.results if result.verdict != "held"] == []
    assert report.has_held
    assert report.sandbox_uid != 0


def test_what_the_agent_leaves_never_belongs_to_root(played: Played) -> None:
    assert (played.workspace / "id").stat().st_uid == played.owner != 0


def test_a_success_would_be_noticed() -> None:
    """The attempts would be worth nothing if a success looked like a failure."""
    with (
        start_harness("user") as harness,
        make_workspace(harness) as workspace,
        harness.sandbox(workspace) as sandbox,
    ):
        programs = {
            "write": "open('/workspace/allowed', 'w')",
            "call": "result = call(NR['getpid'])",
            "refused": "result = call(NR['mount'], None, None, None, 0, None)",
            "error": "1 / 0",
            "end": "os._exit(3)",
        }
        attempts = [
            EscapeAttempt(name=name, layer="mounts", program=program) for name, program in programs.items()
        ]
        outcomes = make_probe_attempts(sandbox, attempts, {})
    assert outcomes == {
        "write": ("escaped", "it succeeded"),
        "call": ("escaped", "it succeeded"),
        "refused": ("stopped", "EPERM"),
        "error": ("broken", "ZeroDivisionError('division by zero')"),
        "end": ("broken", "it ended with 3"),
    }


def test_the_secret_is_really_there() -> None:
    with start_harness("user") as harness:
        harness.state()
        environment = Path(f"/proc/{harness.process.pid}/environ").read_bytes()
    assert f"{SECRET}=do-not-leak-me".encode() in environment
