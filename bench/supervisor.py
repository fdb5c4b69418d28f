"""The syscall supervisor: a test run that starts many programs, with every one of them on record."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from repotrial.isolation import ExecRecord, SyscallRecord
from repotrial.isolation._calls._seccomp import SyscallPolicy
from repotrial.isolation._calls._supervisor import SupervisorPolicy, SyscallSupervisor

__all__ = ["Overhead", "bench_exec_audit"]

_PYTHON: Final = "/usr/bin/python3"
_NOBODY: Final = 65534
_GOAL: Final = 1.10

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
    goal: float
    note: str

    @property
    def ratio(self) -> float:
        return self.with_seconds / self.without_seconds

    @property
    def is_met(self) -> bool:
        return self.ratio <= self.goal

    def __str__(self) -> str:
        met = "met" if self.is_met else "NOT met"
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        return (
            f"{self.name}: {self.ratio:.3f}x (goal at most {self.goal:g}x, {met}); with"
            f" {self.with_seconds * 1000:.0f} ms, without {self.without_seconds * 1000:.0f} ms; {self.note};"
            f" load {load}"
        )


def bench_exec_audit(tests: int = 30, *, rounds: int = 40) -> Overhead | None:
    """What it costs to record every program that a test run starts; None without bubblewrap."""
    if shutil.which("bwrap") is None:
        return None
    watched: list[float] = []
    plain: list[float] = []
    programs = 0
    for number in range(rounds):
        # Turn about, so that neither always comes first.
        for is_watched in (True, False) if number % 2 else (False, True):
            seconds, recorded = _run_suite(tests, SyscallPolicy() if is_watched else None)
            (watched if is_watched else plain).append(seconds)
            programs = max(programs, recorded)
    minima = min(watched) / min(plain)
    pairs = statistics.median(ours / theirs for ours, theirs in zip(watched, plain, strict=True))
    return Overhead(
        name="record of every exec",
        with_seconds=statistics.median(watched),
        without_seconds=statistics.median(plain),
        goal=_GOAL,
        note=(
            f"{tests} tests, {programs} programs on record; {rounds} rounds;"
            f" median of pairs {pairs:.3f}x, minima {minima:.3f}x"
        ),
    )


def _run_suite(tests: int, policy: SyscallPolicy | None) -> tuple[float, int]:
    """Seconds that the suite took by its own clock, and programs on record."""
    from support.filtered import start_filtered

    records: list[SyscallRecord] = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        suite = Path(folder, "suite.py")
        suite.write_text(_SUITE, encoding="utf-8")
        options = [
            "--unshare-all",
            "--unshare-user",
            "--disable-userns",
            "--die-with-parent",
            "--new-session",
        ]
        options += ["--cap-drop", "ALL"]
        options += ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        options += ["--ro-bind", folder, "/tmp/suite", "--chdir", "/tmp"]
        started = start_filtered(
            (str(shutil.which("bwrap")), *options, _PYTHON, "/tmp/suite/suite.py", str(tests)),
            policy,
            variables={"PATH": "/usr/bin:/bin"},
            output=subprocess.PIPE,
        )
        if started.listener is None:
            output, problem = started.process.communicate()
        else:
            with SyscallSupervisor(started.listener, sink=records.append, policy=SupervisorPolicy()):
                output, problem = started.process.communicate()
    assert started.process.returncode == 0, problem
    return float(output), sum(isinstance(record, ExecRecord) for record in records)
