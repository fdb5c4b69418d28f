"""Many runs that no model answers for: conducted by a process for each processor.

What a harness does for a run takes a processor some 30 ms. Threads of one interpreter share one processor for
that, so that short runs wait for each other. Runs that ask a model stay in one process: they wait for the
model, and one gateway serves them all.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, Self, TypeAlias

from repotrial._core.errors import MachineError
from repotrial.fleet._events import FleetEvent, RunEnded, RunUndone
from repotrial.fleet._member import STOP, TICKET_BYTES, MemberOrder
from repotrial.fleet._plan import PlannedRun
from repotrial.fleet._settings import FleetSettings
from repotrial.run import HumanAgent

__all__ = ["MemberMissingError", "conduct_in_crew", "find_crew_size"]

_Put: TypeAlias = Callable[[FleetEvent], None]

_WORTH_STARTING: Final = 16
"""So many runs for each: an interpreter takes half a second until it begins."""
_MODULE: Final = "repotrial.fleet._member"
_BOOT: Final = f"import sys; sys.path.insert(0, sys.argv[1]); from {_MODULE} import main; main(sys.argv[2:])"


class MemberMissingError(MachineError):
    """A process that was to conduct runs could not be started."""

    code = "member-missing"
    default_hint = "use fewer --jobs; look whether the machine is out of memory or processes"


def find_crew_size(runs: Sequence[PlannedRun], settings: FleetSettings) -> int:
    """How many processes are worth it; with one, there is no need of another than this."""
    needs_this_process = settings.models is not None or any(isinstance(run.agent, HumanAgent) for run in runs)
    if needs_this_process:
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), settings.jobs, len(runs) // _WORTH_STARTING))


@contextlib.contextmanager
def conduct_in_crew(
    runs: Sequence[PlannedRun], settings: FleetSettings, put: _Put, *, size: int
) -> Iterator[None]:
    """Conduct all of them in so many processes while the block lasts, and wait for them at its end.

    Whoever is free takes the next ticket from one pipe. A process that dies takes with it only what it was
    at: that is told as undone when nobody is left who could have it.

    Raises:
        MemberMissingError: a process cannot be started.
    """
    desk = _Desk(runs, put, members=size)
    with contextlib.ExitStack() as stack:
        tickets, feed = os.pipe()
        with os.fdopen(tickets, "rb"):  # only members read
            stream = stack.enter_context(os.fdopen(feed, "wb", buffering=0))
            members = [stack.enter_context(_Member(tickets, desk)) for _ in range(size)]
        try:
            for number, member in enumerate(members):
                jobs = len(range(number, settings.jobs, size))
                member.begin(MemberOrder.build(runs, settings, jobs=jobs))
                settings.stopper.tell(member.stop)
            feeder = threading.Thread(target=_feed, args=(stream, len(runs)), name="tickets", daemon=True)
            feeder.start()
            stack.callback(feeder.join)  # it ends when all are taken, or nobody is left who takes one
        except BaseException:
            for member in members:  # they would wait for tickets, and we for them
                member.kill()
            raise
        yield


def _feed(stream: FileIO, count: int) -> None:
    with stream, contextlib.suppress(BrokenPipeError):  # where nobody is left
        for number in range(count):
            stream.write(number.to_bytes(TICKET_BYTES, "little"))


class _Desk:
    """Knows which runs are still out, and says of each exactly once that it is over."""

    def __init__(self, runs: Sequence[PlannedRun], put: _Put, *, members: int) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._out = {number: run.spec.run_id for number, run in enumerate(runs)}
        self._members = members
        self._lost: list[str] = []

    def take(self, number: int, event: FleetEvent) -> None:
        """Pass on what a member tells."""
        if isinstance(event, RunEnded | RunUndone):
            with self._lock:
                del self._out[number]
        self._put(event)

    def leave(self, how: str) -> None:
        """A member has ended, in this way; after the last one nobody can conduct what is out."""
        with self._lock:
            self._members -= 1
            self._lost.append(how)
            left = {} if self._members else {**self._out}
        for run_id in left.values():
            fault = f"member-lost: processes that conducted runs ended: {', '.join(self._lost)}"
            self._put(RunUndone(run_id=run_id, fault=fault))


class _Member:
    """One of the processes, seen from here; it ends when there are no tickets left, or with this one."""

    def __init__(self, tickets: int, desk: _Desk) -> None:
        self._desk = desk
        self._connection, theirs = Pipe()
        with theirs:
            self._process = _start(theirs, tickets)
        self._reader = threading.Thread(target=self._read, name="crew", daemon=True)

    def begin(self, order: MemberOrder) -> None:
        """Let it begin."""
        with contextlib.suppress(OSError):  # its reader notices that it has ended
            self._connection.send(order)
        self._reader.start()

    def stop(self) -> None:
        """Let it end what it is at."""
        with contextlib.suppress(OSError):
            self._connection.send(STOP)

    def kill(self) -> None:
        """End it at once, and with it what it is at."""
        self._process.kill()

    def _read(self) -> None:
        try:
            with contextlib.suppress(EOFError, OSError):
                while True:
                    number, event = self._connection.recv()
                    self._desk.take(number, event)
        except BaseException:  # a mistake of ours: nobody must wait for it
            self.kill()
            raise
        finally:
            self._desk.leave(f"exit code {self._process.wait()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader.ident is None:
            self.kill()  # another could not be started
        else:
            self._reader.join()
        self._process.wait()
        self._connection.close()


def _start(connection: Connection, tickets: int) -> subprocess.Popen[bytes]:
    root = Path(__file__).resolve().parents[2]
    numbers = (connection.fileno(), tickets)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT, str(root), *map(str, numbers)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=numbers,
            # An interrupt from the keyboard is for the harness, which then stops the others in order.
            start_new_session=True,
        )
    except OSError as error:
        raise MemberMissingError(f"expected to start {sys.executable}, found: {error}") from error
