"""Pausing everything in a sandbox at once, by the strongest means at hand.

A cgroup stops all of it in the kernel. Without one, each process gets a signal, again and again until no
sweep finds one that moves: weaker, since for a moment some run while others stand.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, Protocol

from repotrial._core.errors import MachineError

__all__ = [
    "CgroupV1Freezer",
    "CgroupV2Freezer",
    "FreezeError",
    "Freezer",
    "SignalFreezer",
    "hold_frozen",
]

_TIMEOUT_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.001
_KERNEL_SECONDS: Final = 0.05
_STOPPED: Final = frozenset("TtZXx")
"""States in which no code of the program runs: stopped or dead."""
_IN_KERNEL: Final = "D"
"""In the kernel, with the signal waiting at its door."""


class FreezeError(MachineError):
    """A sandbox could not be paused, or not be resumed, in time."""

    code = "freeze-failed"
    default_hint = "Look for processes in uninterruptible sleep; ending the sandbox always works."


class Freezer(Protocol):
    """Pauses and resumes a set of processes."""

    @property
    def kind(self) -> Literal["cgroup-v2", "cgroup-v1", "signals"]: ...
    def freeze(self) -> None:
        """Returns only once everything stands."""
        ...

    def resume(self) -> None: ...


@contextlib.contextmanager
def hold_frozen(freezer: Freezer | None) -> Iterator[None]:
    """Everything stands for as long as the block runs; without a freezer nothing changes."""
    if freezer is None:
        yield
        return
    try:
        freezer.freeze()
        yield
    finally:
        freezer.resume()


class CgroupV2Freezer:
    """By `cgroup.freeze`.

    Args:
        directory: The cgroup that holds the sandbox, and nothing else.
        timeout_seconds: How long it may take.
    """

    kind: Final = "cgroup-v2"

    def __init__(self, directory: Path, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> None:
        self._directory = directory
        self._timeout_seconds = timeout_seconds

    def freeze(self) -> None:
        self._change("1")

    def resume(self) -> None:
        self._change("0")

    def _change(self, value: str) -> None:
        (self._directory / "cgroup.freeze").write_text(value, encoding="ascii")
        events = self._directory / "cgroup.events"
        _wait_until(
            lambda: f"frozen {value}" in events.read_text(encoding="ascii").splitlines(),
            f"{events}: expected `frozen {value}`",
            self._timeout_seconds,
        )


class CgroupV1Freezer:
    """By the freezer controller.

    Args:
        directory: The cgroup in its hierarchy that holds the sandbox, and nothing else.
        timeout_seconds: How long it may take.
    """

    kind: Final = "cgroup-v1"

    def __init__(self, directory: Path, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> None:
        self._state = directory / "freezer.state"
        self._timeout_seconds = timeout_seconds

    def freeze(self) -> None:
        self._change("FROZEN")

    def resume(self) -> None:
        self._change("THAWED")

    def _change(self, state: str) -> None:
        self._state.write_text(state, encoding="ascii")
        _wait_until(
            lambda: self._state.read_text(encoding="ascii").strip() == state,
            f"{self._state}: expected {state}",
            self._timeout_seconds,
        )


class SignalFreezer:
    """By SIGSTOP to each process, until nothing moves and nothing new appears.

    Args:
        list_pids: The processes of the moment, by the host's count.
        broadcast: Signals all of them at one instant (`signal_sandbox`). Without it, processes that live for
            less than a sweep and make the next one before they end can stay ahead of the signals.
        timeout_seconds: How long it may take.
    """

    kind: Final = "signals"

    def __init__(
        self,
        list_pids: Callable[[], Iterable[int]],
        *,
        broadcast: Callable[[int], None] | None = None,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> None:
        self._list_pids = list_pids
        self._broadcast = broadcast
        self._timeout_seconds = timeout_seconds

    def freeze(self) -> None:
        if self._broadcast is not None:
            self._broadcast(signal.SIGSTOP)
        # What waits in the kernel mostly leaves at once, and stops then; only a parent in `vfork` stays.
        patience = time.monotonic() + _KERNEL_SECONDS

        def is_quiet() -> bool:
            standing = _STOPPED if time.monotonic() < patience else _STOPPED | {_IN_KERNEL}
            # Twice: a process that was being made during the first sweep is there in the second.
            return self._sweep(standing) and self._sweep(standing)

        _wait_until(is_quiet, "expected every process to stand", self._timeout_seconds)

    def resume(self) -> None:
        if self._broadcast is not None:
            self._broadcast(signal.SIGCONT)
        for pid in self._list_pids():
            _signal(pid, signal.SIGCONT)

    def _sweep(self, standing: frozenset[str]) -> bool:
        """Stop whatever has not stopped; whether nothing moved."""
        states = {pid: _read_states(pid) for pid in self._list_pids()}
        for pid, found in states.items():
            if not found <= _STOPPED:
                _signal(pid, signal.SIGSTOP)
        is_quiet = all(found <= standing for found in states.values())
        if not is_quiet and self._broadcast is not None:
            self._broadcast(signal.SIGSTOP)
        return is_quiet


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _read_states(pid: int) -> set[str]:
    """Of all threads: a leader that has ended says nothing about the others."""
    try:
        threads = [entry.name for entry in os.scandir(f"/proc/{pid}/task")]
    except OSError:
        return set()
    return {_read_state(pid, thread) for thread in threads}


def _read_state(pid: int, thread: str) -> str:
    try:
        text = Path(f"/proc/{pid}/task/{thread}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "X"
    # The name before it is the program's own choice, parentheses and all.
    return text.rpartition(")")[2].split()[0]


def _wait_until(is_done: Callable[[], bool], expectation: str, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not is_done():
        if time.monotonic() > deadline:
            raise FreezeError(f"{expectation} within {timeout_seconds:g} s")
        time.sleep(_PAUSE_SECONDS)
