"""Programs under a syscall filter, started without the product's launch server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import repotrial
from repotrial.isolation._launch_server._descriptors import receive_with_descriptors
from repotrial.syscalls import SyscallPolicy, build_filter, find_machine

DROPPED = 65534
"""As the product does: root becomes a user without rights, others stay what they are."""
_CHILD = r"""
import os, socket, sys
sys.path.insert(0, sys.argv[1])
from repotrial._core import kernel
from repotrial.isolation._launch_server._descriptors import send_with_descriptors
channel, user = socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3])
channel.set_inheritable(False)
with os.fdopen(int(sys.argv[4]), "rb") as stream:
    program = stream.read()
if not os.getuid():
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
os.chdir("/")
kernel.refuse_new_privileges()
if program:
    listener = kernel.install_filter(program, with_listener=True)
    send_with_descriptors(channel, b"\0", [listener])
    os.close(listener)
os.execve(sys.argv[5], sys.argv[5:], dict(os.environ))
"""


class Filtered(NamedTuple):
    """A program that runs."""

    process: subprocess.Popen[bytes]
    listener: int | None
    """For a supervisor, which must be started at once: the program waits for it from its first call on."""


def start_filtered(
    argv: Sequence[str],
    policy: SyscallPolicy | None,
    *,
    variables: Mapping[str, str],
    pass_fds: Sequence[int] = (),
    output: int = subprocess.DEVNULL,
) -> Filtered:
    """Start a program by its absolute path, without input, in a session of its own."""
    reader, writer = os.pipe()
    os.write(writer, b"" if policy is None else build_filter(policy, machine=find_machine()))
    os.close(writer)
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            numbers = (str(theirs.fileno()), str(DROPPED), str(reader))
            root = str(Path(repotrial.__file__).parents[1])
            process = subprocess.Popen(
                [sys.executable, "-S", "-c", _CHILD, root, *numbers, *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(*pass_fds, theirs.fileno(), reader),
                env=dict(variables),
                cwd="/",
                start_new_session=True,
            )
        os.close(reader)
        # Without a filter the end of the channel says that the program has started.
        _, descriptors = receive_with_descriptors(ours, 1)
    assert bool(descriptors) == (policy is not None), "the program could not be put under its filter"
    return Filtered(process, descriptors[0] if descriptors else None)
