"""Ctrl-C and a polite kill: what runs is stopped and sealed, instead of being torn down."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALED = 128  # what shells add to a signal's number


class _Interruption:
    """Whether an end was asked for, and by which signal."""

    def __init__(self) -> None:
        self.signal_number: int | None = None

    @property
    def exit_code(self) -> int | None:
        """As shells report it; None if no end was asked for."""
        return None if self.signal_number is None else _SIGNALED + self.signal_number


@contextlib.contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[_Interruption]:
    """While this lasts, the first signal calls `stop`; the second has its usual effect."""
    asked = _Interruption()

    def take(number: int, _frame: FrameType | None) -> None:
        if asked.signal_number is not None:
            raise KeyboardInterrupt
        asked.signal_number = number
        # In a thread of its own: a second signal may come while this one still waits for a lock.
        threading.Thread(target=stop, name="stop").start()

    is_main = threading.current_thread() is threading.main_thread()  # no other can take signals
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    before = {number: signal.signal(number, take) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
