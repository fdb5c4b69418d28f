from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from repotrial.isolation import find_machine
from repotrial.isolation._launch_server._idle import READY, build_idle_program
from repotrial.isolation._launch_server._syscalls import Machine
from support.waiting import PATIENCE_SECONDS, wait_until


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "idle"
    path.write_bytes(build_idle_program(find_machine()))
    path.chmod(0o755)
    return path


def start(program: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={})
    assert process.stdout is not None
    assert process.stdout.read(1) == READY
    return process


def test_it_says_once_that_it_is_there_and_ends_with_its_input(program: Path) -> None:
    with start(program) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.poll() is None
        assert process.stdout.read() == b""  # it has closed its end
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0


def test_it_keeps_nothing_open_but_its_input(program: Path) -> None:
    with start(program) as process:
        assert process.stdout is not None
        process.stdout.read()  # it says that it is there before it closes the rest
        # For others than root it cannot even be looked at.
        assert os.geteuid() != 0 or wait_until(lambda: os.listdir(f"/proc/{process.pid}/fd") == ["0"])
        process.kill()


def test_it_goes_on_after_being_stopped_and_continued(program: Path) -> None:
    with start(program) as process:
        assert process.stdin is not None
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0


def test_it_ignores_its_children(program: Path) -> None:
    with start(program) as process:
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
        )
        assert int(status["SigIgn"], 16) & (1 << (signal.SIGCHLD - 1))
        process.kill()


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 62), ("aarch64", 183)])
def test_it_is_one_small_static_program(machine: Machine, number: int) -> None:
    program = build_idle_program(machine)
    assert program[:4] == b"\x7fELF"
    assert int.from_bytes(program[18:20], "little") == number
    assert len(program) < 512
