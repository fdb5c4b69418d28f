"""Entry and exit of the three stages, checked by machine: met or not, with the evidence (B12)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.errors import RepoTrialError
from repotrial.analysis import BlindedVariance, PlannedRow, RepeatsDecision
from repotrial.conduct._journal import Journal
from repotrial.conduct._people import LEDGER_FILE
from repotrial.conduct._record import PilotRecord
from repotrial.conduct._study import Study
from repotrial.cost import Amount, CostStatement, EnvelopeState, load_ledger_state
from repotrial.score import JudgedRun, judge_run, price_run

_SAFETY: Final = "safety-termination"
_LAST: Final = 3
_CENT: Final = Decimal("0.01")


class Criterion(msgspec.Struct, frozen=True, kw_only=True):
    """One condition of a stage."""

    stage: int
    when: Literal["entry", "exit"]
    name: str
    is_met: bool
    evidence: str


class StageChecked(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="criteria"):
    """Entry or exit of a stage."""

    criteria: tuple[Criterion, ...]

    @property
    def is_met(self) -> bool:
        return all(criterion.is_met for criterion in self.criteria)


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


class PilotState:
    """What is known of a frozen pilot at this moment."""

    def __init__(self, study: Study, record: PilotRecord, journal: Journal) -> None:
        self.study = study
        self.record = record
        self.journal = journal
        self._judged: dict[str, JudgedRun] = {}
        self._costs: dict[str, CostStatement] = {}

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
            self._judged[name] = judge_run(self.study.runs / name)
        return self._judged[name]

    def price(self, run: PilotRun) -> CostStatement:
        """What a run cost, from its own record."""
        directory = run.judged.directory
        if directory.name not in self._costs:
            self._costs[directory.name] = price_run(directory, self.study.book).statement
        return self._costs[directory.name]

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
        for contrast in self.study.pilot.contrasts:
            first, other = self.collect_outcomes(contrast.arm), self.collect_outcomes(contrast.against)
            variance = BlindedVariance.estimate(
                self.study.pilot, [(first[task], other[task]) for task in self.tasks]
            )
            if isinstance(variance, NotComputable):
                return variance
            found.append(variance)
        return found

    def read_envelopes(self) -> tuple[EnvelopeState, ...]:
        """What the envelopes hold at this moment."""
        path = self.study.directory / LEDGER_FILE
        return load_ledger_state(path).envelopes if path.is_file() else ()

    @property
    def spent(self) -> Decimal:
        """Of B_total."""
        return sum(
            (Decimal(item.spent) for item in self.read_envelopes() if item.name == "total"), start=Decimal(0)
        )

    def count_affordable(self) -> int:
        """Most repeats of each arm on each task that the rest of B_total allows, by what runs cost so far."""
        done = len(self.record.list_counted(self.journal))
        most = self.study.pilot.stages.most
        each = self.spent / done if done else Decimal(0)
        cells = len(self.tasks) * len(self.study.arms)
        rest = self.study.pilot.envelopes.total_usd - self.spent
        for repeats in range(most, 0, -1):
            if each * max(0, cells * repeats - done) <= rest:
                return repeats
        return 0

    def decide(self) -> RepeatsDecision:
        """What the frozen function says about stage 3."""
        spread = self.estimate_spread()
        return RepeatsDecision.decide(
            self.study.pilot,
            [] if isinstance(spread, NotComputable) else spread,
            planned_tasks=len(self.tasks),
            most_affordable=self.count_affordable(),
        )

    def measure_flakiness(self) -> tuple[int, int]:
        """Judgments that differ from what they must be or from each other, and all that were compared."""
        differing = compared = 0
        for run in self.list_runs(1, 2, 3):
            agent = self.study.arms[run.row.arm].arm.agent
            if agent in ("noop", "reference") and run.outcome is not None:
                compared += 1
                differing += run.outcome != int(agent == "reference")
            for check in run.judged.card.checks:
                if check.attempts > 1 and check.rule == "passes-required":
                    compared += 1
                    differing += 0 < check.passes < check.attempts
        return differing, compared


def check_entry(state: PilotState, stage: int) -> list[Criterion]:
    """Whether a stage may begin."""
    rules = {1: _enter_1, 2: _enter_2, 3: _enter_3}
    return [
        Criterion(stage=stage, when="entry", name=name, is_met=met, evidence=evidence)
        for name, met, evidence in rules[stage](state)
    ]


def check_exit(state: PilotState, stage: int) -> list[Criterion]:
    """Whether a stage has done what it is for."""
    rules = {1: _leave_1, 2: _leave_2, 3: _leave_3}
    return [
        Criterion(stage=stage, when="exit", name=name, is_met=met, evidence=evidence)
        for name, met, evidence in rules[stage](state)
    ]


_Line = tuple[str, bool, str]


def _enter_1(state: PilotState) -> Iterator[_Line]:
    contracts = state.study.suite.contracts
    yield (
        "checks are deterministic",
        bool(contracts),
        f"{len(contracts)} full certificates (stability, repetition)",
    )
    envelopes = state.study.pilot.envelopes
    yield (
        "caps are set",
        True,
        f"run {envelopes.run_usd}, task {envelopes.task_usd}, total {envelopes.total_usd} USD",
    )
    version = state.record.registration.version
    yield "the plan is frozen", True, f"registration {version}, signed"


def _leave_1(state: PilotState) -> Iterator[_Line]:
    yield from _check_complete(state, 1)
    runs = state.list_runs(1)
    ended = sum(run.judged.evidence.termination is not None for run in runs)
    yield "termination reasons are recorded", ended == len(runs), f"{ended} of {len(runs)} runs"
    yield _check_costs(state, runs)


def _check_complete(state: PilotState, stage: int) -> Iterator[_Line]:
    planned, due = len(state.list_planned(stage)), len(state.list_due(stage))
    yield "run records are complete", due == 0, f"{planned - due} of {planned} planned runs are in"


def _check_costs(state: PilotState, runs: Sequence[PilotRun]) -> _Line:
    """Every term has an amount, or a stated reason why there is none."""
    try:
        statements = [state.price(run) for run in runs]
    except RepoTrialError as error:
        return "the cost model can be filled from logs", False, error.message
    unpriced = Counter(
        name
        for statement in statements
        for name in ("lm", "exec", "human", "overhead")
        if not isinstance(getattr(statement, name), Amount)
    )
    words = ", ".join(f"{name} without a price in {count}" for name, count in unpriced.items())
    return "the cost model can be filled from logs", True, words or "all four terms of every run"


def _enter_2(state: PilotState) -> Iterator[_Line]:
    yield from _check_complete(state, 1)
    yield _check_breaches(state, state.list_runs(1))
    yield _check_flakiness(state)


def _check_breaches(state: PilotState, runs: Sequence[PilotRun]) -> _Line:
    breaches = sum(run.is_breach for run in runs)
    allowed = state.study.pilot.stopping.safety_breaches
    return "no critical boundary violation", breaches < allowed, f"{breaches} of {len(runs)} runs"


def _check_flakiness(state: PilotState) -> _Line:
    differing, compared = state.measure_flakiness()
    share = Decimal(differing) / compared if compared else Decimal(0)
    tolerance = state.study.pilot.flakiness_tolerance
    evidence = f"{differing} of {compared} judgments differ; tolerated {tolerance}"
    return "flakiness is within tolerance", share <= tolerance, evidence


def _leave_2(state: PilotState) -> Iterator[_Line]:
    yield from _check_complete(state, 2)
    runs = state.list_runs(1, 2)
    judged = {run.row.task for run in runs if run.outcome is not None}
    missing = [task for task in state.tasks if task not in judged]
    # Never a rate: stage 2 must not tell how the arms do.
    yield "endpoint and rubric are computable", not missing, _say_missing(missing, len(state.tasks))
    spent, total = state.spent, state.study.pilot.envelopes.total_usd
    yield "spend is within B_total", spent <= total, f"{spent.quantize(_CENT)} of {total} USD"
    yield _check_flakiness(state)


def _say_missing(missing: Sequence[str], tasks: int) -> str:
    return f"computable for {tasks} tasks" if not missing else f"not computable for {', '.join(missing[:5])}"


def _enter_3(state: PilotState) -> Iterator[_Line]:
    planned = len(state.list_planned(2))
    yield (
        "stage 2 is complete",
        not state.list_due(2),
        f"{planned - len(state.list_due(2))} of {planned} runs",
    )
    decision = state.decision or state.decide()
    yield (
        "power supports the counts under the remaining budget",
        decision.repeats is not None,
        decision.reason,
    )


def _leave_3(state: PilotState) -> Iterator[_Line]:
    due, stop = len(state.list_due(3)), state.journal.find_last("stop")
    evidence = f"{due} planned runs are left" if stop is None else stop.data.get("message", "")
    yield "the plan is complete, or a stopping rule ended it", due == 0 or stop is not None, evidence


def find_run(runs: Path, run_id: str, *, since_us: int) -> Path | None:
    """A sealed attempt at a run that began after a time; the last one."""
    found = []
    for path in sorted(runs.glob(f"{run_id}*")):
        try:
            judged = judge_run(path)
        except RepoTrialError:
            continue
        began = judged.entry.started_at_us
        if judged.evidence.seal != "absent" and began is not None and began >= since_us:
            found.append((path, judged))
    sound = [path for path, judged in found if not judged.entry.is_stopped]
    return sound[-1] if sound else None
