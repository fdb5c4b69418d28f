"""The witness: a test run that starts many programs, with every start and end of them in a trace."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from repotrial.syscalls import (
    EndRecord,
    StartRecord,
    SupervisorPolicy,
    SyscallPolicy,
    SyscallRecord,
    SyscallSupervisor,
)
from repotrial.witness._log import ProgramLog

__all__ = ["Overhead", "bench_witness"]

_PYTHON: Final = "/usr/bin/python3"
_NOBODY: Final = 65534
_GOAL: Final = 1.15

# As tests of command-line tools do: each runs a pipeline of small programs, every third one an interpreter.
_SUITE: Final = """\
import io, subprocess, sys, time, unittest

class Suite(unittest.TestCase):
    pass

def build(number):
    def test(self):
        text = "\\n".join(f"{number * i % 97} line" for i in range(200))
        command = ["/bin/sh", "-c", "/usr/bin/sort -n"]
        if number % 3 == 0:
            command = [sys.executable, "-I", "-S", "-c", "import sys; print(*sorted(sys.stdin), sep='')"]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        self.assertEqual(len(text.splitlines()), len(done.stdout.split("line")) - 1)
    return test

for number in range(int(sys.argv[1])):
    setattr(Suite, f"test_{number}", build(number))
start = time.perf_counter()
suite = unittest.defaultTestLoader.loadTestsFromTestCase(Suite)
result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
assert result.wasSuccessful()
print(time.perf_counter() - start)
"""


class Overhead(msgspec.Struct, frozen=True, kw_only=True):
    """Ours against the same without, by the clock; less is better."""

    name: str
    with_seconds: float
    """The median of rounds in which both took turns."""
    without_seconds: float
    goal: float | None
    """None where the figure is only printed: a program there lives for half a millisecond."""
    note: str

    @property
    def ratio(self) -> float:
        return self.with_seconds / self.without_seconds

    @property
    def is_met(self) -> bool:
        return self.goal is None or self.ratio <= self.goal

    def __str__(self) -> str:
        met = "no goal" if self.goal is None else f"goal at most {self.goal:g}x, {self._render_met()}"
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        return (
            f"{self.name}: {self.ratio:.3f}x ({met}); with"
            f" {self.with_seconds * 1000:.0f} ms, without {self.without_seconds * 1000:.0f} ms; {self.note};"
            f" load {load}"
        )

    def _render_met(self) -> str:
        return "met" if self.is_met else "NOT met"


class _Load(msgspec.Struct, frozen=True, kw_only=True):
    """Something that starts programs, and prints how many seconds it took."""

    name: str
    program: str
    """For Python."""
    count: int
    rounds: int
    goal: float | None = None


_TIMED: Final = """\
import subprocess, sys, time
start = time.perf_counter()
subprocess.run(COMMAND, check=True, stdout=subprocess.DEVNULL)
print(time.perf_counter() - start)
"""
_LOOP: Final = "command = ['/bin/sh', '-c', f'for i in $(seq {sys.argv[1]}); do /bin/true; done']"
_MAKE: Final = (
    "open('/tmp/Makefile', 'w').write('all: ' + ' '.join(f't{i}' for i in range(int(sys.argv[1]))) + '\\n'"
    " + ''.join(f't{i}:\\n\\t@sh -c \\'true {i}\\'\\n' for i in range(int(sys.argv[1]))))\n"
    "command = ['make', '-s', '-f', '/tmp/Makefile']"
)


def _time(prepare: str) -> str:
    head, _, tail = _TIMED.partition("start =")
    return f"{head}{prepare}\nstart ={tail}".replace("COMMAND", "command")


_LOADS: Final = (
    _Load(name="witness of a test suite", program=_SUITE, count=30, rounds=40, goal=_GOAL),
    _Load(name="witness of true in a loop", program=_time(_LOOP), count=500, rounds=9),
    _Load(name="witness of make with targets", program=_time(_MAKE), count=200, rounds=9),
)


def bench_witness(*, rounds: int | None = None) -> list[Overhead]:
    """What it costs to have every start and end in a trace; nothing without bubblewrap."""
    if shutil.which("bwrap") is None:
        return []
    loads = [load for load in _LOADS if load.program is not _LOADS[2].program or shutil.which("make")]
    return [_measure(load, rounds=rounds or load.rounds) for load in loads]


def _measure(load: _Load, *, rounds: int) -> Overhead:
    watched: list[float] = []
    plain: list[float] = []
    programs = 0
    for number in range(rounds):
        # Turn about, so that neither always comes first.
        for is_watched in (True, False) if number % 2 else (False, True):
            seconds, recorded = _run(load, SyscallPolicy() if is_watched else None)
            (watched if is_watched else plain).append(seconds)
            programs = max(programs, recorded)
    minima = min(watched) / min(plain)
    pairs = statistics.median(ours / theirs for ours, theirs in zip(watched, plain, strict=True))
    return Overhead(
        name=load.name,
        with_seconds=statistics.median(watched),
        without_seconds=statistics.median(plain),
        goal=load.goal,
        note=(
            f"{load.count} of them, {programs} starts and ends on record; {rounds} rounds;"
            f" median of pairs {pairs:.3f}x, minima {minima:.3f}x"
        ),
    )


def _run(load: _Load, policy: SyscallPolicy | None) -> tuple[float, int]:
    """Seconds that it took by its own clock, and starts and ends on record."""
    from support.filtered import start_filtered
    from support.traces import open_writer

    with tempfile.TemporaryDirectory() as folder, open_writer(Path(folder, "run")) as writer:
        Path(folder).chmod(0o755)
        Path(folder, "load.py").write_text(load.program, encoding="utf-8")
        options = [
            "--unshare-all",
            "--unshare-user",
            "--disable-userns",
            "--die-with-parent",
            "--new-session",
        ]
        options += ["--cap-drop", "ALL"]
        options += ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        options += ["--ro-bind", f"{folder}/load.py", "/tmp/load.py", "--chdir", "/tmp"]
        started = start_filtered(
            (str(shutil.which("bwrap")), *options, _PYTHON, "/tmp/load.py", str(load.count)),
            policy,
            variables={"PATH": "/usr/bin:/bin"},
            output=subprocess.PIPE,
        )
        if started.listener is None:
            output, problem = started.process.communicate()
            recorded = 0
        else:
            log = ProgramLog(writer, phase="act")
            supervisor = SyscallSupervisor(started.listener, sink=_build_sink(log), policy=SupervisorPolicy())
            log.begin(supervisor.facts)
            with supervisor:
                output, problem = started.process.communicate()
            log.close(supervisor.facts)
            recorded = supervisor.facts.started + supervisor.facts.ended
    assert started.process.returncode == 0, problem
    return float(output), recorded


def _build_sink(log: ProgramLog) -> Callable[[SyscallRecord], None]:
    def take(record: SyscallRecord) -> None:
        if isinstance(record, StartRecord):
            log.take_start(record)
        elif isinstance(record, EndRecord):
            log.take_end(record)

    return take
