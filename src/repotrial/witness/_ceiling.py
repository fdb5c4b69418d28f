"""The ceiling of a single command: there the command's whole process tree is ended, and nothing else (P19).

A command lasts as long as the process of its first program. What it left in the background when that ended
is a service of the agent's, and runs under the ceiling of the run.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Final, Self

from repotrial.environment import ContractSandbox
from repotrial.policy import COMMANDS
from repotrial.syscalls import EndRecord, StartRecord
from repotrial.trace import EndCommand, Intervention, MonitorAlert, OnAlert, Signal, TraceWriter
from repotrial.witness._log import ProgramLog

_PAUSED_SECONDS: Final = 0.2
_SECOND_US: Final = 1_000_000


class _Running:
    """A command that runs."""

    __slots__ = ("event", "program", "since")

    def __init__(self, program: int, event: int | None) -> None:
        self.program = program
        """What its first process is now."""
        self.event = event
        self.since = time.monotonic()


class CommandCeiling:
    """Ends commands that run for too long, in a thread of its own.

    Args:
        writer: Of the trace.
        log: Told before a command is ended: the ends that follow are the ceiling's.
        ceiling_seconds: For each command.
    """

    def __init__(self, writer: TraceWriter, log: ProgramLog, *, ceiling_seconds: int) -> None:
        self._writer = writer
        self._log = log
        self._ceiling_seconds = ceiling_seconds
        self._sandbox: ContractSandbox | None = None
        self._commands: dict[int, _Running] = {}
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="command-ceiling", daemon=True)

    def watch(self, sandbox: ContractSandbox) -> Self:
        """Watch over the commands of this sandbox for as long as the block lasts."""
        self._sandbox = sandbox
        return self

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join()

    def take_start(self, record: StartRecord, event: int | None) -> None:
        """A program started; is it a command, its time begins."""
        if record.command != record.number or not self._log.is_agents(record.number):
            return
        with self._changed:
            self._commands[record.number] = _Running(record.number, event)
            self._changed.notify()

    def take_end(self, record: EndRecord) -> None:
        """A program ended: perhaps a command with it."""
        with self._changed:
            for command, running in self._commands.items():
                if running.program != record.number:
                    continue
                if record.replaced_by is None:
                    del self._commands[command]
                else:
                    running.program = record.replaced_by
                return

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._is_over:
                    return
                wait_seconds = self._find_wait()
                if wait_seconds is None or wait_seconds > 0:
                    self._changed.wait(wait_seconds)
                    continue
                command, running = next(iter(self._commands.items()))
                del self._commands[command]
            self._end(command, running)

    def _find_wait(self) -> float | None:
        """Until the first of them is due; commands are kept in the order of their starts."""
        assert self._sandbox is not None
        if not self._commands:
            return None
        first = next(iter(self._commands.values()))
        left = first.since + self._ceiling_seconds - time.monotonic()
        return max(left, _PAUSED_SECONDS) if self._sandbox.is_frozen else left

    def _end(self, command: int, running: _Running) -> None:
        assert self._sandbox is not None
        ceiling_us = self._ceiling_seconds * _SECOND_US
        wall_us = round((time.monotonic() - running.since) * _SECOND_US)
        alert = self._writer.append(
            MonitorAlert(
                monitor=COMMANDS,
                rule="command-ceiling",
                severity="warning",
                phase="act",
                signals=(Signal(name="command_wall_us", value=wall_us, threshold=ceiling_us),),
                evidence=() if running.event is None else (running.event,),
            ),
            actor="monitor",
        )
        self._log.end_at_ceiling(command, ceiling_us)
        ended = self._sandbox.end_command(command)
        self._writer.append(
            Intervention(
                action=EndCommand(command=command, processes=ended or 0),
                basis=OnAlert(alert=alert.seq),
                effective=bool(ended),
                detail="" if ended is not None else "this sandbox cannot tell which processes are its",
            ),
            actor="harness",
        )
