"""Preparing an environment can be ended from outside."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from repotrial.environment import Interrupt, execute_program, interruptible
from repotrial.environment._process import FinishedProgram, watch_interrupt
from support.errors import raises_code
from support.waiting import wait_until

# It says that it has begun, and has a child that would outlive a parent that is killed alone.
LONG = "sleep 600 & echo $! > child; mv child begun; wait"


def execute(place: Path, interrupt: Interrupt) -> FinishedProgram:
    with interruptible(interrupt):
        return execute_program(["/bin/sh", "-c", LONG], variables={}, seconds=600, cwd=place)


def test_an_installer_ends_with_all_that_it_started(tmp_path: Path) -> None:
    interrupt = Interrupt()
    with ThreadPoolExecutor(1) as pool:
        done: Future[FinishedProgram] = pool.submit(execute, tmp_path, interrupt)
        assert wait_until((tmp_path / "begun").exists)
        child = int((tmp_path / "begun").read_text())
        interrupt.throw()
        with raises_code("preparation-stopped"):
            done.result(timeout=300)
    assert wait_until(lambda: not os.path.exists(f"/proc/{child}") or _is_zombie(child))  # noqa: PTH110


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except FileNotFoundError:
        return True


def test_nothing_begins_after_the_switch_was_thrown(tmp_path: Path) -> None:
    interrupt = Interrupt()
    interrupt.throw()
    with raises_code("preparation-stopped"):
        execute(tmp_path, interrupt)


def test_what_fails_because_it_was_ended_is_no_failure_of_its_own() -> None:
    interrupt = Interrupt()
    ended = threading.Event()

    def fail() -> None:
        with interrupt.watch(ended.set):
            interrupt.throw()
            raise OSError("the pipe is gone")

    with raises_code("preparation-stopped"):
        fail()
    assert ended.is_set()


def test_without_anyone_who_may_end_it_work_is_left_alone() -> None:
    with watch_interrupt(lambda: pytest.fail("nobody asked for an end")):
        Interrupt().throw()
