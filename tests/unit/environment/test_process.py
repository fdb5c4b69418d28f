"""Programs of the host: bounded in time, output and reach."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from repotrial.environment import Interrupt, execute_program, interruptible
from repotrial.environment._process import FinishedProgram, watch_interrupt
from support.accounts import account, is_root
from support.errors import raises_code
from support.waiting import wait_until


def test_status_and_streams_are_returned() -> None:
    finished = execute_program(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], variables={}, seconds=20)
    assert (finished.status, finished.stdout, finished.stderr) == (3, b"out\n", b"err\n")


def test_environment_is_what_was_given_and_nothing_else() -> None:
    finished = execute_program(["/usr/bin/env"], variables={"ONLY": "this"}, seconds=20)
    assert finished.stdout == b"ONLY=this\n"


def test_there_is_no_input() -> None:
    assert execute_program(["/bin/cat"], variables={}, seconds=20).stdout == b""


def test_program_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"sleep 600 & echo $! > {note}; wait"
    for seconds in (1, 5, 25):  # longer only where the machine is too busy to have begun
        with raises_code("program-timeout"):
            execute_program(["/bin/sh", "-c", script], variables={"PATH": "/bin"}, seconds=seconds)
        if note.exists() and note.read_text().endswith("\n"):
            break
    _verify_gone(int(note.read_text()))


def test_child_left_behind_is_killed_and_not_waited_for(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    finished = execute_program(
        ["/bin/sh", "-c", f"sleep 600 & echo $! > {note}"], variables={"PATH": "/bin"}, seconds=30
    )
    assert finished.status == 0
    _verify_gone(int(note.read_text()))


def _verify_gone(pid: int) -> None:
    assert wait_until(lambda: _is_gone(pid)), f"process {pid} is still there"


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_program_that_prints_too_much_is_killed() -> None:
    with raises_code("program-output"):
        execute_program(
            ["/bin/sh", "-c", "yes"], variables={"PATH": "/bin:/usr/bin"}, seconds=30, output_bytes=10_000
        )


def test_program_that_is_not_there_is_named() -> None:
    with raises_code("program-start", match="/no/such/program"):
        execute_program(["/no/such/program"], variables={}, seconds=5)


def test_no_descriptor_leaks_into_the_program() -> None:
    with Path("/dev/null").open("rb") as stream:
        os.set_inheritable(stream.fileno(), True)
        listing = execute_program(["/bin/ls", "/proc/self/fd"], variables={}, seconds=20).stdout.split()
    assert len(listing) == 4  # three streams and the listing itself


@pytest.mark.skipif(not is_root(), reason="only root can become another user")
def test_account_is_dropped_with_all_groups() -> None:
    finished = execute_program(["/usr/bin/id"], variables={}, seconds=20, account=account())
    assert f"uid={account().uid}".encode() in finished.stdout
    assert b"(root)" not in finished.stdout


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
