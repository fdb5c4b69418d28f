"""Programs of the host: bounded in time, output and reach."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repotrial.environment import execute_program
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
