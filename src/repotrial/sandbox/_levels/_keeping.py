"""Programs on the host itself, each below a keeper: what levels without namespaces have in common.

Everything that a command starts stays below its keeper, whatever it does to get away; so it can be measured,
paused and, above all, ended. A keeper that hears nothing more of the harness ends everything by itself.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from repotrial.sandbox._launch_server._boot import build_boot_argv
from repotrial.sandbox._launch_server._kept_table import KeptTable
from repotrial.sandbox._levels._command import CommandWatch, execute_command
from repotrial.sandbox._levels._orders import send_order
from repotrial.sandbox._levels._session import SandboxEndError, SandboxLostError
from repotrial.sandbox._model import CommandResult, CommandSpec, ResourceLimits
from repotrial.sandbox._resources._cgroups import Cgroup, CgroupSite
from repotrial.sandbox._resources._freezer import CgroupV1Freezer, CgroupV2Freezer, Freezer, SignalFreezer
from repotrial.sandbox._resources._limits import DiskWatch
from repotrial.sandbox._resources._meters import Meter

__all__ = ["Keeper", "KeptPrograms"]

_END_SECONDS: Final = 40.0
_PAUSE_SECONDS: Final = 0.002


class Keeper:
    """The parent of one command and of all its orphans, in a process of its own.

    Args:
        order: What to start, and what it has to give up first (`build_order`).
        descriptors: Standard output, standard error, the report, and doors of control groups.
    """

    def __init__(self, order: dict[str, Any], descriptors: Sequence[int]) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                build_boot_argv("_keep_process", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={},
                cwd="/",
                start_new_session=True,
            )
        try:
            send_order(self._channel, order, descriptors)
        except OSError:
            self._process.kill()
            self._process.wait()
            self._channel.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_done(self) -> bool:
        """Whether nothing of the command is left; its number is not given to another before it is buried."""
        if self._process.returncode is not None:
            return True
        try:
            found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # whoever closes the sandbox has just buried it
            return True
        return found is not None

    def hang_up(self) -> None:
        """Let it end everything."""
        self._channel.close()

    def await_end(self, seconds: float) -> bool:
        """Whether it came to its end by itself, which proves that nothing is left."""
        try:
            return self._process.wait(max(0.0, seconds)) == 0
        except subprocess.TimeoutExpired:
            return False


class KeptPrograms:
    """All programs of one sandbox that has no namespaces.

    Args:
        limits: Their ceilings, together.
        site: Where control groups can be made; null for none.
        disk: What looks at the space that they take.
    """

    def __init__(
        self, limits: ResourceLimits, *, site: CgroupSite | None = None, disk: DiskWatch | None = None
    ) -> None:
        self._group = Cgroup(site, limits) if site is not None and site.homes else None
        self._table = KeptTable()
        self._keepers: list[Keeper] = []
        self._lock = threading.Lock()
        self._idle = threading.Condition()
        self._running = 0
        self._is_open = True
        self._watch = CommandWatch(
            meter=Meter(self._table, limits, self._group),
            disk=disk,
            deadline=None if limits.wall_seconds is None else time.monotonic() + limits.wall_seconds,
        )

    def execute(self, order: dict[str, Any], command: CommandSpec) -> CommandResult:
        """Run one program to its end; what it leaves running goes on until all is closed.

        Raises:
            SandboxLostError: All is closed.
        """
        with self._count_run():
            self._forget_done()
            ending = execute_command(
                lambda *descriptors: self._start(order, descriptors), command, self._watch
            )
        if ending.is_sandbox_lost:
            self.close()
        return ending.result

    def await_silence(self, seconds: float) -> bool:
        """Whether everything that was started comes to its end in time."""
        deadline = time.monotonic() + seconds
        while self.list_pids():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE_SECONDS)
        return True

    def list_pids(self) -> list[int]:
        """What runs now.

        Raises:
            SandboxLostError: All is closed.
        """
        self._verify_open()
        return [row.pid for row in self._table.list_processes().values() if row.is_alive]

    def build_freezer(self) -> Freezer:
        """What pauses them.

        Raises:
            SandboxLostError: All is closed.
        """
        self._verify_open()
        version = None if self._group is None else self._group.version("freezer")
        if self._group is None or version is None:
            return SignalFreezer(self.list_pids)
        directory = self._group.directories["freezer"]
        return CgroupV2Freezer(directory) if version == "cgroup-v2" else CgroupV1Freezer(directory)

    def close(self) -> None:
        """End everything; returns after the last process is gone. Twice is once.

        Raises:
            SandboxEndError: Nobody can confirm that they are gone.
        """
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            keepers = [*self._keepers]
        try:
            self._end(keepers)
        finally:
            # Whoever still reads from what we are about to close learns first that it is over.
            with self._idle:
                self._idle.wait_for(lambda: not self._running, _END_SECONDS)
            self._table.close()

    def _end(self, keepers: list[Keeper]) -> None:
        if self._group is not None:
            self._group.thaw()
        for keeper in keepers:
            keeper.hang_up()
        deadline = time.monotonic() + _END_SECONDS
        ends = [keeper.await_end(deadline - time.monotonic()) for keeper in keepers]
        # A control group proves it too, where a keeper was killed.
        is_empty = all(ends) if self._group is None else self._group.end()
        if not is_empty:
            raise SandboxEndError("expected every process of the sandbox to be gone, found some left")

    def _start(self, order: dict[str, Any], descriptors: Sequence[int]) -> None:
        with contextlib.ExitStack() as stack:
            doors = [] if self._group is None else stack.enter_context(self._group.open_doors())
            keeper = Keeper(order, (*descriptors, *doors))
        with self._lock:
            self._table.add_keeper(keeper.pid)
            self._keepers.append(keeper)
            is_late = not self._is_open
        if is_late:
            keeper.hang_up()
            keeper.await_end(_END_SECONDS)

    def _forget_done(self) -> None:
        with self._lock:
            left = []
            for keeper in self._keepers:
                if keeper.is_done():
                    self._table.remove_keeper(keeper.pid)
                    keeper.hang_up()
                    keeper.await_end(0)
                else:
                    left.append(keeper)
            self._keepers = left

    @contextlib.contextmanager
    def _count_run(self) -> Iterator[None]:
        with self._idle:
            self._running += 1
        try:
            self._verify_open()
            yield
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def _verify_open(self) -> None:
        if not self._is_open:
            raise SandboxLostError("expected an open sandbox, found it closed")
