"""Programs that the harness starts for a run: told as they end, kept beside what they made (Q8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.files import write_atomic
from repotrial._core.words import EndCause
from repotrial.isolation import CommandResult, StreamCapture
from repotrial.trace import ExitStatus, ExitUnknown, NotStarted

_KEPT_BYTES: Final = 64 * 1024
_MOST_BYTES: Final = 64 * 1024**2


Purpose: TypeAlias = Literal["provision", "set-up", "service", "control", "obtain"]


class HostExecution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One program, from its start to its end."""

    purpose: Purpose
    name: str
    """The tool, the step or the service."""
    step: int | None = None
    """Which step of Setup, from 0."""
    argv: tuple[str, ...]
    cwd: str
    exit: ExitStatus
    cause: EndCause = "ended"
    started_at_us: int
    ended_at_us: int
    cpu_us: int | None = None
    ceiling_us: int | None = None
    stdout: StreamCapture
    stderr: StreamCapture


Telling: TypeAlias = Callable[[HostExecution], None]
_TELL: ContextVar[Telling | None] = ContextVar("executions", default=None)


@contextmanager
def telling(tell: Telling) -> Iterator[None]:
    """What this thread starts while this lasts is told; an outer listener hears it as well."""
    outer = _TELL.get()

    def tell_both(execution: HostExecution) -> None:
        tell(execution)
        if outer is not None:
            outer(execution)

    token = _TELL.set(tell_both)
    try:
        yield
    finally:
        _TELL.reset(token)


def find_telling() -> Telling | None:
    """Where executions go now: for programs that end in another thread."""
    return _TELL.get()


def tell_execution(execution: HostExecution) -> None:
    """Put one program on record, if there is one."""
    if (tell := _TELL.get()) is not None:
        tell(execution)


def capture(data: bytes) -> StreamCapture:
    """A whole stream, its beginning kept."""
    return StreamCapture(prefix=data[:_KEPT_BYTES], digest=digest_bytes(data), length_bytes=len(data))


def build_execution(
    purpose: Purpose, name: str, argv: tuple[str, ...], result: CommandResult, *, started_us: int
) -> HostExecution:
    """A command in a sandbox, no more of its streams than is kept."""
    stdout, stderr = (
        msgspec.structs.replace(stream, prefix=stream.prefix[:_KEPT_BYTES])
        for stream in (result.stdout, result.stderr)
    )
    return HostExecution(
        purpose=purpose,
        name=name,
        argv=argv,
        cwd=".",
        exit=result.exit,
        cause=result.cause,
        started_at_us=started_us,
        ended_at_us=started_us + result.usage.wall_us,
        cpu_us=result.usage.cpu_us,
        stdout=stdout,
        stderr=stderr,
    )


def tell_obtained(
    name: str, argv: tuple[str, ...], *, started_us: int, digest: Digest, size_bytes: int, problem: str = ""
) -> None:
    """Put on record that a file was fetched or unpacked: what was asked for, and what came of it (Q8).

    Args:
        name: What it is for.
        argv: What was done, and with what; no program ran.
        started_us: When it began.
        digest: Of what came.
        size_bytes: Its size.
        problem: Why nothing came; empty if something did.
    """
    tell_execution(
        HostExecution(
            purpose="obtain",
            name=name,
            argv=argv,
            cwd=".",
            exit=NotStarted(reason=problem) if problem else ExitUnknown(reason="no program ran"),
            started_at_us=started_us,
            ended_at_us=SystemClock().now_us(),
            stdout=StreamCapture(prefix=b"", digest=digest, length_bytes=size_bytes),
            stderr=capture(b""),
        )
    )


def save_executions(path: Path, executions: list[HostExecution]) -> None:
    """Keep the record of what made something beside it."""
    write_atomic(path, msgspec.json.encode(executions), mode=0o600)


def load_executions(path: Path) -> list[HostExecution] | None:
    """Read it back; None where an older release, which kept none, made the thing."""
    try:
        with path.open("rb") as stream:
            return msgspec.json.decode(stream.read(_MOST_BYTES), type=list[HostExecution])
    except (OSError, msgspec.MsgspecError):
        return None
