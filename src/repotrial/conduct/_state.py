"""What the record of a pilot says at this moment: planned and conducted runs, outcomes, blinded variance."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.analysis import (
    Adjudicated,
    AdjudicationEnd,
    BlindedVariance,
    LoadedPlan,
    Pilot,
    PlannedRow,
    RepeatsDecision,
    adjudicate,
    is_adjudicated,
)
from repotrial.conduct._journal import Journal, JournalEntry
from repotrial.conduct._record import PilotRecord
from repotrial.score import JudgedRun, judge_run

_BREACHES: Final = frozenset({"safety-termination", "security-boundary-violation"})
_LAST: Final = 3


class PilotRun(msgspec.Struct, frozen=True, kw_only=True):
    """A planned run that was conducted, as it was judged."""

    row: PlannedRow
    judged: JudgedRun
    is_excused: bool = False
    """Whether even the last attempt allowed is excused: the planned run is indeterminate (P5)."""
    again: tuple[JudgedRun, ...] = ()
    """Its change judged again."""
    adjudicated: Adjudicated | None = None
    """What all judgments come to; None where its contract is not listed as flaky (B11)."""

    @property
    def outcome(self) -> int | None:
        """1 for a success, 0 for none; None if it is indeterminate."""
        if self.is_excused:
            return None
        if self.adjudicated is None:
            return int(self.judged.is_success)
        words = self.adjudicated.outcome
        return int(words == "success") if words in ("success", "failure") else None

    @property
    def is_in(self) -> bool:
        """Whether nothing more will be conducted or judged for it."""
        return self.adjudicated is None or self.adjudicated.outcome is not None

    def compare_judgments(self) -> tuple[int, int]:
        """Judgments of the same change that differ, and all that were compared (Q4)."""
        repeated = [
            check
            for check in self.judged.card.checks
            if check.attempts > 1 and check.rule == "passes-required"
        ]
        again = [run.is_success for run in self.again if not run.cause.is_excused]
        differing = sum(0 < check.passes < check.attempts for check in repeated)
        differing += sum(one != self.judged.is_success for one in again)
        return differing, len(repeated) + len(again)

    @property
    def is_breach(self) -> bool:
        """Whether a boundary was violated: by what was tried, or so that the harness ended the run."""
        return not _BREACHES.isdisjoint(
            {*self.judged.entry.tags, *(reason.code for reason in self.judged.reasons)}
        )


def find_end(reason: str | None) -> AdjudicationEnd | None:
    """What the journal says did not allow another judgment."""
    return None if reason is None else msgspec.convert(reason, AdjudicationEnd)


class RecordedState:
    """A frozen pilot from its documents, journal and runs alone, without contracts and agents."""

    def __init__(self, pilot: Pilot, directory: Path, record: PilotRecord, journal: Journal) -> None:
        self.pilot = pilot
        self.runs = directory / LoadedPlan.RUNS
        self.record = record
        self.journal = journal
        self._judged: dict[str, JudgedRun] = {}

    @cached_property
    def rows(self) -> tuple[PlannedRow, ...]:
        """Planned runs of all tasks that were not removed."""
        removed = self.record.registration.removed_tasks
        return tuple(row for row in self.record.loaded.rows if row.task not in removed)

    @property
    def tasks(self) -> list[str]:
        """In the frozen random order."""
        removed = self.record.registration.removed_tasks
        return [task.id for task in self.record.loaded.plan.tasks if task.id not in removed]

    @property
    def decision(self) -> RepeatsDecision | None:
        """The logged choice of repeats; None before the end of stage 2."""
        entry = self.journal.find_last("adaptation")
        return None if entry is None else msgspec.json.decode(entry.data["decision"], type=RepeatsDecision)

    def list_due(self, stage: int) -> list[PlannedRow]:
        """Runs of a stage that are still to be conducted, in the order of the plan."""
        done = self.record.list_counted(self.journal)
        return [row for row in self.list_planned(stage) if row.run_id not in done]

    def list_conducted(self, stage: int) -> list[PlannedRow]:
        """Runs of a stage that are in or wait for judgments, in the order of the plan."""
        done = self.record.list_counted(self.journal)
        return [row for row in self.list_planned(stage) if row.run_id in done]

    def list_planned(self, stage: int) -> list[PlannedRow]:
        """All runs of a stage; in stage 3 up to the number of repeats that was decided."""
        decision = self.decision
        most = 0 if decision is None or decision.repeats is None else decision.repeats
        return [row for row in self.rows if row.stage == stage and (stage < _LAST or row.replicate < most)]

    def list_runs(self, *stages: int) -> list[PilotRun]:
        """Conducted runs of some stages."""
        done = self.record.list_counted(self.journal)
        found = []
        for row in self.rows:
            entry = done.get(row.run_id)
            if entry is not None and entry.directory is not None and row.stage in stages:
                found.append(self._build(row, entry))
        return found

    def _build(self, row: PlannedRow, entry: JournalEntry) -> PilotRun:
        judged, again = self._judge(str(entry.directory)), tuple[JudgedRun, ...]()
        is_excused, adjudicated, rule = "indeterminate" in entry.data, None, self.pilot.adjudication
        if not is_excused and is_adjudicated(rule, row.task, judged):
            entries = self.journal.judged_again.get(row.run_id, [])
            again = tuple(self._judge(str(one.directory)) for one in entries)
            end = self.journal.adjudication_ends.get(row.run_id)
            adjudicated = adjudicate(rule, judged, again, find_end(end))
        return PilotRun(row=row, judged=judged, is_excused=is_excused, again=again, adjudicated=adjudicated)

    def _judge(self, name: str) -> JudgedRun:
        if name not in self._judged:
            self._judged[name] = judge_run(self.runs / name)
        return self._judged[name]

    def list_complete(self) -> list[str]:
        """Tasks of which all planned runs of all stages are in, in every arm; in the frozen order."""
        done = self.record.list_counted(self.journal)
        planned = [row for stage in (1, 2, 3) for row in self.list_planned(stage)]
        missing = {row.task for row in planned if row.run_id not in done}
        if self.pilot.adjudication.contracts:
            missing |= {run.row.task for run in self.list_runs(1, 2, 3) if not run.is_in}
        return [] if self.decision is None else [task for task in self.tasks if task not in missing]

    def collect_outcomes(self, arm: str) -> dict[str, list[int]]:
        """Outcomes of an arm by task; an indeterminate run counts 0, as in the primary rate."""
        found: dict[str, list[int]] = {task: [] for task in self.tasks}
        for run in self.list_runs(1, 2, 3):
            if run.row.arm == arm:
                found[run.row.task].append(run.outcome or 0)
        return found

    def estimate_spread(self) -> list[BlindedVariance] | NotComputable:
        """The blinded variance of every contrast."""
        found = []
        for contrast in self.pilot.contrasts:
            first, other = self.collect_outcomes(contrast.arm), self.collect_outcomes(contrast.against)
            variance = BlindedVariance.estimate(
                self.pilot, [(first[task], other[task]) for task in self.tasks]
            )
            if isinstance(variance, NotComputable):
                return variance
            found.append(variance)
        return found
