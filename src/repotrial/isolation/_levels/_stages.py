"""Acting on a live sandbox from outside: read-only or writable, tools hidden or shown, a listener inside.

Each function returns only after the change is in force, for every process inside, open directories
included. None of it can be undone from inside.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import time
from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

import msgspec

from repotrial._core.errors import AgentError, ErrorCode, MachineError
from repotrial.isolation._levels._launcher import open_default_helper
from repotrial.isolation._resources._freezer import Freezer, hold_frozen
from repotrial.isolation._resources._sandbox_processes import (
    FileHolder,
    find_openers,
    find_writers,
    iter_sandbox_pids,
)

_PAUSE_SECONDS: Final = 0.002
_SHOWN: Final = 5


SANDBOX_ENTRY = ErrorCode(
    "sandbox-entry",
    MachineError,
    "The harness could not act inside the sandbox: it ended, or the kernel does not allow it here.",
    hint="Check that the sandbox still runs; `repotrial doctor` shows what this machine allows.",
)
WORKSPACE_WRITERS = ErrorCode(
    "workspace-writers",
    AgentError,
    "The workspace cannot become read-only because programs hold files open for writing. It is still "
    "writable, and the stage has not changed.",
    hint="Let the programs end, or choose to wait for them or to end them.",
)
MASK_TOO_LATE = ErrorCode(
    "mask-too-late",
    AgentError,
    "A tool was masked, but a program got hold of it before. It can go on using what it holds.",
    hint="Mask tools before anything runs in the sandbox.",
)


class FailOnWriters(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="fail"):
    """Give up at once."""


class RetryWriters(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="retry"):
    """Try again until they are done."""

    timeout_ms: Annotated[int, msgspec.Meta(ge=1)] = 1000


class KillWriters(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="kill"):
    """End them."""

    timeout_ms: Annotated[int, msgspec.Meta(ge=1)] = 5000
    """How long new ones may keep appearing before it gives up."""


WriterPolicy: TypeAlias = FailOnWriters | RetryWriters | KillWriters


def set_read_only(
    pid: int,
    path: str,
    *,
    is_read_only: bool,
    on_writers: WriterPolicy = FailOnWriters(),  # noqa: B008 - immutable
    freezer: Freezer | None = None,
) -> tuple[FileHolder, ...]:
    """Make a mount of a live sandbox read-only or writable.

    Args:
        pid: A process of the sandbox.
        path: The mount point, as seen inside.
        is_read_only: What it shall be.
        on_writers: What happens to programs that hold files open for writing.
        freezer: Holds the sandbox still while writers are looked for, so that none slips through.

    Returns:
        The writers that were ended for it.

    Raises:
        WORKSPACE_WRITERS: Writers remained; nothing has changed.
        SANDBOX_ENTRY: The sandbox cannot be entered, or has no mount there.
    """
    ended: list[FileHolder] = []
    writers: tuple[FileHolder, ...] = ()
    deadline = time.monotonic() + _allowed_seconds(on_writers)
    while True:
        if _try_read_only(pid, path, is_read_only=is_read_only):
            return tuple(ended)
        with hold_frozen(freezer):
            # What was open for the length of one write may be closed by now.
            if _try_read_only(pid, path, is_read_only=is_read_only):
                return tuple(ended)
            found = find_writers(pid, path)
            dying = _kill(pid, found) if isinstance(on_writers, KillWriters) else []
        # One that was there a moment ago says more than an empty list.
        writers = found or writers
        if dying:
            ended.extend(found)
            _await_ends(dying, deadline)
        if time.monotonic() >= deadline:
            raise WORKSPACE_WRITERS.error(_describe(path, writers), details=writers)
        if not dying:
            time.sleep(_PAUSE_SECONDS)


def mask(pid: int, paths: Iterable[str]) -> None:
    """Make tools of a live sandbox impossible to run, to read and to change, under every name they have.

    Args:
        pid: A process of the sandbox.
        paths: Files or directories, as seen inside.

    Raises:
        MASK_TOO_LATE: They are masked, but a program had one of them open before.
        SANDBOX_ENTRY: One does not exist, or the sandbox cannot be entered; nothing is masked.
    """
    tools = list(paths)
    before = {path: find_openers(pid, path) for path in tools}
    _request(operation="cover", pid=pid, paths=tools)
    holders = tuple(holder for found in before.values() for holder in found)
    if holders:
        raise MASK_TOO_LATE.error(f"masked, but {'; '.join(map(str, holders[:_SHOWN]))}", details=holders)


def unmask(pid: int, paths: Iterable[str]) -> None:
    """Show tools again that `mask` hid.

    Raises:
        SANDBOX_ENTRY: One is not masked, or the sandbox cannot be entered.
    """
    _request(operation="uncover", pid=pid, paths=list(paths))


def signal_sandbox(pid: int, number: int) -> None:
    """Signal everything in a sandbox but its first process, at one instant, also what is just being made.

    Raises:
        SANDBOX_ENTRY: The sandbox cannot be entered.
    """
    _request(operation="signal", pid=pid, number=number)


def _allowed_seconds(policy: WriterPolicy) -> float:
    match policy:
        case FailOnWriters():
            return 0.0
        case RetryWriters(timeout_ms=timeout_ms) | KillWriters(timeout_ms=timeout_ms):
            return timeout_ms / 1000


def _try_read_only(pid: int, path: str, *, is_read_only: bool) -> bool:
    """Whether it is done; not, while files are open for writing."""
    try:
        open_default_helper().request(operation="read-only", pid=pid, path=path, is_read_only=is_read_only)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise SANDBOX_ENTRY.error(f"process {pid}, mount {path}: {error}") from error
    return True


def _request(**fields: object) -> int | None:
    """Act inside, through the helper of this process."""
    try:
        return open_default_helper().request(**fields)
    except OSError as error:
        raise SANDBOX_ENTRY.error(f"process {fields['pid']}: {error}") from error


def _describe(path: str, writers: tuple[FileHolder, ...]) -> str:
    if not writers:
        return f"{path}: expected no writer, found a writer that no process shows"
    more = f" and {len(writers) - _SHOWN} more" if len(writers) > _SHOWN else ""
    return f"{path}: expected no writer, found: {'; '.join(map(str, writers[:_SHOWN]))}{more}"


def _kill(pid: int, writers: Iterable[FileHolder]) -> list[int]:
    """Kill them; descriptors that tell when each is gone."""
    dying: list[int] = []
    for writer in sorted({writer.pid for writer in writers}):
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(writer)
            dying.append(descriptor)
            # Only now is it certain that the number still means a process of this sandbox.
            if writer in iter_sandbox_pids(pid):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    return dying


def _await_ends(dying: list[int], deadline: float) -> None:
    poll = select.poll()
    waiting = set(dying)
    for descriptor in dying:
        poll.register(descriptor, select.POLLIN)
    try:
        while waiting and time.monotonic() < deadline:
            for descriptor, _ in poll.poll(50):
                poll.unregister(descriptor)
                waiting.discard(descriptor)
    finally:
        for descriptor in dying:
            os.close(descriptor)


def open_listener(pid: int, port: int) -> socket.socket:
    """Listen on 127.0.0.1 inside the sandbox of a process.

    Open it before the payload runs (`--block-fd`), or a program inside could take the port first.

    Raises:
        SANDBOX_ENTRY: The port is taken, or the sandbox cannot be entered.
    """
    descriptor = _request(operation="listen", pid=pid, port=port)
    if descriptor is None:
        raise SANDBOX_ENTRY.error(f"process {pid}, port {port}: expected a listener, found none")
    return socket.socket(fileno=descriptor)
