"""Programs at the degraded level (L1): no namespaces, but Landlock, a syscall filter and limits.

Weaker than a sandbox of namespaces, and the manifest says so: processes of the host can be seen, and UDP is
kept away by the filter alone.
"""

from __future__ import annotations

import json
import resource
import socket
import subprocess
from pathlib import Path
from typing import IO, Annotated, Final, TypeAlias

import msgspec

from repotrial._core.errors import MachineError
from repotrial.sandbox._calls._seccomp import SyscallPolicy, build_filter
from repotrial.sandbox._launch_server._boot import build_boot_argv
from repotrial.sandbox._launch_server._kernel import receive_with_descriptors
from repotrial.sandbox._launch_server._landlock import LandlockRules
from repotrial.sandbox._launch_server._syscalls import find_machine
from repotrial.sandbox._model import ResourceLimits

__all__ = [
    "L1_SYSCALLS",
    "Identity",
    "Restriction",
    "RestrictionError",
    "Started",
    "build_order",
    "start_restricted",
]

Output: TypeAlias = int | IO[bytes]

_MEGABYTE: Final = 1024**2
_START_SECONDS: Final = 30.0
_REPLY_BYTES: Final = 1 << 16

L1_SYSCALLS: Final = SyscallPolicy(audit="static", families=())
"""Without a network namespace the filter has to keep the network away; and sockets with a path too, which
Landlock lets through, although whoever listens there may start programs outside."""


class RestrictionError(MachineError):
    """A program could not be started under its restrictions, so it was not started."""

    code = "restriction-failed"
    default_hint = "`repotrial doctor` shows what this machine can enforce."


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Whom the program runs as; only root can choose."""

    uid: Annotated[int, msgspec.Meta(ge=1)]
    gid: Annotated[int, msgspec.Meta(ge=1)]


class Restriction(msgspec.Struct, frozen=True, kw_only=True):
    """What a program may do."""

    landlock: LandlockRules | None
    """Null only where something else closes the file system."""
    syscalls: SyscallPolicy | None = L1_SYSCALLS
    """Null only where something else filters them."""
    limits: ResourceLimits | None = None
    """Per process, except for the number of processes, which counts all of the user."""
    identity: Identity | None = None


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs under its restrictions."""

    process: subprocess.Popen[bytes]
    listener: int | None
    """For a supervisor, where the policy has one."""


def start_restricted(
    argv: tuple[str, ...],
    restriction: Restriction,
    *,
    cwd: Path,
    variables: dict[str, str],
    stdout: Output = subprocess.DEVNULL,
    stderr: Output = subprocess.DEVNULL,
    pass_fds: tuple[int, ...] = (),
) -> Started:
    """Start a program under restrictions, in a session of its own, without input.

    With a supervisor in the policy, the program waits for one from its first call on: start it at once.

    Args:
        argv: The program by its absolute path, and its arguments.
        restriction: What it may do.
        cwd: Where it starts.
        variables: Its whole environment.
        stdout: As for `Popen`.
        stderr: As for `Popen`.
        pass_fds: Descriptors that it inherits.

    Raises:
        RestrictionError: Something could not be enforced, or there is no such program.
    """
    ours, theirs = socket.socketpair()
    ours.settimeout(_START_SECONDS)
    with ours:
        with theirs:
            process = subprocess.Popen(
                build_boot_argv("_restrict_process", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(*pass_fds, theirs.fileno()),
                env={},
                cwd="/",
                start_new_session=True,
            )
        try:
            listener = _instruct(ours, build_order(argv, restriction, cwd=cwd, variables=variables))
        except (OSError, EOFError) as error:
            process.kill()
            process.wait()
            raise RestrictionError(f"{argv[0]}: {error}") from error
    return Started(process=process, listener=listener)


def build_order(
    argv: tuple[str, ...], restriction: Restriction, *, cwd: Path, variables: dict[str, str]
) -> dict[str, object]:
    """What the process that becomes the program is told."""
    identity, syscalls = restriction.identity, restriction.syscalls
    return {
        "argv": argv,
        "variables": variables,
        "cwd": str(cwd),
        "uid": None if identity is None else identity.uid,
        "gid": None if identity is None else identity.gid,
        "limits": [] if restriction.limits is None else _build_limits(restriction.limits),
        "landlock": None if restriction.landlock is None else restriction.landlock._asdict(),
        "filter": None if syscalls is None else build_filter(syscalls, machine=find_machine()).hex(),
        "has_listener": syscalls is not None and syscalls.audit == "notify",
    }


def _build_limits(limits: ResourceLimits) -> list[tuple[int, int]]:
    pairs = [
        (resource.RLIMIT_AS, limits.memory_mb * _MEGABYTE),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_FSIZE, limits.file_mb * _MEGABYTE),
        (resource.RLIMIT_CORE, 0),
    ]
    if limits.cpu_seconds is not None:
        pairs.append((resource.RLIMIT_CPU, limits.cpu_seconds))
    return pairs


def _instruct(channel: socket.socket, order: dict[str, object]) -> int | None:
    """Give the order; the listener, if there is to be one."""
    channel.sendall(json.dumps(order).encode() + b"\n")
    answer, descriptors = receive_with_descriptors(channel, _REPLY_BYTES)
    if descriptors:
        # The program cannot start before a supervisor answers, so nothing more is waited for.
        return descriptors[0]
    if answer:
        raise OSError(json.loads(answer)["message"])
    if order["has_listener"]:
        raise EOFError("expected a listener, found the end of the channel")
    return None
