"""`pilot run`: follows the frozen plan through the fleet; resumable after any crash (B12, B13)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from repotrial._core.canonical import decimal_text
from repotrial._core.digest import digest_bytes
from repotrial.analysis import PlannedRow
from repotrial.conduct._freeze import load_registrations
from repotrial.conduct._journal import Journal
from repotrial.conduct._looks import find_look, find_refuted, write_look
from repotrial.conduct._people import LEDGER_FILE, PeopleLedger, build_limits, build_usd
from repotrial.conduct._record import PILOT_NOT_FROZEN, load_record, verify_key
from repotrial.conduct._stages import (
    PilotState,
    StageChecked,
    check_entry,
    check_exit,
    find_run,
)
from repotrial.conduct._state import PilotRun
from repotrial.conduct._study import Study
from repotrial.cost import Amount, Exhausted, Ledger
from repotrial.environment import InstallationSettings
from repotrial.fleet import FleetEvent, FleetPlan, RunNotConducted, RunSkipped, conduct_fleet
from repotrial.run import AttemptIndex, PlannedRun, RunEnded, RunSettings
from repotrial.score import judge_run, write_verdict
from repotrial.trace import RunPaths

_LAST: Final = 3
_SECOND_US: Final = 1_000_000
_BUDGET: Final = "budget: an envelope does not allow the next run; runs never started are in no rate"


class PilotNotice(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="notice"):
    """Something that a person should read."""

    kind: str
    """adaptation, stop, look or end."""
    message: str


_Hold: TypeAlias = tuple[Callable[[Amount], None], Callable[[], None]]
"""How a reservation is settled, and how it is given back."""
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
                driver.adopt()
                yield from driver.drive()


class _Driver:
    def __init__(self, state: PilotState, settings: ConductSettings, ledger: Ledger) -> None:
        self._state = state
        self._settings = settings
        self._ledger = ledger
        self._limits = build_limits(state.study.pilot)
        self._holds: dict[str, _Hold] = {}
        self._is_ended = False

    def drive(self) -> Generator[PilotEvent, None, None]:
        for stage in range(1, self._settings.until + 1):
            if stage == _LAST:
                yield from self._adapt()
            entry = self._check(stage, "entry")
            yield entry
            if not entry.is_met:
                yield self._end(stage)
                return
            yield from self._conduct_stage(stage)
            if self._settings.run.stopper.is_stopped:
                return
            if self._is_ended and stage < _LAST:
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
        for chunk in self._chunk(self._state.list_due(stage)):
            stop = self._find_stop()
            if stop is not None:
                yield self._stop(stop)
                return
            started = [row for row in chunk if self._reserve(row)]
            if started:
                yield from self._conduct(started)
            if len(started) < len(chunk):
                yield self._stop(_BUDGET)
                return
            if self._settings.run.stopper.is_stopped:
                return
            if stage == _LAST:
                yield from self._look()
            if self._is_ended:
                return

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

    def _reserve(self, row: PlannedRow) -> bool:
        """Hold what execution may cost at most; models reserve for themselves, exchange by exchange."""
        price = self._state.study.book.actions.get("exec:wall")
        run = self._build(row)
        seconds = FleetPlan(runs=(run,)).ceiling_seconds
        amount = Decimal(0) if price is None else price.apply(seconds * _SECOND_US)
        limits = msgspec.structs.replace(self._limits)
        envelopes = self._ledger.open_envelopes(limits, run=f"exec-{row.run_id}", task=row.task)
        hold = envelopes.reserve(build_usd(amount))
        if isinstance(hold, Exhausted):
            return False
        self._holds[row.run_id] = (hold.settle, hold.release)
        return True

    def _build(self, row: PlannedRow) -> PlannedRun:
        run = self._state.study.build_run(row.task, row.arm, row.replicate, stage=row.stage)
        known = AttemptIndex(self._state.study.runs).find(run.spec.run_id)
        return replace(run, attempts=frozenset(known))

    def _conduct(self, rows: Sequence[PlannedRow]) -> Generator[PilotEvent, None, None]:
        by_run = {row.run_id: row for row in rows}
        for row in rows:
            self._state.journal.append("started", run_id=row.run_id, data={"arm": row.arm, "task": row.task})
        plan = FleetPlan(runs=tuple(self._build(row) for row in rows))
        events = conduct_fleet(
            plan, self._settings.run, installation=self._settings.installation, jobs=self._settings.jobs
        )
        with closing(events):
            for event in events:
                yield event
                match event:
                    case RunEnded(fault=None) | RunSkipped():
                        self._take(by_run[event.run_id], Path(event.directory))
                    case RunEnded():  # stopped, or broken off by the harness: it does not count
                        name = Path(event.directory).name
                        self._state.journal.append("broken", run_id=event.run_id, directory=name)
                        self._release(event.run_id)
                    case RunNotConducted():
                        self._release(event.run_id)
                    case _:
                        continue

    def _take(self, row: PlannedRow, directory: Path) -> None:
        """A run is in: judged, paid and journaled, in this order."""
        judged = judge_run(directory)
        write_verdict(directory, judged.evidence, judged.card)
        run = PilotRun(row=row, judged=judged)
        spent, unpriced = _sum_terms(self._state, run)
        hold = self._holds.pop(row.run_id, None)
        if hold is not None:
            hold[0](build_usd(spent))
        self._state.journal.append(
            "conducted",
            run_id=row.run_id,
            directory=directory.name,
            seal_digest=digest_bytes(RunPaths(directory).seal.read_bytes()),
            data={"usd": str(spent), "unpriced": ", ".join(unpriced)},
        )

    def _release(self, run_id: str) -> None:
        hold = self._holds.pop(run_id, None)
        if hold is not None:
            hold[1]()

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

    def adopt(self) -> None:
        """Runs that were sealed when an earlier command was killed, before it could journal them."""
        rows = {row.run_id: row for row in self._state.rows}
        for run_id, entry in self._state.journal.open_starts.items():
            found = find_run(self._state.study.runs, run_id, since_us=entry.at_us)
            if found is not None and run_id in rows:
                self._take(rows[run_id], found)


def _sum_terms(state: PilotState, run: PilotRun) -> tuple[Decimal, list[str]]:
    """Execution, people and overhead in dollars; terms without a price are named. Models paid already."""
    statement = state.price(run)
    amounts = {name: getattr(statement, name) for name in ("exec", "human", "overhead")}
    priced = [each for each in amounts.values() if isinstance(each, Amount) and each.unit == "usd"]
    unpriced = [name for name, each in amounts.items() if not isinstance(each, Amount)]
    return sum((each.decimal for each in priced), start=Decimal(0)), unpriced
