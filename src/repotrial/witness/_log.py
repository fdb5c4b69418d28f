"""Programs of a sandbox as the trace has them: starts and ends, or a count of too many (P14, P18)."""

from __future__ import annotations

import os
from typing import Final

from repotrial._core.words import LifecyclePhase
from repotrial.policy import check_deed
from repotrial.syscalls import EndRecord, StartRecord, WitnessFacts
from repotrial.trace import (
    BlindSpot,
    EventRef,
    Exited,
    ExitUnknown,
    ProgramEnd,
    ProgramsFolded,
    ProgramStart,
    Replaced,
    Sight,
    Signaled,
    TimedOut,
    TraceWriter,
    WitnessCounts,
    WitnessReport,
)
from repotrial.witness._folds import FoldedStarts

_MOST: Final[dict[LifecyclePhase, int]] = {"act": 1000}
"""Programs with events of their own; a judge's test suite is told by its results."""
_MOST_OTHERS: Final = 100
_KILL: Final = 9
_ALWAYS_BLIND: Final = (
    BlindSpot(
        name="fork-without-exec",
        reason="a process that goes on as a copy of its program is part of that program's record",
    ),
    BlindSpot(
        name="no-c-library",
        reason="a program without a C library is confirmed only if it runs for some milliseconds",
    ),
    BlindSpot(name="shell-builtins", reason="what a shell does itself starts no program"),
    BlindSpot(
        name="program-output",
        reason="programs print into pipes of the program that started them; only the first one's are ours",
    ),
)
_NO_EXIT_STATUSES: Final = BlindSpot(
    name="exit-statuses",
    reason="this kernel (before Linux 6.15) tells no exit status once the parent has waited for the program",
)
_NO_LAST_CPU: Final = BlindSpot(
    name="processor-time-at-the-end",
    reason="counters are refused to this user: what a program used after its last sample is not known",
)
_NO_ORPHANS: Final = BlindSpot(
    name="parents-of-orphans",
    reason="this harness may not number processes: a program whose parent has ended seems to have none",
)


def build_unwitnessed(phase: LifecyclePhase, reason: str) -> WitnessReport:
    """The report where no program is seen at all."""
    return WitnessReport(
        moment="start", phase=phase, sees=(), blind=(BlindSpot(name="programs", reason=reason),)
    )


class ProgramLog:
    """Writes what the witness of one sandbox saw; safe to call from its thread.

    Args:
        writer: Of the trace.
        phase: What the sandbox is for.
    """

    def __init__(self, writer: TraceWriter, *, phase: LifecyclePhase) -> None:
        self._writer = writer
        self._phase = phase
        self._witness: int | None = None
        self._told: dict[int, int | None] = {}
        """Programs with events of their own that run, with their commands."""
        self._first = 0
        """The first number that the agent can have."""
        self._services: set[int] = set()
        """Later ones that descend from what was there before the agent."""
        self._count = self._roots = self._deeds = 0
        self._told_count = self._told_ends = 0
        self._folds = FoldedStarts()
        self._ceilings: dict[int, int] = {}

    def begin(self, facts: WitnessFacts | None) -> None:
        """Say what is seen from here on, before the first program runs."""
        if facts is None:
            report = build_unwitnessed(self._phase, "this kind of sandbox reports no programs")
        else:
            self._first = facts.next_number
            report = WitnessReport(
                moment="start", phase=self._phase, sees=_list_sights(facts), blind=_list_blind(facts)
            )
        self._witness = self._writer.append(report, actor="monitor").seq

    def is_agents(self, number: int | None) -> bool:
        """Whether a program is the agent's, or descends from it; services run beside."""
        return number is None or (number >= self._first and number not in self._services)

    def take_start(self, record: StartRecord) -> int | None:
        """Keep a start; where it stands, if it has an event of its own."""
        if self._witness is None:
            return None  # a service, before the agent
        is_agents = self.is_agents(record.parent)
        if not is_agents:
            self._services.add(record.number)
        command = record.command if is_agents else None
        start = ProgramStart(
            witness=self._witness,
            phase=self._phase,
            number=record.number,
            parent=record.parent if is_agents else None,
            replaces=record.replaces if self.is_agents(record.replaces) else None,
            command=command,
            argv=record.argv,
            truncated=record.is_truncated,
            path=record.path,
            exe=record.exe,
            copies=record.copies,
            cwd=record.cwd,
            pid=record.pid,
            started_at_us=record.at_us,
            confirmed=record.is_confirmed,
        )
        if not self._is_told(start):
            self._folds.start(start)
            return None
        self._told[record.number] = command
        self._told_count += 1
        reference = self._append(start)
        return reference.seq if isinstance(reference, EventRef) else None

    def take_end(self, record: EndRecord) -> None:
        """Keep an end."""
        command = self._told.pop(record.number, _UNTOLD)
        if command is _UNTOLD:
            self._folds.end(record)
            return
        assert self._witness is not None
        assert command is None or isinstance(command, int)
        end = ProgramEnd(
            witness=self._witness,
            number=record.number,
            exit=_describe_exit(record, None if command is None else self._ceilings.get(command)),
            ended_at_us=record.at_us,
            wall_us=record.wall_us,
            cpu_us=record.cpu_us,
            cpu_is_lower_bound=record.cpu_is_lower_bound,
        )
        self._told_ends += 1
        self._append(end)

    def end_at_ceiling(self, command: int, ceiling_us: int) -> None:
        """From here on what is killed of a command was ended by the harness, at this ceiling."""
        self._ceilings[command] = ceiling_us

    def close(self, facts: WitnessFacts | None) -> None:
        """Say what was counted, after the last program."""
        if self._witness is None or facts is None:
            return
        groups = self._folds.build()
        if groups:
            self._append(ProgramsFolded(witness=self._witness, groups=groups))
        self._writer.append(
            WitnessReport(
                moment="end",
                phase=self._phase,
                witness=self._witness,
                sees=_list_sights(facts),
                blind=_list_blind(facts),
                counts=WitnessCounts(
                    started=facts.started,
                    ended=facts.ended,
                    folded=self._folds.started,
                    told=self._told_count,
                    told_ends=self._told_ends,
                    unconfirmed=facts.unconfirmed,
                    failed_tries=facts.failed_tries,
                    unknown_exits=facts.unknown_exits,
                    withdrawn=facts.withdrawn,
                    unread=facts.unread,
                ),
            ),
            actor="monitor",
        )

    def _append(self, payload: ProgramStart | ProgramEnd | ProgramsFolded) -> object:
        return self._writer.append(payload, actor="agent" if self._phase == "act" else "harness")

    def _is_told(self, start: ProgramStart) -> bool:
        most = _MOST.get(self._phase, _MOST_OTHERS)
        if self._count < most:
            self._count += 1
            return True
        if start.command == start.number and self._roots < most:
            self._roots += 1
            return True
        # A deed is not hidden by a crowd.
        if self._deeds < most and check_deed(start.argv, cwd=start.cwd, exe=(*start.copies, start.exe)[0]):
            self._deeds += 1
            return True
        return False


_UNTOLD: Final = object()


def _describe_exit(
    record: EndRecord, ceiling_us: int | None
) -> Exited | Signaled | TimedOut | Replaced | ExitUnknown:
    if record.replaced_by is not None:
        return Replaced(by=record.replaced_by)
    if record.status is None:
        return ExitUnknown(reason="the kernel did not tell how it ended")
    if os.WIFSIGNALED(record.status):
        signal = os.WTERMSIG(record.status)
        is_ours = signal == _KILL and ceiling_us is not None
        return TimedOut(ceiling_us=ceiling_us or 0) if is_ours else Signaled(signal=signal)
    return Exited(code=os.WEXITSTATUS(record.status))


def _list_sights(facts: WitnessFacts) -> tuple[Sight, ...]:
    sights = [
        Sight(subject="starts", means="seccomp-notify"),
        Sight(subject="arguments", means="proc-cmdline"),
        Sight(subject="parents", means="inherited-number" if facts.parents == "number" else "parent-process"),
        Sight(subject="ends", means="pidfd"),
        Sight(subject="processor-time", means="perf" if facts.cpu == "counter" else "sample"),
    ]
    if facts.exit_statuses:
        sights.append(Sight(subject="exit-statuses", means="pidfd-info"))
    return tuple(sights)


def _list_blind(facts: WitnessFacts) -> tuple[BlindSpot, ...]:
    blind = [*_ALWAYS_BLIND]
    if not facts.exit_statuses:
        blind.append(_NO_EXIT_STATUSES)
    if facts.cpu == "sample":
        blind.append(_NO_LAST_CPU)
    if facts.parents == "process":
        blind.append(_NO_ORPHANS)
    return tuple(blind)
