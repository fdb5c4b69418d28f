"""`pilot status`: progress, spend, causes, blinded power; of differences only an always-valid band."""

from __future__ import annotations

import math
from collections import Counter

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.clock import SystemClock
from repotrial.conduct._journal import Journal
from repotrial.conduct._record import PilotRecord, load_record
from repotrial.conduct._stages import Criterion, PilotState, StageChecked, check_entry, check_exit
from repotrial.conduct._stamp import describe_stamp
from repotrial.conduct._study import Study
from repotrial.cost import EnvelopeState

_DAY_US = 86_400_000_000


class StageProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a stage is."""

    stage: int
    planned: int
    conducted: int
    indeterminate: int


class BandStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where the difference of a contrast lies, at whatever moment one looks."""

    contrast: str
    tasks: int
    """Complete tasks, in the frozen order without a gap, that entered it."""
    low: float
    high: float
    level: float


class PilotStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All of `pilot status`."""

    pilot: str
    registration: int
    time_stamp: str
    """What an authority says about the registration; empty if there is no time stamp."""
    stages: tuple[StageProgress, ...]
    causes: dict[str, int]
    """Why runs ended as they did, over all arms together: no arm is named."""
    envelopes: tuple[EnvelopeState, ...]
    flakiness: str
    blinded_power: float | NotComputable
    """At the smallest relevant effect, with the blinded variance: the difference does not enter."""
    state: str
    """on track, about N days left, or cannot reach."""
    bands: tuple[BandStatus, ...]
    next: StageChecked
    """Entry or exit of the stage that is next."""
    rule_off: str
    """Why the efficacy rule is off: what stage 2 refutes; empty if it is not."""
    stop: str | None
    shown_apart: int
    """Runs of earlier registrations."""
    findings: tuple[str, ...]
    deviations: tuple[str, ...]

    @staticmethod
    def load(study: Study) -> PilotStatus:
        """How a frozen pilot stands; nothing is written.

        Raises:
            PILOT_NOT_FROZEN: there is no registration.
        """
        return _load(study)


def _load(study: Study) -> PilotStatus:
    record = load_record(study)
    version = record.registration.version
    journal = Journal(study.directory, registration=version)
    state = PilotState(study, record, journal)
    # A record that does not hold is not read any further: it would lend weight to what was tampered with.
    runs = [] if record.findings else state.list_runs(1, 2, 3)
    causes = Counter(run.judged.entry.why or run.judged.entry.status for run in runs if run.outcome is None)
    differing, compared = (0, 0) if record.findings else state.measure_flakiness()
    power = NotComputable(reason="the record does not hold") if record.findings else _blind_power(state)
    stop = journal.find_last("stop")
    return PilotStatus(
        pilot=study.pilot.id,
        registration=version,
        time_stamp=_find_stamp(study, record),
        stages=tuple(_count(state, record, stage) for stage in (1, 2, 3)),
        causes=dict(causes),
        envelopes=tuple(item for item in state.read_envelopes() if item.name == "total"),
        flakiness=f"{differing} of {compared} judgments differ",
        blinded_power=power,
        state=_find_state(state, power),
        bands=() if record.findings else _build_bands(state),
        next=StageChecked(criteria=() if record.findings else _find_next(state)),
        rule_off=journal.rule_off,
        stop=None if stop is None else stop.data["message"],
        shown_apart=len(journal.conducted) - len(record.list_counted(journal)),
        findings=tuple(str(finding) for finding in record.findings),
        deviations=record.deviations,
    )


def _find_stamp(study: Study, record: PilotRecord) -> str:
    if record.findings:
        return ""
    last = record.registrations[-1]
    data = last.path.read_bytes()
    return "".join(describe_stamp(study.directory, record.registration.version, data))


def _count(state: PilotState, record: PilotRecord, stage: int) -> StageProgress:
    planned, due = len(state.list_planned(stage)), len(state.list_due(stage))
    runs = [] if record.findings else state.list_runs(stage)
    return StageProgress(
        stage=stage,
        planned=planned,
        conducted=planned - due,
        indeterminate=sum(run.outcome is None for run in runs),
    )


def _blind_power(state: PilotState) -> float | NotComputable:
    from repotrial.stats import compute_power_of_effect

    spread = state.estimate_spread()
    if isinstance(spread, NotComputable):
        return spread
    pilot, tasks = state.study.pilot, len(state.tasks)
    decision = state.decision
    repeats = pilot.stages.most if decision is None else decision.repeats or pilot.stages.stage_2
    level = 1 - float(pilot.level) / len(pilot.contrasts)
    effect = float(pilot.smallest_effect)
    return round(
        min(
            compute_power_of_effect(effect, math.sqrt(each.predict(repeats)), tasks, level=level)
            for each in spread
        ),
        4,
    )


def _find_state(state: PilotState, power: float | NotComputable) -> str:
    due = sum(len(state.list_due(stage)) for stage in (1, 2, 3))
    decision = state.decision
    if decision is not None and decision.repeats is None:
        return "cannot reach the registered power: stages 1 and 2 are the plan"
    if isinstance(power, float) and power < float(state.study.pilot.power.power) and state.list_due(2):
        return "cannot reach the registered power, as it looks now"
    counted = state.record.list_counted(state.journal)
    if not counted or not due:
        return "on track"
    began = min(entry.at_us for entry in counted.values())
    each = (SystemClock().now_us() - began) / len(counted)
    days = each * due / _DAY_US
    return "on track, less than a day left" if days < 1 else f"on track, about {math.ceil(days)} days left"


def _build_bands(state: PilotState) -> tuple[BandStatus, ...]:
    """Tasks enter in the frozen order, up to the first that is not complete; each enters once."""
    from repotrial.stats import build_always_valid

    complete = {*state.list_complete()}
    prefix = []
    for task in state.tasks:
        if task not in complete:
            break
        prefix.append(task)
    pilot = state.study.pilot
    level = 1 - float(pilot.level) / len(pilot.contrasts)
    bands = []
    for contrast in pilot.contrasts if prefix else ():
        first, other = state.collect_outcomes(contrast.arm), state.collect_outcomes(contrast.against)
        values = [
            sum(first[task]) / len(first[task]) - sum(other[task]) / len(other[task])
            for task in prefix
            if first[task] and other[task]
        ]
        bands += [
            BandStatus(
                contrast=contrast.name,
                tasks=len(values),
                low=round(band.low, 4),
                high=round(band.high, 4),
                level=round(level, 6),
            )
            for band in build_always_valid(values, level=level)[-1:]
        ]
    return tuple(bands)


def _find_next(state: PilotState) -> tuple[Criterion, ...]:
    for stage in (1, 2):
        if state.list_due(stage):
            return tuple(check_entry(state, stage))
    if state.decision is None or state.decision.repeats is None:
        return tuple(check_entry(state, 3))
    return tuple(check_exit(state, 3))
