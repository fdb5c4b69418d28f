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
from repotrial._core.words import Level
from repotrial.isolation import (
    Capabilities,
    CommandSpec,
    OverlayMount,
    SandboxSpec,
    find_identity,
    open_sandbox,
)
from repotrial.isolation._launch_server._idle import build_idle_program
from repotrial.isolation._levels._back_ends.bubblewrap import find_engine
from repotrial.isolation._levels._bubblewrap import Engine
from repotrial.syscalls import find_machine

__all__ = ["bench_sandbox"]

_PROGRAM: Final = "/bin/true"
_START_GOAL: Final = 25.0
_COMMAND_GOAL: Final = 5.0
_PODMAN_GOAL: Final = 0.2
"""At least five times as fast."""
_ULIMITS: Final = ("--ulimit", "nofile=1024:4096", "--ulimit", "nproc=4096:4096")
_PODMAN_OPTIONS: Final = ((), _ULIMITS, (*_ULIMITS, "--runtime", "/usr/sbin/runc"))
"""As it is; where root may not raise limits; and where the usual runtime does not like the control groups."""
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
        return [
            _bench_start(spec, engine.capabilities, rounds),
            _bench_command(spec, rounds * 4),
            *_bench_podman(spec, place),
        ]
    finally:
        _make_removable(place)
        shutil.rmtree(place)


def _bench_start(spec: SandboxSpec, capabilities: Capabilities, rounds: int) -> Overhead:
    ours, plain = _measure(lambda: _start_and_end(spec), rounds)
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


def _bench_podman(spec: SandboxSpec, place: Path, rounds: int = 15) -> list[Overhead]:
    """Ours against a container for one command; empty, with a line that says why, where there is none."""
    podman = shutil.which("podman")
    if podman is None:
        print("against podman run: not measured, podman is not installed", flush=True)
        return []
    root = place / "rootfs"
    (root / "bin").mkdir(parents=True)
    program = root / "bin" / "program"
    # Ends with its input, which is empty: the smallest program there is.
    program.write_bytes(build_idle_program(find_machine()))
    program.chmod(0o755)
    found = _find_podman_command([podman, "run", "--rm", "--network", "none"], root)
    if isinstance(found, str):
        print(f"against podman run: not measured, it does not start here ({found})", flush=True)
        return []
    command = found

    def run_container() -> None:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)

    ours, theirs = _measure(lambda: _start_and_end(spec), rounds, against=run_container)
    return [
        Overhead(
            name="a sandbox of level L3, one command, and its end, against podman run",
            with_seconds=statistics.median(ours),
            without_seconds=statistics.median(theirs),
            goal=_PODMAN_GOAL,
            note=f"`{' '.join(['podman', *command[1:-3]])}`; {_describe(ours, theirs)}",
        )
    ]


def _find_podman_command(head: list[str], root: Path) -> list[str] | str:
    """The first that works here; or what the last one said."""
    said = ""
    for options in _PODMAN_OPTIONS:
        command = [*head, *options, "--rootfs", str(root), "/bin/program"]
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode == 0:
            return command
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return said


def _start_and_end(spec: SandboxSpec) -> None:
    with open_sandbox(spec, level=Level.L3) as sandbox:
        sandbox.run(_COMMAND)


def _measure(
    ours: Callable[[], object], rounds: int, *, against: Callable[[], None] | None = None
) -> tuple[list[float], list[float]]:
    """Seconds of ours and of a plain subprocess, or something else, turn about."""
    times: tuple[list[float], list[float]] = ([], [])
    ours()
    for number in range(rounds):
        pair = (ours, against or _run_plain)
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
