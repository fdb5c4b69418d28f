"""Harnesses that die at the wrong moment, and many sandboxes one after the other: nothing stays behind."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from repotrial.sandbox._cgroups import find_cgroup_site
from repotrial.sandbox._label import parse_label
from repotrial.sandbox._reaper import reap_leftovers
from support.harness import HARNESSES, VARIABLES, HarnessProcess, OrderError, make_workspace, start_harness
from support.waiting import wait_until

_PR_SET_CHILD_SUBREAPER: Final = 36
ROUNDS: Final = 12
IN_A_ROW: Final = 200


@pytest.fixture
def _foster_parent() -> Iterator[None]:
    """Orphans of what this test starts become children of the test, where they can be counted."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    assert libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


def list_descendants(ancestor: int) -> list[int]:
    """Processes below one, by what each says of its parent."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_bytes().rpartition(b") ")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    pending = [ancestor]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def await_only(known: set[int]) -> list[int]:
    """Bury what is dead until nothing unknown is left below this process; what is left after a while."""
    left: list[int] = []

    def is_quiet() -> bool:
        left[:] = [pid for pid in list_descendants(os.getpid()) if pid not in known]
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return not left

    wait_until(is_quiet)
    return left


def list_own_groups(*makers: int) -> list[Path]:
    """Control groups that harnesses made; those of others, in tests at the same time, come and go."""
    found = []
    for home in find_cgroup_site().directories:
        for path in home.glob("repotrial-*"):
            label = parse_label(path.name)
            if label is not None and label.pid in makers:
                found.append(path)
    return found


def count_mounts(*words: str) -> int:
    """Mounts of the host that have to do with us: others may mount what they like meanwhile."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return sum(any(word in line for word in ("repotrial", *words)) for line in lines)


class Footprint(NamedTuple):
    fds: int
    threads: int
    processes: int
    mounts: int
    groups: int
    temporary: int


def measure(harness: HarnessProcess) -> Footprint:
    state = harness.state()
    return Footprint(
        fds=state["fds"],
        threads=state["threads"],
        processes=len(list_descendants(harness.process.pid)),
        mounts=count_mounts(str(harness.scratch)),
        groups=len(list_own_groups(harness.process.pid)),
        temporary=len(list(harness.scratch.iterdir())),
    )


@pytest.mark.parametrize("kind", HARNESSES)
def test_two_hundred_sandboxes_in_a_row_leak_nothing(kind: str) -> None:
    with start_harness(kind) as harness, make_workspace(harness) as workspace:
        for _ in range(2):  # what is made once and kept
            with harness.sandbox(workspace) as sandbox:
                sandbox.shell("true")
        before = measure(harness)
        for number in range(IN_A_ROW):
            with harness.sandbox(workspace) as sandbox:
                # Every tenth leaves something running.
                sandbox.shell("true" if number % 10 else "setsid sleep 97 & sleep 97 & exit 0")
        # What has just ended is still being buried.
        wait_until(lambda: measure(harness) == before)
        assert measure(harness) == before


@pytest.mark.usefixtures("_foster_parent")
@pytest.mark.parametrize("kind", HARNESSES)
def test_killing_the_harness_at_any_moment_leaves_nothing(kind: str) -> None:
    moments = random.Random(20260307)
    known = set(list_descendants(os.getpid()))
    killed = []
    for _ in range(ROUNDS):
        with start_harness(kind) as harness, make_workspace(harness) as workspace:
            harness.open(workspace).start("while :; do sleep 97 & sleep .01; done")
            # Not waited for: it dies somewhere on the way.
            spec = {"workspace": str(workspace), "variables": VARIABLES}
            assert harness.process.stdin is not None
            harness.process.stdin.write(json.dumps({"order": "open", "level": "L3", "spec": spec}) + "\n")
            harness.process.stdin.flush()
            time.sleep(moments.uniform(0, 0.05))
            harness.process.send_signal(signal.SIGKILL)
            harness.process.wait()
            killed.append(harness.process.pid)
            assert await_only(known) == []
    reap_leftovers()
    # Another harness that starts now may be removing the same.
    assert wait_until(lambda: not list_own_groups(*killed)), list_own_groups(*killed)


@pytest.mark.parametrize("kind", HARNESSES)
def test_killing_the_launch_server_ends_its_sandboxes_and_is_noticed(kind: str) -> None:
    with start_harness(kind) as harness, make_workspace(harness) as workspace:
        sandbox = harness.open(workspace)
        sandbox.start("echo > started; sleep 97")
        assert wait_until((workspace / "started").exists)
        launcher = harness.state()["launcher"]
        assert len(list_descendants(launcher)) >= 3
        os.kill(launcher, signal.SIGKILL)
        # Whoever was inside is told so; whoever comes later finds nothing to go into.
        assert sandbox.finished()["cause"] == "sandbox-lost"
        with pytest.raises(OrderError, match="SandboxLostError"):
            sandbox.shell("true")
        # A new one takes over.
        with harness.sandbox(workspace) as fresh:
            assert fresh.shell("true")["exit"] == {"kind": "exited", "code": 0}


@pytest.mark.parametrize("kind", HARNESSES)
def test_a_living_harness_is_not_reaped(kind: str) -> None:
    with (
        start_harness(kind) as harness,
        make_workspace(harness) as workspace,
        harness.sandbox(workspace) as sandbox,
    ):
        reap_leftovers()
        assert sandbox.shell("true")["exit"] == {"kind": "exited", "code": 0}
