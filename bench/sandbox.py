"""Sandboxes: a whole one for one command, and a command in one that is open, against a plain subprocess."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.supervisor import Overhead
from repotrial.sandbox import Capabilities, CommandSpec, Level, SandboxSpec, open_sandbox
from repotrial.sandbox._identity import find_identity
from repotrial.sandbox._model import OverlayMount
from repotrial.sandbox._probe import find_engine
from repotrial.sandbox._session import Engine

__all__ = ["bench_sandbox"]

_PROGRAM: Final = "/bin/true"
_START_GOAL: Final = 25.0
_COMMAND_GOAL: Final = 5.0
_COMMAND: Final = CommandSpec(argv=(_PROGRAM,))


def bench_sandbox(rounds: int = 60) -> list[Overhead]:
    """What isolation costs in time; empty where there is no L3."""
    engine = find_engine(Level.L3)
    if not isinstance(engine, Engine):
        return []
    place = Path(tempfile.mkdtemp(prefix="repotrial-bench-")).resolve()
    place.chmod(0o755)
    try:
        spec = _make_spec(place)
        return [_bench_start(spec, engine.capabilities, rounds), _bench_command(spec, rounds * 4)]
    finally:
        _make_removable(place)
        shutil.rmtree(place)


def _bench_start(spec: SandboxSpec, capabilities: Capabilities, rounds: int) -> Overhead:
    def start_and_end() -> None:
        with open_sandbox(spec, level=Level.L3) as sandbox:
            sandbox.run(_COMMAND)

    ours, plain = _measure(start_and_end, rounds)
    return Overhead(
        name="a sandbox of level L3, one command, and its end",
        with_seconds=statistics.median(ours),
        without_seconds=statistics.median(plain),
        goal=_START_GOAL,
        note=(
            f"overlay, syscall audit by {capabilities.syscall_audit}, memory by {capabilities.memory_limit};"
            f" {_describe(ours, plain)}"
        ),
    )


def _bench_command(spec: SandboxSpec, rounds: int) -> Overhead:
    with open_sandbox(spec, level=Level.L3) as sandbox:
        ours, plain = _measure(lambda: sandbox.run(_COMMAND), rounds)
    return Overhead(
        name="a command in an open sandbox",
        with_seconds=statistics.median(ours),
        without_seconds=statistics.median(plain),
        goal=_COMMAND_GOAL,
        note=_describe(ours, plain),
    )


def _measure(ours: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of ours and of a plain subprocess, turn about."""
    times: tuple[list[float], list[float]] = ([], [])
    ours()
    for number in range(rounds):
        pair = (ours, _run_plain)
        for index in (0, 1) if number % 2 else (1, 0):
            start = time.perf_counter()
            pair[index]()
            times[index].append(time.perf_counter() - start)
    return times


def _run_plain() -> None:
    subprocess.run([_PROGRAM], check=True, stdin=subprocess.DEVNULL, capture_output=True)


def _describe(ours: list[float], plain: list[float]) -> str:
    return (
        f"medians of {len(ours)} rounds; minima {min(ours) * 1000:.1f} ms against {min(plain) * 1000:.1f} ms"
    )


def _make_spec(place: Path) -> SandboxSpec:
    owner = find_identity()
    directories = {name: place / name for name in ("lower", "upper", "work", "target")}
    for directory in directories.values():
        directory.mkdir()
        if not os.geteuid():
            os.chown(directory, owner.uid, owner.gid)
    return SandboxSpec(workspace=directories["lower"], overlay=OverlayMount(**directories))


def _make_removable(place: Path) -> None:
    """The kernel leaves a directory that nobody may enter."""
    inner = place / "work" / "work"
    if inner.exists():
        inner.chmod(0o700)
