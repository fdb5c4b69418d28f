"""Ending the preparation of an environment from outside: its installers and the sandbox of Setup.

Preparing one is deep work in many places, so what may end it is not handed through all of them: it holds for
whatever the thread does while `interruptible` lasts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from repotrial._core.errors import ErrorCode, UsageError

PREPARATION_STOPPED = ErrorCode(
    "preparation-stopped",
    UsageError,
    "The operator stopped the preparation of an environment.",
    hint="start it again: nothing half-made is kept",
)


class Interrupt:
    """One switch for everything that is being prepared under it; safe from every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: list[Callable[[], None]] = []
        self._is_thrown = False

    def throw(self) -> None:
        """End what is being done, and whatever begins from now on. Twice is once."""
        with self._lock:
            self._is_thrown = True
            ends = tuple(self._ends)
        for end in ends:
            end()

    @contextmanager
    def watch(self, end: Callable[[], None]) -> Iterator[None]:
        """While this lasts, throwing the switch calls `end`.

        Raises:
            PREPARATION_STOPPED: it was thrown; whatever was done meanwhile means nothing.
        """
        with self._lock:
            self._ends.append(end)
        try:
            self._verify()
            yield
        except Exception:
            self._verify()  # what was ended under somebody's hands is no fault of theirs
            raise
        finally:
            with self._lock:
                self._ends.remove(end)
        self._verify()

    def _verify(self) -> None:
        if self._is_thrown:
            raise PREPARATION_STOPPED.error("stopped by the operator")


_CURRENT: ContextVar[Interrupt | None] = ContextVar("interrupt", default=None)


@contextmanager
def interruptible(interrupt: Interrupt) -> Iterator[None]:
    """What this thread prepares while this lasts can be ended."""
    token = _CURRENT.set(interrupt)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def watch_interrupt(end: Callable[[], None]) -> Iterator[None]:
    """While this lasts, `end` is what ends it, if anything may.

    Raises:
        PREPARATION_STOPPED: it was ended.
    """
    interrupt = _CURRENT.get()
    if interrupt is None:
        yield
        return
    with interrupt.watch(end):
        yield
