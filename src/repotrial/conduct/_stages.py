"""Entry and exit of the three stages, checked by machine: met or not, with the evidence (B12)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final, Literal

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.errors import RepoTrialError
from repotrial.analysis import RepeatsDecision
from repotrial.conduct._journal import Journal
from repotrial.conduct._people import LEDGER_FILE
from repotrial.conduct._record import PilotRecord
from repotrial.conduct._state import PilotRun, RecordedState
from repotrial.conduct._study import Study
from repotrial.cost import Amount, CostStatement, EnvelopeState, load_ledger_state
from repotrial.score import price_run

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


class PilotState(RecordedState):
    """What is known of a frozen pilot at this moment, on a machine that has its contracts and agents."""

    def __init__(self, study: Study, record: PilotRecord, journal: Journal) -> None:
        super().__init__(study.pilot, study.directory, record, journal)
        self.study = study
        self._costs: dict[str, CostStatement] = {}

    def price(self, run: PilotRun) -> CostStatement:
        """What a run cost, from its own record."""
        directory = run.judged.directory
        if directory.name not in self._costs:
            self._costs[directory.name] = price_run(directory, self.study.book).statement
        return self._costs[directory.name]

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
            if agent in ("noop", "reference") and not run.is_excused:
                compared += 1
                differing += run.judged.is_success != (agent == "reference")
            own, other = run.compare_judgments()
            differing, compared = differing + own, compared + other
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
