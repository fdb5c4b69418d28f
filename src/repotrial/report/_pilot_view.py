"""A pilot as its page takes it: the frozen plan, and after the end what analysis found with every run."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from repotrial.analysis import Analysis, CountedTrial, Pilot, PowerAnalysis


class FrozenVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a registration."""

    version: int
    file: str
    digest: str
    frozen_at: str
    """By the clock of the machine that froze it, in UTC."""
    reason: str
    stamp: str
    """What an outside authority says of its time; empty if there is no stamp."""


class PlanView(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided before anything was spent."""

    pilot: Pilot
    tasks: int
    power: PowerAnalysis
    power_curves: dict[int, tuple[tuple[int, float], ...]]
    """By repeats: the number of tasks, and the chance to find the smallest relevant effect."""
    costs: tuple[tuple[int, Decimal], ...]
    """Repeats, and what all runs of all arms are expected to cost."""
    versions: tuple[FrozenVersion, ...]
    """Empty if nothing was frozen yet."""
    files: dict[str, str]
    """Planning artefacts with their digests."""
    progress: tuple[str, ...] = ()
    """Of a pilot under way: how far it is, over all arms together."""


class PilotView(msgspec.Struct, frozen=True, kw_only=True):
    """A pilot after its end, or at a look that was paid for."""

    plan: PlanView
    analysis: Analysis
    trials: tuple[CountedTrial, ...]
    """Every planned one."""
