"""Level L0: programs as plain subprocesses, with nothing between them and the machine.

For authors who look at their own contract on their own machine, and for machines where nothing else works.
Nobody gets here by accident, and nothing measured here can be compared with anything.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Final, Self

from repotrial.sandbox._capture import OutputBudget, StreamReader
from repotrial.sandbox._identity import find_identity
from repotrial.sandbox._model import (
    WORKSPACE,
    Capabilities,
    CommandResult,
    CommandSpec,
    Level,
    SandboxSpec,
    Stage,
    Usage,
)
from repotrial.trace import Exited, ExitStatus, NotStarted, Signaled, TimedOut

__all__ = ["PLAIN_CAPABILITIES", "PlainSandbox", "UnsandboxedWarning"]

PLAIN_CAPABILITIES: Final = Capabilities(
    level=Level.L0,
    network="open",
    has_overlay=False,
    has_stages=False,
    syscall_audit="none",
    memory_limit="none",
    cpu_meter="none",
    disk_limit="none",
    freezer="none",
    has_images=False,
)


class UnsandboxedWarning(UserWarning):
    """Programs run without any isolation."""


class PlainSandbox:
    """No sandbox: the workspace is a directory, and programs may do what the user may do.

    The workspace keeps its own path; `/workspace` is understood only as the directory where a command runs.
    A root harness still gives programs the account that sandboxes have.
    """

    def __init__(self, spec: SandboxSpec) -> None:
        self._spec = spec
        self._identity = find_identity()

    @property
    def capabilities(self) -> Capabilities:
        return PLAIN_CAPABILITIES

    def run(self, command: CommandSpec) -> CommandResult:
        """Run one program; what it leaves behind in its process group is killed."""
        begun = time.monotonic()
        budget = OutputBudget(command.output_bytes)
        output, output_end = os.pipe2(os.O_CLOEXEC)
        error, error_end = os.pipe2(os.O_CLOEXEC)
        streams = [
            StreamReader(pipe, prefix_bytes=command.prefix_bytes, budget=budget) for pipe in (output, error)
        ]
        try:
            process = self._start(command, output_end, error_end)
        except (OSError, ValueError, subprocess.SubprocessError) as failure:
            status: ExitStatus = NotStarted(reason=f"{command.argv[0]}: {failure}")
            is_late = False
        else:
            is_late = _listen(process, streams, budget, command.timeout_seconds)
            status = _end(process)
        finally:
            os.close(output_end)
            os.close(error_end)
        if is_late:
            status = TimedOut(ceiling_us=(command.timeout_seconds or 0) * 1_000_000)
        stdout, stderr = (stream.close() for stream in streams)
        return CommandResult(
            exit=status,
            cause="timeout" if is_late else "output" if budget.is_exceeded else "ended",
            stdout=stdout,
            stderr=stderr,
            usage=Usage(wall_us=round((time.monotonic() - begun) * 1_000_000)),
        )

    def enter_stage(self, stage: Stage) -> None:
        """Nothing is enforced at this level, as `capabilities.has_stages` says."""

    def freeze(self) -> None:
        """Nothing that we know of runs between commands."""

    def resume(self) -> None:
        """See `freeze`."""

    def close(self) -> None:
        """Every command has ended its own processes, as far as they can be found."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, command: CommandSpec, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
        is_root = not os.geteuid()
        return subprocess.Popen(
            command.argv,
            cwd=self._locate(command.cwd),
            env={**self._spec.variables, **command.variables},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            user=self._identity.uid if is_root else None,
            group=self._identity.gid if is_root else None,
            extra_groups=[] if is_root else None,
        )

    def _locate(self, cwd: str) -> Path:
        inside = PurePosixPath(cwd)
        if inside.is_relative_to(WORKSPACE):
            return self._spec.workspace / inside.relative_to(WORKSPACE)
        return Path(cwd)


def _listen(
    process: subprocess.Popen[bytes], streams: list[StreamReader], budget: OutputBudget, seconds: int | None
) -> bool:
    """Read until the program ends; whether it was late."""
    deadline = None if seconds is None else time.monotonic() + seconds
    poll = select.poll()
    pidfd = os.pidfd_open(process.pid)
    readers = {stream.fileno(): stream for stream in streams}
    for descriptor in (pidfd, *readers):
        poll.register(descriptor, select.POLLIN)
    try:
        while not budget.is_exceeded:
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            ready = [descriptor for descriptor, _ in poll.poll(left)]
            for descriptor in ready:
                if descriptor in readers and not readers[descriptor].read():
                    poll.unregister(descriptor)
            if pidfd in ready:
                # Whatever it has printed is there by now; what outlives it is not waited for.
                for stream in streams:
                    stream.drain()
                return False
            if not ready:
                return True
        return False
    finally:
        os.close(pidfd)


def _end(process: subprocess.Popen[bytes]) -> ExitStatus:
    """Kill the whole process group, and learn how the program ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    return Exited(code=code) if code >= 0 else Signaled(signal=-code)
