"""What the record of a pilot says at this moment: planned and conducted runs, outcomes, blinded variance."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.analysis import BlindedVariance, LoadedPlan, Pilot, PlannedRow, RepeatsDecision
from repotrial.conduct._journal import Journal
from repotrial.conduct._record import PilotRecord
from repotrial.score import JudgedRun, judge_run

_SAFETY: Final = "safety-termination"
_LAST: Final = 3


class PilotRun(msgspec.Struct, frozen=True, kw_only=True):
    """A planned run that was conducted, as it was judged."""

    row: PlannedRow
    judged: JudgedRun

    @property
    def outcome(self) -> int | None:
        """1 for a success, 0 for none; None if it is indeterminate."""
        status = self.judged.entry.status
        return None if status == "invalid" else int(status == "success")

    @property
    def is_breach(self) -> bool:
        """Whether a boundary was violated, so that the harness ended the run."""
        return any(reason.code == _SAFETY for reason in self.judged.reasons) or any(
            "safety" in tag for tag in self.judged.entry.tags
        )


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
                found.append(PilotRun(row=row, judged=self._judge(entry.directory)))
        return found

    def _judge(self, name: str) -> JudgedRun:
        if name not in self._judged:
            self._judged[name] = judge_run(self.runs / name)
        return self._judged[name]

    def list_complete(self) -> list[str]:
        """Tasks of which all planned runs of all stages are in, in every arm; in the frozen order."""
        done = self.record.list_counted(self.journal)
        planned = [row for stage in (1, 2, 3) for row in self.list_planned(stage)]
        missing = {row.task for row in planned if row.run_id not in done}
        return [] if self.decision is None else [task for task in self.tasks if task not in missing]

    def collect_outcomes(self, arm: str) -> dict[str, list[int]]:
        """Outcomes of an arm by task; indeterminate runs are left out here."""
        found: dict[str, list[int]] = {task: [] for task in self.tasks}
        for run in self.list_runs(1, 2, 3):
            if run.row.arm == arm and run.outcome is not None:
                found[run.row.task].append(run.outcome)
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
