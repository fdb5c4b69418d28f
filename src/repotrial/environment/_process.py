"""Programs of the host that the harness itself needs: version questions, package installers.

Each has a time limit, a bound on its output, no input, an environment that is given in full, and a process
group of its own that is killed as a whole. Nothing that an agent wrote is ever started here.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path

import msgspec

from repotrial._core.clock import SystemClock
from repotrial._core.errors import ErrorCode, MachineError, UsageError
from repotrial.environment._executions import HostExecution, capture, tell_execution
from repotrial.isolation import Account
from repotrial.trace import Exited, ExitStatus, ExitUnknown, Signaled

PREPARATION_STOPPED = ErrorCode(
    "preparation-stopped",
    UsageError,
    "The operator stopped the preparation of an environment.",
    hint="start it again: nothing half-made is kept",
)


class Interrupt:
    """One switch for everything that is being prepared under it; safe from every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: list[Callable[[], None]] = []
        self._is_thrown = False

    def throw(self) -> None:
        """End what is being done, and whatever begins from now on. Idempotent."""
        with self._lock:
            self._is_thrown = True
            ends = tuple(self._ends)
        for end in ends:
            end()

    @contextmanager
    def watch(self, end: Callable[[], None]) -> Iterator[None]:
        """While this lasts, throwing the switch calls `end`.

        Raises:
            PREPARATION_STOPPED: it was thrown; whatever was done meanwhile means nothing.
        """
        with self._lock:
            self._ends.append(end)
        try:
            self._verify()
            yield
        except Exception:
            self._verify()  # a failure after the interrupt is the interrupt's
            raise
        finally:
            with self._lock:
                self._ends.remove(end)
        self._verify()

    def _verify(self) -> None:
        if self._is_thrown:
            raise PREPARATION_STOPPED.error("stopped by the operator")


_CURRENT: ContextVar[tuple[Interrupt, ...]] = ContextVar("interrupts", default=())


@contextmanager
def interruptible(interrupt: Interrupt) -> Iterator[None]:
    """What this thread prepares while this lasts can be ended; by an outer switch as well."""
    token = _CURRENT.set((*_CURRENT.get(), interrupt))
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def watch_interrupt(end: Callable[[], None]) -> Iterator[None]:
    """While this lasts, `end` is what ends it, if anything may.

    Raises:
        PREPARATION_STOPPED: it was ended.
    """
    with ExitStack() as stack:
        for interrupt in _CURRENT.get():
            stack.enter_context(interrupt.watch(end))
        yield


_CHUNK_BYTES = 1 << 16


PROGRAM_START = ErrorCode(
    "program-start",
    MachineError,
    "A program that the harness needs could not be started.",
    hint="run `repotrial doctor`: it says what is missing and how to get it",
)
PROGRAM_TIMEOUT = ErrorCode(
    "program-timeout",
    MachineError,
    "A program that the harness started did not end in time; it was killed, with all that it had started.",
    hint="try again when the machine or the connection is less busy, or raise the limit",
)
PROGRAM_OUTPUT = ErrorCode(
    "program-output",
    MachineError,
    "A program that the harness started printed more than it may, and was killed.",
    hint="run the same program by hand to see what it prints",
)


class FinishedProgram(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a program."""

    status: int
    """Exit status; negative for the signal that ended it."""
    stdout: bytes
    stderr: bytes


def current_account() -> Account:
    return Account(uid=os.geteuid(), gid=os.getegid())


def execute_program(
    argv: Sequence[str],
    *,
    variables: Mapping[str, str],
    seconds: int,
    cwd: Path = Path("/"),
    account: Account | None = None,
    output_bytes: int = 8 << 20,
    held_fds: Sequence[int] = (),
) -> FinishedProgram:
    """Run one program of the host to its end.

    Args:
        argv: The program by absolute path, and its arguments.
        variables: Its whole environment.
        seconds: When it is killed.
        cwd: Where it runs.
        account: Whose rights it gets; only root may name another than its own.
        output_bytes: How much it may print, both streams together.
        held_fds: Descriptors that it inherits: a lock stays locked until the last program that holds it ends.

    Raises:
        PROGRAM_START: it could not be started.
        PROGRAM_TIMEOUT: it took too long.
        PROGRAM_OUTPUT: it printed too much.
        PREPARATION_STOPPED: what it was started for was stopped.
    """
    started_us = SystemClock().now_us()
    process = _start(argv, variables=variables, cwd=cwd, account=account, held_fds=held_fds)
    with process:
        try:
            with watch_interrupt(lambda: _kill_group(process)):
                stdout, stderr = _collect(process, seconds=seconds, output_bytes=output_bytes)
        except BaseException as error:
            _kill_group(process)
            _tell(argv, cwd, started_us, seconds, ExitUnknown(reason=f"it was ended: {error}"[:500]))
            raise
    status = process.returncode
    ended = Exited(code=status) if status >= 0 else Signaled(signal=-status)
    _tell(argv, cwd, started_us, seconds, ended, stdout, stderr)
    return FinishedProgram(status=status, stdout=stdout, stderr=stderr)


def _tell(
    argv: Sequence[str],
    cwd: Path,
    started_us: int,
    seconds: int,
    status: ExitStatus,
    *streams: bytes,
) -> None:
    stdout, stderr = (capture(data) for data in (streams or (b"", b"")))
    tell_execution(
        HostExecution(
            purpose="provision",
            name=Path(argv[0]).name,
            argv=tuple(argv),
            cwd=str(cwd),
            exit=status,
            started_at_us=started_us,
            ended_at_us=max(started_us, SystemClock().now_us()),
            ceiling_us=seconds * 1_000_000,
            stdout=stdout,
            stderr=stderr,
        )
    )


def _start(
    argv: Sequence[str],
    *,
    variables: Mapping[str, str],
    cwd: Path,
    account: Account | None,
    held_fds: Sequence[int],
) -> subprocess.Popen[bytes]:
    dropped = account if account is not None and account != current_account() else None
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=tuple(held_fds),
            user=None if dropped is None else dropped.uid,
            group=None if dropped is None else dropped.gid,
            extra_groups=None if dropped is None else [],
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise PROGRAM_START.error(f"expected to start {argv[0]}, found: {error}") from error


def _collect(process: subprocess.Popen[bytes], *, seconds: int, output_bytes: int) -> tuple[bytes, bytes]:
    """Read both streams to their ends; once the program itself has ended, what it left behind is killed."""
    assert process.stdout is not None
    assert process.stderr is not None
    deadline = time.monotonic() + seconds
    buffers = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    # Ready when the program has ended, without reaping it: until then no other process can get its id.
    ended = os.pidfd_open(process.pid)
    with contextlib.closing(os.fdopen(ended, "rb", buffering=0)), selectors.DefaultSelector() as selector:
        for handle in (*buffers, ended):
            selector.register(handle, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise PROGRAM_TIMEOUT.error(f"expected {_name(process)} to end within {seconds} s")
            for key, _ in ready:
                if key.fd == ended:
                    _kill_group(process)
                    selector.unregister(ended)
                elif chunk := os.read(key.fd, _CHUNK_BYTES):
                    buffers[key.fd] += chunk
                else:
                    selector.unregister(key.fd)
            if sum(map(len, buffers.values())) > output_bytes:
                raise PROGRAM_OUTPUT.error(f"expected at most {output_bytes} bytes from {_name(process)}")
    output, errors = buffers.values()
    return bytes(output), bytes(errors)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the program and what it started; it is not reaped yet, so the group is still its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _name(process: subprocess.Popen[bytes]) -> str:
    argv = process.args
    return str(argv[0]) if isinstance(argv, list) else "a program"
