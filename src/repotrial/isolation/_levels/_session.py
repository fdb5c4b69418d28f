"""An open sandbox: bubblewrap around a first process that only waits, and a way in for commands.

Commands are started from outside, by a process that has entered the sandbox's namespaces. Starting them
costs about a millisecond, and nothing that runs inside stands between a program and its exit status. One
bubblewrap for each command would cost five times as much, and commands would not see each other's
processes, listeners and scratch files, as they do on any machine.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from repotrial._core.closing import Closing
from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.words import Stage
from repotrial.isolation._identity import claim_account
from repotrial.isolation._launch_server._messages import CommandOrder, send_order
from repotrial.isolation._launch_server._processes import ProcessTable
from repotrial.isolation._levels._bubblewrap import Engine, build_order
from repotrial.isolation._levels._bubblewrap_process import PendingBubblewrap
from repotrial.isolation._levels._command import CommandWatch, execute_command
from repotrial.isolation._levels._launcher import Launcher
from repotrial.isolation._levels._stages import (
    RetryWriters,
    WriterPolicy,
    mask,
    open_listener,
    set_read_only,
    signal_sandbox,
    unmask,
)
from repotrial.isolation._model import WORKSPACE, Capabilities, CommandResult, CommandSpec, SandboxSpec
from repotrial.isolation._resources._cgroups import Cgroup
from repotrial.isolation._resources._command_members import CommandMembers
from repotrial.isolation._resources._freezer import (
    CgroupV1Freezer,
    CgroupV2Freezer,
    Freezer,
    SignalFreezer,
    freeze_or_resume,
)
from repotrial.isolation._resources._limits import DiskWatch, build_process_limits
from repotrial.isolation._resources._meters import ResourceMeter, ResourceSample, Sampler
from repotrial.isolation._resources._sandbox_processes import iter_sandbox_pids
from repotrial.syscalls import RecordSink, SupervisorPolicy, SyscallSupervisor, WitnessFacts

_MEGABYTE: Final = 1024**2
_END_SECONDS: Final = 40.0


SANDBOX_LOST = ErrorCode(
    "sandbox-lost",
    MachineError,
    "The sandbox is closed, or was ended because it was not known any more what ran in it.",
    hint="Open a new sandbox. If it was lost, the result of the last command says so.",
)
SANDBOX_END = ErrorCode(
    "sandbox-end",
    MachineError,
    "The processes of a sandbox were killed, but the kernel did not confirm in time that they are gone.",
    hint="Look for processes in uninterruptible sleep; they end when what they wait for comes.",
)


class BubblewrapSandbox(Closing):
    """A sandbox of level L3 or L2, open until it is closed.

    Args:
        spec: What is wanted.
        engine: What the machine has.
        launcher: Starts it.
        sink: Takes what the syscall supervisor sees, in a thread of its own.
        on_writers: What a change to the read stage does about programs that are writing.

    Raises:
        SANDBOX_START: It could not be started.
    """

    def __init__(
        self,
        spec: SandboxSpec,
        engine: Engine,
        *,
        launcher: Launcher,
        sink: RecordSink | None = None,
        on_writers: WriterPolicy = RetryWriters(),  # noqa: B008 - immutable
    ) -> None:
        self._spec = spec
        self._engine = engine
        self._on_writers = on_writers
        has_process_group = engine.site.version("pids") is not None
        self._limits = build_process_limits(spec.limits, has_process_group=has_process_group)
        self._lock = threading.Lock()
        self._idle = threading.Condition()
        self._running = 0
        self._samplers: list[Sampler] = []
        self._is_open = True
        self._is_ended = False
        self._is_lost = False
        self._stage: Stage = spec.stage
        self._tools_masked = False
        with contextlib.ExitStack() as opened:
            self._group = Cgroup(engine.site, spec.limits) if engine.has_group else None
            if self._group is not None:
                opened.callback(self._group.remove)
            own = claim_account() if engine.has_own_accounts else None
            if own is not None:
                opened.callback(own.close)
            pending = PendingBubblewrap(
                build_order(spec, engine),
                launcher=launcher,
                group=self._group,
                account=None if own is None else own.account,
            )
            opened.callback(pending.discard)
            self._entry = pending.entry
            opened.callback(self._entry.close)
            opened.callback(self._entry.end)
            self._process = pending.wait()
            opened.callback(self._process.close)
            opened.callback(self._end)
            table, syscalls = self._entry.enter(self._process)
            self._table = ProcessTable(table)
            opened.callback(self._table.close)
            self._supervisor: SyscallSupervisor | None = None
            if syscalls is not None:
                self._supervisor = _supervise(syscalls, sink or _discard_record, spec.listener_port)
                opened.callback(self._supervisor.stop)
            self.listener: socket.socket | None = None
            if spec.listener_port is not None:
                self.listener = open_listener(self.pid, spec.listener_port)
                opened.callback(self.listener.close)
            if spec.test_tools and spec.stage != "test":
                mask(self._process.init.pid, spec.test_tools)
                self._tools_masked = True
            self._watch = self._build_watch()
            self._opened = opened.pop_all()

    @property
    def capabilities(self) -> Capabilities:
        return self._engine.capabilities

    @property
    def pid(self) -> int:
        """PID 1 of the sandbox, as the host counts."""
        return self._process.init.pid

    @property
    def stage(self) -> Stage:
        return self._stage

    def run(self, command: CommandSpec) -> CommandResult:
        """Run one program to its end.

        Raises:
            SANDBOX_LOST: The sandbox is closed, or was lost.
        """
        order = CommandOrder(
            argv=[*command.argv],
            cwd=command.cwd,
            variables={**self._spec.variables, **command.variables},
            limits=self._limits,
        )
        with self._count_run():
            ending = execute_command(
                lambda *descriptors: send_order(self._entry.channel, order, descriptors),
                command,
                self._watch,
            )
        if ending.is_sandbox_lost:
            self._is_lost = True
            self.close()
        return ending.result

    def sample(
        self, take: Callable[[ResourceSample], None], *, interval_ms: int, is_immediate: bool = True
    ) -> Sampler:
        """Look at what everything inside uses, at this rate, until the sampler or the sandbox is closed."""
        overlay = self._spec.overlay
        with self._lock:
            self._verify_open()
            sampler = Sampler(
                self._watch.meter,
                take,
                interval_ms=interval_ms,
                directory=self._spec.workspace if overlay is None else overlay.upper,
                is_immediate=is_immediate,
            )
            self._samplers.append(sampler)
        return sampler

    def enter_stage(self, stage: Stage) -> None:
        """Change privileges; returns only after the change is in force.

        Raises:
            WORKSPACE_WRITERS: Programs are writing, and the workspace stays writable.
            SANDBOX_LOST: The sandbox is closed, or was lost.
        """
        with self._lock:
            self._verify_open()
            tools = self._spec.test_tools
            if tools and stage != "test" and not self._tools_masked:
                mask(self.pid, tools)
                self._tools_masked = True
            if (stage == "read") != (self._stage == "read"):
                self._set_read_only(is_read_only=stage == "read")
            if tools and stage == "test" and self._tools_masked:
                unmask(self.pid, tools)
                self._tools_masked = False
            self._stage = stage

    @property
    def witness(self) -> WitnessFacts | None:
        return None if self._supervisor is None else self._supervisor.facts

    def end_command(self, command: int) -> int | None:
        """Kill every process of a command, by its number, while everything else inside stands still.

        Raises:
            SANDBOX_LOST: The sandbox is closed, or was lost.
        """
        self._verify_open()
        supervisor = self._supervisor
        if supervisor is None or supervisor.facts.parents != "number":
            return None
        members = CommandMembers(self._list_pids, lambda pid: supervisor.find_command(pid) == command)
        return members.kill(self._build_freezer())

    def freeze(self) -> None:
        """Pause everything inside."""
        self._verify_open()
        freeze_or_resume(self._build_freezer())

    def resume(self) -> None:
        self._verify_open()
        self._build_freezer().resume()

    def close(self) -> None:
        """End everything inside; returns after the last process is gone. Idempotent.

        Raises:
            SANDBOX_END: The kernel did not confirm it in time.
            SUPERVISOR_LOST: The supervisor had failed before.
        """
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
        try:
            self._end()
        finally:
            # Threads that still read from what we are about to close learn first that it is over.
            with self._idle:
                self._idle.wait_for(lambda: not self._running, _END_SECONDS)
            for sampler in self._samplers:
                sampler.end()
            self._opened.close()

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

    def _end(self) -> None:
        """Kill everything; its descriptors stay, since other threads may be using them. Idempotent."""
        if self._is_ended:
            return
        if self._group is not None:
            self._group.thaw()
        self._entry.end()
        if not self._process.end():
            raise SANDBOX_END.error("expected every process of the sandbox to be gone, found some left")
        self._is_ended = True

    def _verify_open(self) -> None:
        if not self._is_open:
            found = "lost" if self._is_lost else "closed"
            raise SANDBOX_LOST.error(f"expected an open sandbox, found it {found}")

    def _build_watch(self) -> CommandWatch:
        limits, overlay = self._spec.limits, self._spec.overlay
        changes = self._spec.workspace if overlay is None else overlay.upper
        given = [bind for bind in self._spec.binds if bind.is_writable and bind.source.is_dir()]
        places = [WORKSPACE, *(bind.target for bind in given)]
        return CommandWatch(
            meter=ResourceMeter(self._table, limits, self._group),
            disk=None
            if limits.disk_mb is None
            else DiskWatch(
                changes,
                *(bind.source for bind in given),
                limit_bytes=limits.disk_mb * _MEGABYTE,
                measure_nameless=lambda: self._table.measure_nameless(places),
            ),
            deadline=None if limits.wall_seconds is None else time.monotonic() + limits.wall_seconds,
        )

    def _set_read_only(self, *, is_read_only: bool) -> None:
        set_read_only(
            self.pid,
            WORKSPACE,
            is_read_only=is_read_only,
            on_writers=self._on_writers,
            freezer=self._build_freezer(),
        )

    def _build_freezer(self) -> Freezer:
        group = self._group
        version = None if group is None else group.version("freezer")
        if group is None or version is None:
            return SignalFreezer(self._list_pids, broadcast=lambda number: signal_sandbox(self.pid, number))
        directory = group.directories["freezer"]
        return CgroupV2Freezer(directory) if version == "cgroup-v2" else CgroupV1Freezer(directory)

    def _list_pids(self) -> list[int]:
        # Not the first process: it waits anyway, and must notice when we are gone.
        return [pid for pid in iter_sandbox_pids(self.pid) if pid != self.pid]


def _supervise(listener: int, sink: RecordSink, port: int | None) -> SyscallSupervisor:
    # Bubblewrap is not under this filter, so nothing has to be let through for it.
    policy = SupervisorPolicy(has_bootstrap=False, asks_on_port=port)
    supervisor = SyscallSupervisor(listener, sink=sink, policy=policy)
    supervisor.start()
    return supervisor


def _discard_record(_: object) -> None:
    """Refused all the same."""
