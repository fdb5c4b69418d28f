"""A decision of a breaker: what was seen, against which limit, and what is to be done."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.words import AlertSeverity, LifecyclePhase, TerminationCategory, TerminationNature
from repotrial.trace import MonitorAlert, Signal

BREAKERS: Final = "breakers"
"""The monitor whose alerts these are."""

ActionKind: TypeAlias = Literal["pause", "suspend-writes", "roll-back", "quarantine", "throttle", "terminate"]
"""As the trace's interventions are called."""


class BreakerEnding(msgspec.Struct, frozen=True, kw_only=True):
    """How the termination reads that a decision asks for."""

    code: str
    """Stable kebab-case reason."""
    nature: TerminationNature
    """Safety or resource."""
    category: TerminationCategory = "circuit-breaker"
    """Who ends it."""
    rationale: str
    """The reason in a sentence."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a breaker decides at an event."""

    rule: str
    """Which rule."""
    severity: AlertSeverity
    """How grave it is."""
    signals: tuple[Signal, ...]
    """The values against their thresholds."""
    evidence: tuple[Count, ...]
    """The events that it rests on; at most 20."""
    at: Count
    """The event at which it was decided."""
    phase: LifecyclePhase = "act"
    """The phase of the run."""
    alert: Count | None = None
    """An alert of another monitor that asks for it; null: the decision is an alert of its own."""
    action: ActionKind | None = None
    """What is to be done; null: nothing more than the alert."""
    wait_us: Count | None = None
    """How long the agent has to wait."""
    restore: Count | None = None
    """The workspace goes back to how it was after this event; null: to how the agent found it."""
    ending: BreakerEnding | None = None
    """How the run ends, where it does."""

    def build_alert(self) -> MonitorAlert:
        """The event that puts the decision on record."""
        return MonitorAlert(
            monitor=BREAKERS,
            rule=self.rule,
            severity=self.severity,
            phase=self.phase,
            signals=self.signals,
            evidence=self.evidence,
        )
