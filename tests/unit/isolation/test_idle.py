from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from repotrial.isolation._launch_server._idle import READY, build_idle_program
from repotrial.syscalls import find_machine
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
def test_it_is_one_small_static_program(machine: Literal["x86_64", "aarch64"], number: int) -> None:
    program = build_idle_program(machine)
    assert program[:4] == b"\x7fELF"
    assert int.from_bytes(program[18:20], "little") == number
    assert len(program) < 512


SOURCES = Path(__file__).resolve().parents[3] / "tools"


def assemble(machine: Literal["x86_64", "aarch64"], place: Path) -> bytes:
    """The code of a checked-in source; skips where nothing assembles for that machine."""
    source, made = SOURCES / f"idle_{machine}.S", place / "idle.o"
    # llvm-mc does not preprocess; comments are all there is to preprocess, and it knows them on aarch64.
    commands = {
        "x86_64": (["x86_64-linux-gnu-gcc", "-c"], ["gcc", "-m64", "-c"]),
        "aarch64": (["aarch64-linux-gnu-gcc", "-c"], ["llvm-mc", "--arch=aarch64", "--filetype=obj"]),
    }
    command = next((each for each in commands[machine] if shutil.which(each[0])), None)
    if command is None:
        pytest.skip(f"no assembler for {machine}: apt-get install gcc-{machine.replace('_', '-')}-linux-gnu")
    subprocess.run([*command, "-o", made, source], check=True)
    return read_code(made.read_bytes())


def read_code(data: bytes) -> bytes:
    """The one section of a 64-bit ELF file that is executable."""
    (table,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    for number in range(count):
        _, kind, flags, _, start, size = struct.unpack_from("<IIQQQQ", data, table + 64 * number)
        if kind == 1 and flags & 4 and size:
            return data[start : start + size]
    raise AssertionError("no code")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_its_bytes_are_those_of_its_source(tmp_path: Path, machine: Literal["x86_64", "aarch64"]) -> None:
    code = assemble(machine, tmp_path)
    assert len(code) > 100
    assert build_idle_program(machine)[-len(code) :] == code
    assert len(build_idle_program(machine)) - len(code) == 64 + 56  # nothing but the headers
