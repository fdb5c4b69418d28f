"""A process of a crew: takes tickets from a pipe, conducts those runs, and tells what happens."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from repotrial.fleet._conductor import Conductor, open_conductor
from repotrial.fleet._events import FleetEvent
from repotrial.fleet._plan import PlannedRun
from repotrial.fleet._settings import FleetSettings
from repotrial.run import Stopper
from repotrial.sandbox import InstallationSettings, Level
from repotrial.trace import parse_signing_key

__all__ = ["STOP", "TICKET_BYTES", "MemberOrder", "main"]

STOP: Final = "stop"
TICKET_BYTES: Final = 4
"""Of a run's number: little enough that reads and writes of one are never torn."""


@dataclass(frozen=True, kw_only=True)
class MemberOrder:
    """What a member has to know. It goes through a channel that the two processes have alone."""

    planned: tuple[PlannedRun, ...]
    """Tickets are numbers of these."""
    runs: Path
    installation: InstallationSettings
    level: Level
    key: bytes
    jobs: int

    @staticmethod
    def build(planned: Sequence[PlannedRun], settings: FleetSettings, *, jobs: int) -> MemberOrder:
        return MemberOrder(
            planned=tuple(planned),
            runs=settings.runs,
            installation=settings.installation,
            level=settings.level,
            key=settings.key.private_bytes,
            jobs=jobs,
        )

    def build_settings(self, stopper: Stopper) -> FleetSettings:
        return FleetSettings(
            runs=self.runs,
            installation=self.installation,
            level=self.level,
            key=parse_signing_key(self.key),
            jobs=self.jobs,
            stopper=stopper,
        )


def main(arguments: Sequence[str]) -> None:
    """Work until there are no tickets left.

    Args:
        arguments: The channel to the harness, and the pipe with tickets.
    """
    channel, tickets = map(int, arguments)
    connection = Connection(channel)
    order: MemberOrder = connection.recv()
    stopper = Stopper()
    threading.Thread(target=_listen, args=(connection, stopper), name="channel", daemon=True).start()
    teller = _Teller(connection)
    with (
        open_conductor(order.build_settings(stopper)) as conductor,
        ThreadPoolExecutor(order.jobs, thread_name_prefix="run") as pool,
    ):
        for _ in range(order.jobs):
            pool.submit(_work, conductor, order.planned, tickets, teller)


def _listen(connection: Connection, stopper: Stopper) -> None:
    """Stop when asked to; when the harness has ended, end as it did, and sandboxes with us."""
    try:
        while connection.recv() == STOP:
            stopper.stop()
    except (EOFError, OSError):
        os._exit(1)


def _work(conductor: Conductor, planned: Sequence[PlannedRun], tickets: int, teller: _Teller) -> None:
    while ticket := os.read(tickets, TICKET_BYTES):
        number = int.from_bytes(ticket, "little")
        try:
            conductor.conduct(planned[number], partial(teller.tell, number))
        except Exception:  # noqa: BLE001, S112 - it was told; the next run is none the worse for it
            continue


class _Teller:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def tell(self, number: int, event: FleetEvent) -> None:
        try:
            with self._lock:
                self._connection.send((number, event))  # pickled: paths need not be text
        except BaseException:  # noqa: BLE001 - whoever cannot tell is of no use: it is heard that we are gone
            traceback.print_exc()
            os._exit(1)
