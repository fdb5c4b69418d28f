"""Ending one command of a sandbox: all of its processes, and no other."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from typing import Final

from repotrial._core.errors import MachineError
from repotrial.isolation._resources._freezer import FREEZE_FAILED, Freezer, hold_frozen

_END_SECONDS: Final = 10.0
_QUIET_ROUNDS: Final = 2


class CommandMembers:
    """Finds and kills the processes of one command.

    Args:
        list_pids: Every process of the sandbox, as the host counts.
        is_member: Whether one of them belongs to the command.
    """

    def __init__(self, list_pids: Callable[[], Iterable[int]], is_member: Callable[[int], bool]) -> None:
        self._list_pids = list_pids
        self._is_member = is_member
        self._struck: dict[int, int] = {}
        """Handles of those that were killed."""

    def kill(self, freezer: Freezer) -> int:
        """Kill all of them; how many there were.

        Everything inside stands meanwhile: a program that goes from fork to fork outruns any list.
        """
        try:
            try:
                with hold_frozen(freezer):
                    self._strike()
            except MachineError as error:
                if error.code != FREEZE_FAILED:
                    raise
            self._strike_rest()
            return len(self._struck)
        finally:
            for handle in self._struck.values():
                os.close(handle)

    def _strike_rest(self) -> None:
        """Until the dead are gone and no more are found."""
        deadline = time.monotonic() + _END_SECONDS
        quiet = 0
        while quiet < _QUIET_ROUNDS and time.monotonic() < deadline:
            _await_ends(self._struck.values(), deadline)
            quiet = 0 if self._strike() else quiet + 1

    def _strike(self) -> int:
        """Kill those that are there now; how many were not known before."""
        fresh = 0
        for pid in self._list_pids():
            # It may end while we look.
            with contextlib.suppress(OSError):
                if pid in self._struck or not self._is_member(pid):
                    continue
                handle = os.pidfd_open(pid)
                # The number may have come to mean another process before there was a handle.
                if not self._is_member(pid):
                    os.close(handle)
                    continue
                self._struck[pid] = handle
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                fresh += 1
        return fresh


def _await_ends(handles: Iterable[int], deadline: float) -> None:
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
        poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        poll.unregister(handle)
