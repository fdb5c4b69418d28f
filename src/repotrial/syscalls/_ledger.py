"""Which program is whose: the bookkeeping of starts and ends, without the kernel.

Every try to start a program gets a number that its process keeps and its forks inherit. A try that failed
stands for what the process still was, so a number always leads to a program that started, or to the harness.
"""

from __future__ import annotations

from array import array
from typing import Final

from repotrial.syscalls._records import EndRecord, StartRecord

HARNESS: Final = 0
"""The number that stands for what the harness started itself."""
_PENDING: Final = -1
_LONGEST_COMM: Final = 15
"""The kernel keeps so many characters of a program's name."""


class StartTry:
    """A program was asked for; whether it started is not known yet."""

    __slots__ = ("at_us", "base", "cpu_ns", "is_missing", "number", "path")

    def __init__(self, number: int, base: int, path: str, at_us: int) -> None:
        self.number = number
        self.base = base
        """The program that the process was, or was forked from."""
        self.path = path
        self.at_us = at_us
        self.cpu_ns = 0
        """Processor time of the process until then."""
        self.is_missing = False
        """Whether no such file was seen; links may lead the eye astray, so no proof."""


class Process:
    """A process that asked for a program at least once."""

    __slots__ = ("cpu_ns", "is_cpu_exact", "pending", "pid", "program", "started_at_us", "used_before_ns")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.program = HARNESS
        """What it runs; the harness's number until a start of its own was seen."""
        self.pending: StartTry | None = None
        self.started_at_us = 0
        self.cpu_ns: int | None = None
        """The last reading."""
        self.is_cpu_exact = False
        self.used_before_ns = 0
        """Processor time when its program started."""


class Image:
    """What the kernel runs in a process: read from outside, so the caller cannot have made it up."""

    __slots__ = ("argv", "copies", "cwd", "exe", "is_truncated", "stamp")

    def __init__(
        self, *, argv: tuple[str, ...], is_truncated: bool, exe: str | None, cwd: str, stamp: int
    ) -> None:
        self.argv = argv
        self.is_truncated = is_truncated
        self.exe = exe
        self.cwd = cwd
        self.stamp = stamp
        """Changes with every start and with nothing else; 0 where it cannot be read."""
        self.copies: tuple[str, ...] = ()
        """Files of the system that it is a copy of."""


class ProgramLedger:
    """Numbers programs, and knows of each its parent and its command.

    Args:
        has_commands: Whether what the agent starts is a command from the first on. An agent that asks a model
            starts helpers of its own before it asks for the first time.
    """

    def __init__(self, *, has_commands: bool = True) -> None:
        self.has_commands = has_commands
        self.processes: dict[int, Process] = {}
        self.started = self.ended = self.failed_tries = self.unconfirmed = self.unknown_exits = 0
        # Forks of a program that ended long ago still carry its number.
        self._stands_for = array("q", [HARNESS])
        self._parents = array("q", [HARNESS])
        self._commands = array("q", [HARNESS])
        self._stamps = array("Q", [0])

    @property
    def next_number(self) -> int:
        """What the next try will be called."""
        return len(self._stands_for)

    def find_program(self, number: int) -> int | None:
        """The program that a number stands for; None while that is not known."""
        if not 0 <= number < len(self._stands_for):
            return HARNESS
        found = self._stands_for[number]
        return None if found == _PENDING else found

    def find_command(self, number: int) -> int:
        """The command that a number belongs to; the harness's number for the agent's own programs."""
        program = self.find_program(number)
        return self._commands[number if program is None else program]

    def find_stamp(self, program: int) -> int:
        return self._stamps[program]

    def begin_try(self, process: Process, *, base: int, path: str, at_us: int) -> StartTry:
        """A program was asked for in a process whose earlier try is settled."""
        process.pending = StartTry(self.next_number, base, path, at_us)
        self._parents.append(base)
        self._commands.append(self._commands[base])
        self._stamps.append(0)
        self._stands_for.append(_PENDING)
        self.processes[process.pid] = process
        return process.pending

    def fail(self, process: Process) -> None:
        """The pending try started nothing."""
        attempt, process.pending = process.pending, None
        assert attempt is not None
        self._stands_for[attempt.number] = attempt.base
        self.failed_tries += 1

    def start(self, process: Process, image: Image | None) -> list[StartRecord | EndRecord]:
        """The pending try is a program now; without an image it only may be.

        Returns:
            Its start, then the end of the program that it replaced.
        """
        attempt, process.pending = process.pending, None
        assert attempt is not None
        number, base = attempt.number, attempt.base
        is_replacing = process.program == base != HARNESS
        self._stands_for[number] = number
        self._parents[number] = self._parents[base] if is_replacing else base
        self._commands[number] = self._choose_command(number, base, is_replacing=is_replacing)
        self._stamps[number] = 0 if image is None else image.stamp
        self.started += 1
        self.unconfirmed += image is None
        records: list[StartRecord | EndRecord] = [
            StartRecord(
                number=number,
                parent=self._parents[number] or None,
                replaces=base if is_replacing else None,
                command=self._commands[number] or None,
                argv=() if image is None else image.argv,
                is_truncated=image is None or image.is_truncated,
                path=attempt.path,
                exe=None if image is None else image.exe,
                copies=() if image is None else image.copies,
                cwd="" if image is None else image.cwd,
                pid=process.pid,
                at_us=attempt.at_us,
                is_confirmed=image is not None,
            )
        ]
        if is_replacing:
            self.ended += 1
            records.append(
                EndRecord(
                    number=base,
                    replaced_by=number,
                    at_us=attempt.at_us,
                    wall_us=max(0, attempt.at_us - process.started_at_us),
                    cpu_us=max(0, attempt.cpu_ns - process.used_before_ns) // 1000,
                )
            )
        process.program, process.started_at_us = number, attempt.at_us
        process.used_before_ns = attempt.cpu_ns
        process.cpu_ns, process.is_cpu_exact = attempt.cpu_ns, False
        return records

    def end(
        self, process: Process, *, status: int | None, at_us: int, comm: str | None = None
    ) -> list[StartRecord | EndRecord]:
        """A process ended: with it its program, and what may have been one.

        Args:
            process: Which.
            status: As `wait` gives it; None where it was not seen.
            at_us: When that was heard.
            comm: Its name at the end, where that could still be read.
        """
        self.processes.pop(process.pid, None)
        records: list[StartRecord | EndRecord] = []
        if process.pending is not None:
            if _may_have_started(process.pending, comm):
                records += self.start(process, None)
            else:
                self.fail(process)
        if process.program == HARNESS:
            return records
        self.ended += 1
        self.unknown_exits += status is None
        cpu_ns = process.cpu_ns
        records.append(
            EndRecord(
                number=process.program,
                status=status,
                at_us=at_us,
                wall_us=max(0, at_us - process.started_at_us),
                cpu_us=None if cpu_ns is None else max(0, cpu_ns - process.used_before_ns) // 1000,
                cpu_is_lower_bound=not process.is_cpu_exact,
            )
        )
        return records

    def _choose_command(self, number: int, base: int, *, is_replacing: bool) -> int:
        inherited = self._commands[base]
        is_own = inherited != HARNESS or is_replacing or base == HARNESS or not self.has_commands
        return inherited if is_own else number


def _may_have_started(attempt: StartTry, comm: str | None) -> bool:
    """A program without a C library tells nothing; its process has its name if it did start."""
    if comm is not None:
        return comm == attempt.path.rpartition("/")[2][:_LONGEST_COMM]
    return not attempt.is_missing
