"""Pressure on a real sandbox: others that take its processors show, its own crowd and sleep do not."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from repotrial._core.words import Level
from repotrial.isolation import CommandResult, CommandSpec, SandboxSpec, open_sandbox
from repotrial.judging import judge_supply
from support.accounts import public_directory
from support.harness import VARIABLES, require_sandboxes

BURN = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass"


@contextlib.contextmanager
def hog_processors() -> Iterator[None]:
    """Others that want far more than there is, each in a session of its own."""
    words = (sys.executable, "-I", "-S", "-c", "while True: pass")
    with contextlib.ExitStack() as stack:
        for _ in range(12 * (os.cpu_count() or 1)):
            process = subprocess.Popen(words, start_new_session=True)
            stack.enter_context(process)
            stack.callback(process.kill)
        yield


def run(*argv: str) -> CommandResult:
    require_sandboxes()
    with (
        public_directory() as workspace,
        open_sandbox(SandboxSpec(workspace=workspace, variables=VARIABLES), level=Level.L3) as sandbox,
    ):
        return sandbox.run(CommandSpec(argv=argv, timeout_seconds=120))


def test_a_command_whose_processors_others_take_is_starved() -> None:
    with hog_processors():
        result = run("python3", "-c", BURN)
    assert judge_supply([result.usage.pressure]) == "starved", result.usage


def test_a_command_that_sleeps_beside_others_is_not_starved() -> None:
    with hog_processors():
        result = run("sleep", "1.5")
    assert judge_supply([result.usage.pressure]) == "fair", result.usage


def test_a_command_that_steps_back_for_others_is_seen_to() -> None:
    result = run("nice", "-n", "3", "python3", "-c", BURN)
    assert result.usage.pressure is not None
    assert result.usage.pressure.is_yielding
