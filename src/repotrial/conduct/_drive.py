"""`pilot run`: follows the frozen plan through the fleet; resumable after any crash (B12, B13)."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from repotrial._core.canonical import decimal_text
from repotrial.analysis import PlannedRow
from repotrial.conduct._adjudicate import Adjudicator, Judgment
from repotrial.conduct._freeze import load_registrations
from repotrial.conduct._intake import Intake
from repotrial.conduct._journal import Journal
from repotrial.conduct._looks import find_look, find_refuted, write_look
from repotrial.conduct._people import LEDGER_FILE, PeopleLedger, build_limits, build_usd
from repotrial.conduct._record import PILOT_NOT_FROZEN, load_record, verify_key
from repotrial.conduct._stages import (
    PilotState,
    StageChecked,
    check_entry,
    check_exit,
)
from repotrial.conduct._study import Study
from repotrial.cost import Exhausted, Ledger, LedgerHold
from repotrial.environment import InstallationSettings
from repotrial.fleet import FleetEvent, FleetPlan, RunRepeated, RunSkipped, conduct_fleet
from repotrial.run import AttemptIndex, PlannedRun, RunEnded, RunSettings, price_acceptance

_LAST: Final = 3
_BUDGET: Final = "budget: an envelope does not allow the next run; runs never started are in no rate"
_SHARED: Final = "shared-envelope"
_PROBE: Final = "next"
"""What the ledger calls a hold that only asks whether there is room."""


class PilotNotice(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="notice"):
    """Something that a person should read."""

    kind: str
    """adaptation, adjudication, stop, look or end."""
    message: str


PilotEvent: TypeAlias = FleetEvent | StageChecked | PilotNotice


@dataclass(frozen=True, kw_only=True)
class ConductSettings:
    """How a pilot is conducted on this machine."""

    run: RunSettings
    installation: InstallationSettings
    jobs: int = 1
    until: int = _LAST
    """The last stage to conduct."""

    def conduct(self, study: Study) -> Generator[PilotEvent, None, None]:
        """Conduct what the plan has next; what was conducted is never conducted again.

        Raises:
            PILOT_NOT_FROZEN: there is no registration.
            PILOT_BROKEN: the pilot is not as it was frozen.
            PILOT_UNDER_WAY: another command conducts it.
            KEY_NOT_REGISTERED: this machine may not.
        """
        registrations = load_registrations(study.directory)
        if not registrations:
            raise PILOT_NOT_FROZEN.error(f"{study.directory}: expected a registration, found none")
        last = registrations[-1].signed.predicate
        verify_key(last, self.run.key)
        study.runs.mkdir(exist_ok=True)
        with closing(Journal(study.directory, registration=last.version, key=self.run.key)) as journal:
            record = load_record(study, journal)
            record.verify()
            state = PilotState(study, record, journal)
            with Ledger(study.directory / LEDGER_FILE) as ledger:
                ledger.conclude_dead()
                driver = _Driver(state, self, ledger)
                driver.book_authors()
                driver.intake.adopt(state.rows, study.runs)
                yield from driver.drive()


class _Driver:
    def __init__(self, state: PilotState, settings: ConductSettings, ledger: Ledger) -> None:
        self._state = state
        self._settings = settings
        self._ledger = ledger
        self._limits = build_limits(state.study.pilot)
        self._adjudicator = Adjudicator(state)
        self._is_ended = False
        self.intake = Intake(state.journal, state.study.book, since=state.record.first_counted)

    def drive(self) -> Generator[PilotEvent, None, None]:
        for stage in range(1, self._settings.until + 1):
            if (stop := self._find_stop()) is not None:
                yield self._stop(stop)
                return
            if stage == _LAST:
                yield from self._adapt()
            entry = self._check(stage, "entry")
            yield entry
            if not entry.is_met:
                yield self._end(stage)
                return
            yield from self._conduct_stage(stage)
            if self._settings.run.stopper.is_stopped or (self._is_ended and stage < _LAST):
                return
            leaving = self._check(stage, "exit")
            yield leaving
            if not leaving.is_met:
                return
        yield PilotNotice(kind="end", message=f"stage {self._settings.until} is done")

    def _end(self, stage: int) -> PilotNotice:
        if stage == _LAST:
            message = "stage 3 is refused: stages 1 and 2 are the plan, with one analysis at the full level"
        else:
            message = f"stage {stage} may not begin: see what is not met"
        return PilotNotice(kind="end", message=message)

    def _check(self, stage: int, when: str) -> StageChecked:
        found = check_entry(self._state, stage) if when == "entry" else check_exit(self._state, stage)
        data = {criterion.name: "met" if criterion.is_met else "not met" for criterion in found}
        last = self._state.journal.find_last("criteria")
        words = {"stage": str(stage), "when": when, **data}
        if last is None or last.data != words:
            self._state.journal.append("criteria", data=words)
        return StageChecked(criteria=tuple(found))

    def _adapt(self) -> Iterator[PilotNotice]:
        """K of stage 3, once and for all, by the frozen function (a planned adaptation)."""
        state = self._state
        if state.decision is None and not state.list_due(2):
            decision = state.decide()
            text = msgspec.json.encode(decision).decode()
            rule_off = ""
            if state.study.pilot.stopping.contrast is not None:
                rule_off = "; ".join(f"{name}: {why}" for name, why in find_refuted(state).items())
            data = {"decision": text, "function": decision.function, "rule_off": rule_off}
            state.journal.append("adaptation", data=data)
            yield PilotNotice(kind="adaptation", message=f"{decision.function}: {decision.reason}")
            if rule_off:
                message = f"the efficacy rule is off: stage 2 refutes what it rests on: {rule_off}"
                yield PilotNotice(kind="look", message=message)

    def _conduct_stage(self, stage: int) -> Generator[PilotEvent, None, None]:
        yield from self._adjudicate(self._state.list_conducted(stage))
        if stage == _LAST:
            yield from self._look()
        for chunk in self._chunk(self._state.list_due(stage)):
            if self._is_over:
                return
            if (stop := self._find_stop()) is not None:
                yield self._stop(stop)
                return
            started = self._admit(chunk)
            yield from self._conduct(started)
            yield from self._adjudicate(started)
            if len(started) < len(chunk) and not self._is_over:
                yield self._stop(_BUDGET)
            if stage == _LAST and not self._is_over:
                yield from self._look()

    @property
    def _is_over(self) -> bool:
        """Whether a rule ended the pilot, or the operator this command."""
        return self._is_ended or self._settings.run.stopper.is_stopped

    def _stop(self, message: str) -> PilotNotice:
        self._is_ended = True
        last = self._state.journal.find_last("stop")
        if last is None or last.data["message"] != message:
            self._state.journal.append("stop", data={"message": message})
        return PilotNotice(kind="stop", message=message)

    def _chunk(self, rows: Sequence[PlannedRow]) -> Iterator[list[PlannedRow]]:
        """Whole blocks, so that arms meet like conditions; enough of them for all jobs."""
        chunk: list[PlannedRow] = []
        for row in rows:
            if chunk and row.block != chunk[-1].block and len(chunk) >= self._settings.jobs:
                yield chunk
                chunk = []
            chunk.append(row)
        if chunk:
            yield chunk

    def _find_stop(self) -> str | None:
        stop = self._state.journal.find_last("stop")
        if stop is not None and not stop.data["message"].startswith("budget"):
            return stop.data["message"]
        allowed = self._state.study.pilot.stopping.safety_breaches
        breaches = sum(run.is_breach for run in self._state.list_runs(1, 2, 3))
        return f"safety: {breaches} runs violated a boundary" if breaches >= allowed else None

    def _look(self) -> Iterator[PilotNotice]:
        look = find_look(self._state)
        if look is None:
            return
        write_look(self._state.journal, look)
        yield PilotNotice(kind="look", message=look.message)
        if look.is_stop:
            yield self._stop(look.message)

    def _admit(self, rows: Sequence[PlannedRow]) -> list[PlannedRow]:
        """The runs for whose acceptance the envelopes have room; other time is held as it passes (B4)."""
        holds, admitted = [], list[PlannedRow]()
        for row in rows:
            run = self._build(row)
            hold = self._hold(run, row.task)
            if isinstance(hold, Exhausted):
                break
            holds.append(hold)
            admitted.append(row)
        for hold in holds:
            hold.release()
        return admitted

    def _hold(self, run: PlannedRun, task: str) -> LedgerHold | Exhausted:
        amount = build_usd(price_acceptance(run, self._settings.run))
        return self._ledger.open_envelopes(self._limits, run=_PROBE, task=task).reserve(amount)

    def _build(self, row: PlannedRow) -> PlannedRun:
        run = self._state.study.build_run(row.task, row.arm, row.replicate, stage=row.stage)
        known = AttemptIndex(self._state.study.runs).find(run.spec.run_id)
        return replace(run, attempts=frozenset(known))

    def _conduct(self, rows: Sequence[PlannedRow]) -> Generator[PilotEvent, None, None]:
        by_run = {row.run_id: row for row in rows}
        for row in rows:
            self._state.journal.append("started", run_id=row.run_id, data={"arm": row.arm, "task": row.task})
        for event in self._start([self._build(row) for row in rows]):
            yield event
            match event:
                case RunEnded() | RunSkipped():
                    judged = self.intake.take(by_run[event.run_id], Path(event.directory))
                    if judged.cause.cause == _SHARED:
                        yield self._stop(_BUDGET)
                case RunRepeated():
                    self.intake.set_aside(event.run_id, Path(event.directory))
                case _:
                    continue

    def _start(self, runs: Sequence[PlannedRun]) -> Generator[FleetEvent, None, None]:
        plan = FleetPlan(runs=tuple(runs))
        settings = self._settings
        events = conduct_fleet(plan, settings.run, installation=settings.installation, jobs=settings.jobs)
        with closing(events):
            yield from events

    def _adjudicate(self, rows: Sequence[PlannedRow]) -> Generator[PilotEvent, None, None]:
        """Judge changes of flaky contracts until the registered rule has what it needs (B11)."""
        run_ids = {row.run_id for row in rows}
        while not self._settings.run.stopper.is_stopped:
            judgments = [one for one in self._adjudicator.list_open(run_ids) if self._admit_judgment(one)]
            if not judgments:
                return
            yield from self._judge(judgments)

    def _admit_judgment(self, judgment: Judgment) -> bool:
        hold = self._hold(judgment.run, judgment.row.task)
        if isinstance(hold, Exhausted):
            self._adjudicator.end(judgment.row, _SHARED)
            return False
        hold.release()
        return True

    def _judge(self, judgments: Sequence[Judgment]) -> Generator[PilotEvent, None, None]:
        rows = {one.run.spec.run_id: one.row for one in judgments}
        for one in judgments:
            self._adjudicator.start(one)
        done = 0
        for event in self._start([one.run for one in judgments]):
            if isinstance(event, RunEnded | RunSkipped):
                self.intake.take_again(rows[event.run_id], event.run_id, Path(event.directory))
                done += 1
        noun = "change is" if done == 1 else "changes are"
        yield PilotNotice(kind="adjudication", message=f"{done} {noun} judged again")

    def book_authors(self) -> None:
        """Declared work of the authors of baselines, once: it goes into C_human (B8)."""
        study = self._state.study
        people = PeopleLedger(study.directory, study.pilot, study.book)
        known = {entry.data["arm"] for entry in self._state.journal.entries if entry.kind == "people"}
        for arm in study.pilot.arms:
            if arm.author_minutes and arm.name not in known:
                usd = people.book(f"author-{arm.name}", arm.author_minutes)
                words = "no price" if usd is None else decimal_text(usd)
                data = {"arm": arm.name, "minutes": str(arm.author_minutes), "usd": words}
                self._state.journal.append("people", data=data)
