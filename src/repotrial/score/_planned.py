"""The unit of every rate: one place in the plan, with one or more attempts (P5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from repotrial._core.absence import Unknown

if TYPE_CHECKING:
    from repotrial.score._judged import JudgedRun

MOST_ATTEMPTS: Final = 3
"""One, and at most two repeats."""


class PlannedOutcome(NamedTuple):
    """What became of one planned run."""

    attempts: tuple[JudgedRun, ...]
    """In the order of their start."""
    counted: JudgedRun | None
    """The first of them that is not excused; None if there is none: the planned run is indeterminate."""

    @property
    def is_final(self) -> bool:
        """Whether nothing more will be conducted for it."""
        return self.counted is not None or len(self.attempts) >= MOST_ATTEMPTS

    @property
    def is_indeterminate(self) -> bool:
        """Whether it counts 0 for want of anything that can be believed."""
        return self.counted is None or not self.counted.is_believed

    @property
    def is_success(self) -> bool:
        return not self.is_indeterminate and self.counted is not None and self.counted.is_success

    @property
    def could_be_success(self) -> bool:
        """The best case: whatever is not known to be something else."""
        return self.is_indeterminate or self.is_success


def group_attempts(runs: Iterable[JudgedRun]) -> tuple[PlannedOutcome, ...]:
    """Attempts by planned run; a directory whose specification is not known stands for itself."""
    groups: dict[str, list[JudgedRun]] = {}
    for run in runs:
        spec = run.evidence.spec
        key = str(run.directory) if isinstance(spec, Unknown) else spec.run_spec_id
        groups.setdefault(key, []).append(run)
    return tuple(_build(attempts) for attempts in groups.values())


def _build(attempts: Sequence[JudgedRun]) -> PlannedOutcome:
    ordered = tuple(sorted(attempts, key=_find_start))
    counted = next((run for run in ordered[:MOST_ATTEMPTS] if not run.cause.is_excused), None)
    return PlannedOutcome(ordered, counted)


def _find_start(run: JudgedRun) -> tuple[int, str]:
    manifest = run.evidence.manifest
    return (0 if isinstance(manifest, Unknown) else manifest.started_at_us, run.directory.name)


def find_uncounted(runs: Iterable[JudgedRun]) -> dict[Path, str]:
    """Attempts that do not count in rates, each with the reason."""
    found: dict[Path, str] = {}
    for planned in group_attempts(runs):
        for run in planned.attempts:
            if run.cause.is_excused:
                found[run.directory] = f"excused: {run.cause.cause}"
            elif run is not planned.counted:
                found[run.directory] = "another attempt counts"
    return found
