from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial.isolation._launch_server._processes import (
    ProcessRow,
    ProcessTable,
    find_descendants,
    wait_for_end,
)
from support.waiting import PATIENCE_SECONDS, wait_until


@pytest.fixture
def table() -> Iterator[ProcessTable]:
    opened = ProcessTable(os.open("/proc", os.O_RDONLY | os.O_DIRECTORY))
    yield opened
    opened.close()


def row(pid: int, parent: int) -> ProcessRow:
    return ProcessRow(
        pid=pid, parent=parent, state="S", cpu_us=0, threads=1, started_ticks=0, resident_bytes=0
    )


def test_descendants_are_found_at_every_depth() -> None:
    rows = {pid: row(pid, parent) for pid, parent in ((2, 0), (3, 2), (4, 3), (5, 1), (6, 2), (7, 99))}
    assert sorted(found.pid for found in find_descendants(rows, 2)) == [3, 4, 6]
    assert find_descendants(rows, 4) == []


def test_a_process_tells_of_itself(table: ProcessTable) -> None:
    own = table.list_processes()[os.getpid()]
    assert own.parent == os.getppid()
    assert own.is_alive
    assert own.threads >= 1
    assert own.resident_bytes > 1_000_000
    assert 0 < table.load_share_bytes(own) <= own.resident_bytes * 2
    assert 1 not in table.list_processes()


def test_a_name_full_of_parentheses_deceives_nobody(table: ProcessTable) -> None:
    code = "exec -a ') R 1 1 1' sleep 97"
    with subprocess.Popen(["/bin/bash", "-c", f"printf ') R 1 (' > /proc/$$/comm; {code}"]) as process:
        wait_until(lambda: b"sleep" in Path(f"/proc/{process.pid}/comm").read_bytes())
        assert table.list_processes()[process.pid].parent == os.getpid()
        process.kill()


def test_signals_arrive_and_the_dead_are_no_error(table: ProcessTable) -> None:
    with subprocess.Popen(["/bin/sleep", "97"]) as process:
        pidfd = os.pidfd_open(process.pid)
        assert not wait_for_end(pidfd, seconds=0)
        table.prefer_as_victim(process.pid)
        table.send_signal([process.pid], signal.SIGKILL)
        assert wait_for_end(pidfd, seconds=PATIENCE_SECONDS)
        assert not table.list_processes()[process.pid].is_alive
        os.close(pidfd)
    table.send_signal([process.pid], signal.SIGKILL)
    table.prefer_as_victim(process.pid)
