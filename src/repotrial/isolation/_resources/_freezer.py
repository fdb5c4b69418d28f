"""Pausing everything in a sandbox at once, by the strongest means at hand.

A cgroup stops all of it in the kernel. Without one, each process gets a signal, again and again until no
sweep finds one that moves: weaker, since for a moment some run while others stand.
"""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, Protocol

from repotrial._core.errors import ErrorCode, MachineError, RepoTrialError
from repotrial._core.files import describe_refusal

_TIMEOUT_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.001
_IN_KERNEL: Final = "D"
_STOPPED: Final = frozenset("TtZXx")
_HOLDERS: Final = ("clone", "fork", "seccomp")
"""Parts of the kernel's functions in which a thread waits for another process: `vfork`, a held call."""
_UNTOLD: Final = frozenset({"", "0"})
_PROC: Final = Path("/proc")


class _Standing(enum.IntEnum):
    """How firmly a thread stands."""

    MOVING = 0
    BUSY = 1
    """In the kernel, the signal at its door; the call that is under way may still change a file."""
    UNTOLD = 2
    """The same, where the kernel does not say what for."""
    HELD = 3
    """The same, but it waits for another process, and for as long as that one stands."""
    STOPPED = 4
    """Stopped or dead: no code of the program runs."""


_PATIENCE: Final = {
    _Standing.STOPPED: 0.0,
    _Standing.HELD: 0.05,
    _Standing.UNTOLD: 5.0,
    _Standing.BUSY: 20.0,
}
"""From which second on each will do: what waits in the kernel mostly leaves soon, but a disk may be busy."""


FREEZE_FAILED = ErrorCode(
    "freeze-failed",
    MachineError,
    "A sandbox could not be paused, or not be resumed, in time.",
    hint="Look for processes in uninterruptible sleep; ending the sandbox always works.",
)


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


def freeze_or_resume(freezer: Freezer) -> None:
    """Everything stands, or all of it goes on.

    Raises:
        FREEZE_FAILED: It goes on.
    """
    try:
        freezer.freeze()
    except BaseException:  # an interrupt, or the process that sends the signals is lost
        with contextlib.suppress(RepoTrialError, OSError):
            freezer.resume()
        raise


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
        events = self._directory / "cgroup.events"
        with _refusals_named(self._directory):
            (self._directory / "cgroup.freeze").write_text(value, encoding="ascii")
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
        with _refusals_named(self._state):
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
        proc: Where the kernel tells of processes.
    """

    kind: Final = "signals"

    def __init__(
        self,
        list_pids: Callable[[], Iterable[int]],
        *,
        broadcast: Callable[[int], None] | None = None,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        proc: Path = _PROC,
    ) -> None:
        self._list_pids = list_pids
        self._broadcast = broadcast
        self._timeout_seconds = timeout_seconds
        self._proc = proc

    def freeze(self) -> None:
        if self._broadcast is not None:
            self._broadcast(signal.SIGSTOP)
        began = time.monotonic()

        def is_quiet() -> bool:
            needed = _choose_standing(time.monotonic() - began)
            # Twice: a process that was being made during the first sweep is there in the second.
            return self._sweep(needed) and self._sweep(needed)

        _wait_until(is_quiet, "expected every process to stand", self._timeout_seconds)

    def resume(self) -> None:
        try:
            if self._broadcast is not None:
                self._broadcast(signal.SIGCONT)
        finally:
            for pid in self._list_pids():
                _signal(pid, signal.SIGCONT)

    def _sweep(self, needed: _Standing) -> bool:
        """Stop whatever has not stopped; whether everything stands as firmly as needed."""
        found = {pid: _read_standing(self._proc / str(pid)) for pid in self._list_pids()}
        for pid, standing in found.items():
            if standing is not _Standing.STOPPED:
                _signal(pid, signal.SIGSTOP)
        is_quiet = all(standing >= needed for standing in found.values())
        if not is_quiet and self._broadcast is not None:
            self._broadcast(signal.SIGSTOP)
        return is_quiet


@contextlib.contextmanager
def _refusals_named(place: Path) -> Iterator[None]:
    """Another thread may be closing the sandbox, and its group is gone."""
    try:
        yield
    except OSError as error:
        raise FREEZE_FAILED.error(f"{place}: expected a group, found: {describe_refusal(error)}") from error


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _choose_standing(elapsed_seconds: float) -> _Standing:
    return min(standing for standing, seconds in _PATIENCE.items() if elapsed_seconds >= seconds)


def _read_standing(process: Path) -> _Standing:
    """Of all threads: a leader that has ended says nothing about the others."""
    try:
        threads = [entry.path for entry in os.scandir(process / "task")]
    except OSError:
        return _Standing.STOPPED
    return min((_read_thread(Path(thread)) for thread in threads), default=_Standing.STOPPED)


def _read_thread(directory: Path) -> _Standing:
    try:
        text = (directory / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _Standing.STOPPED
    # The name before it is the program's own choice, parentheses and all.
    state = text.rpartition(")")[2].split()[0]
    if state == _IN_KERNEL:
        return _read_wait(directory)
    return _Standing.STOPPED if state in _STOPPED else _Standing.MOVING


def _read_wait(directory: Path) -> _Standing:
    try:
        place = (directory / "wchan").read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        place = ""
    if place in _UNTOLD:
        return _Standing.UNTOLD
    return _Standing.HELD if any(part in place for part in _HOLDERS) else _Standing.BUSY


def _wait_until(is_done: Callable[[], bool], expectation: str, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not is_done():
        if time.monotonic() > deadline:
            raise FREEZE_FAILED.error(f"{expectation} within {timeout_seconds:g} s")
        time.sleep(_PAUSE_SECONDS)
