"""What a run tells whoever watches it; nothing of it is evidence."""

from __future__ import annotations

from typing import Protocol

from repotrial._core.words import LifecyclePhase
from repotrial.trace import CheckOutcome


class RunListener(Protocol):
    """Called by the thread that conducts the run; must return at once."""

    def on_phase(self, phase: LifecyclePhase) -> None:
        """A phase began."""
        ...

    def on_check(self, check_id: str, outcome: CheckOutcome) -> None:
        """One attempt of a check on the candidate ended; what its twins say is in the outcome."""
        ...


class SilentListener:
    """Watches nothing."""

    def on_phase(self, phase: LifecyclePhase) -> None:
        """Nobody asked."""

    def on_check(self, check_id: str, outcome: CheckOutcome) -> None:
        """Nobody asked."""
