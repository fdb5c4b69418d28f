"""Harnesses that die at the wrong moment, and many sandboxes one after the other: nothing stays behind."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from repotrial.isolation._resources._reaper import reap_leftovers
from support.harness import HARNESSES, VARIABLES, HarnessProcess, OrderError, make_workspace, start_harness
from support.leftovers import (
    await_only,
    count_mounts,
    foster_orphans,
    list_descendants,
    list_own_groups,
)
from support.waiting import wait_until

ROUNDS: Final = 12
IN_A_ROW: Final = 200


@pytest.fixture
def _foster_parent() -> Iterator[None]:
    with foster_orphans():
        yield


class Footprint(NamedTuple):
    fds: int
    threads: int
    processes: int
    mounts: int
    groups: int
    temporary: int


def measure(harness: HarnessProcess, workspace: Path) -> Footprint:
    state = harness.state()
    return Footprint(
        fds=state["fds"],
        threads=state["threads"],
        processes=len(list_descendants(harness.process.pid)),
        mounts=count_mounts(str(harness.scratch), str(workspace)),
        groups=len(list_own_groups(harness.process.pid)),
        temporary=len(list(harness.scratch.iterdir())),
    )


def is_at_most(found: Footprint, bound: Footprint) -> bool:
    """Less is no leak: the bound may have been taken while something was still being buried."""
    return all(now <= then for now, then in zip(found, bound, strict=True))


@pytest.mark.parametrize("kind", HARNESSES)
def test_two_hundred_sandboxes_in_a_row_leak_nothing(kind: str) -> None:
    with start_harness(kind) as harness, make_workspace(harness) as workspace:
        for _ in range(2):  # what is made once and kept
            with harness.sandbox(workspace) as sandbox:
                sandbox.shell("true")
        before = measure(harness, workspace)
        for number in range(IN_A_ROW):
            with harness.sandbox(workspace) as sandbox:
                # Every tenth leaves something running.
                sandbox.shell("true" if number % 10 else "setsid sleep 97 & sleep 97 & exit 0")
        # What has just ended is still being buried.
        wait_until(lambda: is_at_most(measure(harness, workspace), before))
        after = measure(harness, workspace)
        assert is_at_most(after, before), (before, after)


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
        with pytest.raises(OrderError, match="sandbox-lost"):
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
