from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from repotrial._core.errors import MachineError
from repotrial.isolation._levels._stages import signal_sandbox
from repotrial.isolation._resources._freezer import (
    CgroupV1Freezer,
    CgroupV2Freezer,
    Freezer,
    SignalFreezer,
    freeze_or_resume,
    hold_frozen,
)
from repotrial.isolation._resources._sandbox_processes import iter_sandbox_pids
from support.bubblewrap import make_directory, open_puppet, require_bubblewrap
from support.errors import raises_code
from support.waiting import PATIENCE_SECONDS, wait_until

# Ticks as fast as it can into its own file, and starts a child that does the same.
TICK = 'i=0; while :; do i=$((i+1)); echo $i > "$0"; done'

# Seconds: so long, what waits for a disk does not count as paused.
LESS_THAN_FOR_A_DISK = 15.0

# CLONE_VFORK | CLONE_VM | SIGCHLD, with a stack for the child, which sleeps in libc.
VFORK = """
import ctypes
libc = ctypes.CDLL(None)
stack = ctypes.create_string_buffer(1 << 20)
top = ctypes.c_void_p(ctypes.addressof(stack) + (1 << 20) - 64)
libc.clone(ctypes.cast(libc.usleep, ctypes.c_void_p), top, 0x4111, ctypes.c_void_p(60_000_000))
"""


@contextlib.contextmanager
def make_cgroup(root: Path) -> Iterator[Path]:
    directory = root / f"repotrial-test-{uuid4().hex}"
    try:
        directory.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a cgroup in {root}: {error}")
    try:
        yield directory
    finally:
        directory.rmdir()


@contextlib.contextmanager
def run_ticking(folder: Path) -> Iterator[tuple[list[Path], list[subprocess.Popen[bytes]]]]:
    files = [folder / "one", folder / "two"]
    processes = [subprocess.Popen(["/bin/sh", "-c", TICK, str(file)]) for file in files]
    try:
        yield files, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def verify_it_stands_and_goes(freezer: Freezer, files: list[Path]) -> None:
    assert moves(files)
    freezer.freeze()
    assert not moves(files, seconds=0.1)
    freezer.freeze()
    freezer.resume()
    assert moves(files)
    with hold_frozen(freezer):
        assert not moves(files, seconds=0.1)
    assert moves(files)


def moves(files: list[Path], *, seconds: float = PATIENCE_SECONDS) -> bool:
    """Whether all of them change within so many seconds."""
    before = [stamp(file) for file in files]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if all(stamp(file) != old for file, old in zip(files, before, strict=True)):
            return True
        time.sleep(0.005)
    return any(stamp(file) != old for file, old in zip(files, before, strict=True))


def stamp(file: Path) -> int:
    return file.stat().st_mtime_ns if file.exists() else 0


@pytest.mark.parametrize(
    ("root", "marker", "build"),
    [
        ("/sys/fs/cgroup/unified", "cgroup.procs", CgroupV2Freezer),
        ("/sys/fs/cgroup", "cgroup.controllers", CgroupV2Freezer),
        ("/sys/fs/cgroup/freezer", "tasks", CgroupV1Freezer),
    ],
)
def test_a_cgroup_pauses_all_its_processes(
    tmp_path: Path, root: str, marker: str, build: Callable[[Path], Freezer]
) -> None:
    if not (Path(root) / marker).exists():
        pytest.skip(f"no such cgroups at {root}")
    with make_cgroup(Path(root)) as cgroup, run_ticking(tmp_path) as (files, processes):
        try:
            for process in processes:
                (cgroup / "cgroup.procs").write_text(str(process.pid))
        except OSError as error:
            pytest.skip(f"cannot move processes there: {error}")
        verify_it_stands_and_goes(build(cgroup), files)
        for process in processes:
            process.kill()
            process.wait()


def test_signals_pause_all_processes(tmp_path: Path) -> None:
    with run_ticking(tmp_path) as (files, processes):
        freezer = SignalFreezer(lambda: [process.pid for process in processes])
        assert freezer.kind == "signals"
        verify_it_stands_and_goes(freezer, files)


def test_signals_pause_a_sandbox_that_keeps_forking() -> None:
    """A process that lives for a moment and is followed by the next: a single sweep would miss it."""
    require_bubblewrap()
    with make_directory() as workspace, open_puppet(workspace) as inside:
        inside.do(
            "import threading, time\nif os.fork() == 0:\n"
            "    for index in range(10**9):\n"
            "        if os.fork():\n            os._exit(0)\n"
            "        open('/workspace/tick', 'w').write(str(index))"
        )
        tick = workspace / "tick"
        assert moves([tick])
        freezer = SignalFreezer(
            lambda: iter_sandbox_pids(inside.pid),
            broadcast=lambda number: signal_sandbox(inside.pid, number),
        )
        for _ in range(20):
            freezer.freeze()
            assert not moves([tick], seconds=0.02)
            freezer.resume()
            assert moves([tick])


@contextlib.contextmanager
def run_as_told(proc: Path) -> Iterator[tuple[int, Callable[[str, str], None]]]:
    """A process, and what gives it a state and a place in the kernel, for whoever looks below that path."""
    with subprocess.Popen(["/bin/sleep", "97"]) as process:
        thread = proc / f"{process.pid}/task/{process.pid}"
        thread.mkdir(parents=True)

        def tell(state: str, place: str) -> None:
            (thread / "wchan").write_text(place)
            (thread / "stat").write_text(f"{process.pid} (a) b) {state} 1")

        try:
            yield process.pid, tell
        finally:
            process.kill()


def test_a_write_that_waits_for_a_busy_disk_is_over_before_the_sandbox_counts_as_paused(
    tmp_path: Path,
) -> None:
    is_over = False
    with run_as_told(tmp_path) as (pid, tell):
        began = time.monotonic()

        def list_pids() -> list[int]:
            nonlocal is_over
            # Much later than what waits for another process is let off.
            if time.monotonic() - began > 0.5:
                is_over = True
                tell("T", "0")
            return [pid]

        tell("D", "folio_wait_bit_common")
        SignalFreezer(list_pids, proc=tmp_path).freeze()
    assert is_over


def test_what_waits_for_another_process_counts_as_paused(tmp_path: Path) -> None:
    with run_as_told(tmp_path) as (pid, tell):
        tell("D", "seccomp_do_user_notification")
        SignalFreezer(lambda: [pid], timeout_seconds=LESS_THAN_FOR_A_DISK, proc=tmp_path).freeze()


def test_a_parent_that_waits_in_vfork_does_not_hold_up_a_pause() -> None:
    """Its child stands, so it stays in the kernel for as long as the pause."""
    process = subprocess.Popen([sys.executable, "-c", VFORK], process_group=0)
    try:
        assert wait_until(lambda: read_state(process.pid) == "D")
        freezer = SignalFreezer(lambda: [process.pid], timeout_seconds=LESS_THAN_FOR_A_DISK)
        freezer.freeze()
        freezer.resume()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def read_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_processes_that_are_gone_do_not_matter() -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    freezer = SignalFreezer(lambda: [process.pid])
    freezer.freeze()
    freezer.resume()


def test_what_does_not_stand_in_time_is_an_error_with_a_name(tmp_path: Path) -> None:
    """Files that look like a cgroup in which something never stops."""
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    with raises_code("freeze-failed", match="frozen 1"):
        CgroupV2Freezer(tmp_path, timeout_seconds=0.05).freeze()


@pytest.mark.parametrize("build", [CgroupV1Freezer, CgroupV2Freezer])
def test_a_group_that_is_gone_is_an_error_with_a_name(
    tmp_path: Path, build: Callable[[Path], Freezer]
) -> None:
    """Another thread may have closed the sandbox."""
    freezer = build(tmp_path / "gone")
    with raises_code("freeze-failed", match="No such file"):
        freezer.freeze()
    with raises_code("freeze-failed", match="No such file"):
        freezer.resume()


@pytest.mark.parametrize(
    "error",
    [MachineError("freeze-failed", "late"), MachineError("sandbox-entry", "gone"), KeyboardInterrupt()],
)
def test_what_cannot_be_paused_goes_on(error: BaseException) -> None:
    """Whoever sends the signals may be lost after the first of them."""

    def broadcast(number: int) -> None:
        if number == signal.SIGSTOP:
            os.kill(process.pid, number)
        raise error

    with subprocess.Popen(["/bin/sleep", "97"]) as process:
        try:
            with pytest.raises(type(error)):
                freeze_or_resume(SignalFreezer(lambda: [process.pid], broadcast=broadcast))
            assert wait_until(lambda: read_state(process.pid) == "S")
        finally:
            process.kill()


def test_without_a_freezer_nothing_is_held() -> None:
    with hold_frozen(None):
        pass
