"""Why acting is to end before the agent is done: decided once, carried out after a time of grace (P12)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Literal

import msgspec

from repotrial._core.errors import RepoTrialError
from repotrial._core.words import TerminationCategory


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """A decision to end a run."""

    category: TerminationCategory
    nature: Literal["safety", "resource", "none"]
    code: str
    """Stable kebab-case reason."""
    rationale: str
    evidence: tuple[int, ...] = ()
    """The events that it rests on."""


class EndingSwitch:
    """The first decision counts. Whoever asks is told; after the grace time the sandbox is ended."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._is_closed = False
        self.ending: Ending | None = None

    def decide(self, ending: Ending, *, grace_seconds: float) -> bool:
        """End the run; false where that was decided before."""
        with self._lock:
            if self.ending is not None or self._is_closed:
                return False
            self.ending = ending
            timer = threading.Timer(grace_seconds, self._carry_out)
            timer.daemon = True
            try:
                timer.start()
            except RuntimeError:  # no thread is to be had: without grace rather than not at all
                timer.cancel()
            else:
                self._timer = timer
        if self._timer is None:
            self._carry_out()
        return True

    def _carry_out(self) -> None:
        # Whoever uses the sandbox closes it, too, and then learns what is wrong with it.
        with contextlib.suppress(RepoTrialError):
            self._end()

    def close(self) -> None:
        """The agent is done: nothing is left to end."""
        with self._lock:
            self._is_closed = True
            timer = self._timer
        if timer is not None:
            timer.cancel()
            timer.join()
