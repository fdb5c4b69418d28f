"""Real sandboxes for tests of the kernel's side: bubblewrap by its own options, and a program inside that
does what it is told.

Nothing here is the product's launcher; it is the shortest way to a live sandbox with every layer in place.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from repotrial._core.errors import MachineError
from repotrial.syscalls import (
    ProhibitedRecord,
    RecordSink,
    SupervisorPolicy,
    SyscallPolicy,
    SyscallRecord,
    SyscallSupervisor,
    build_numbers,
    find_machine,
)
from support.filtered import DROPPED, start_filtered

PYTHON: Final = "/usr/bin/python3"
_SECONDS: Final = 120.0
_SYSCALLS: Final = SyscallPolicy()
_SUPERVISION: Final = SupervisorPolicy()
_READ: Final = str(build_numbers(find_machine())["read"])

# Runs inside: executes what it is sent, answers with `result` or with the error.
_PUPPET: Final = """\
import ctypes, errno, json, os, socket, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in (number, *arguments)]
    value = libc.syscall(*words)
    return "ok" if value >= 0 else errno.errorcode[ctypes.get_errno()]
channel = socket.socket(fileno=int(sys.argv[1]))
channel.set_inheritable(False)
names = dict(globals())
stream = channel.makefile("rw")
for line in stream:
    names["result"] = None
    try:
        exec(json.loads(line), names)
        answer = {"result": names["result"]}
    except OSError as error:
        answer = {"result": errno.errorcode.get(error.errno, "OSError")}
    except BaseException as error:
        answer = {"failure": repr(error)}
    stream.write(json.dumps(answer) + "\\n")
    stream.flush()
"""


class Puppet:
    """A program inside a live sandbox."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        channel.settimeout(_SECONDS)
        self._stream = channel.makefile("rw")
        self.pid = pid
        """PID 1 of the sandbox, as the host counts."""
        self.records: list[SyscallRecord] = []
        self.supervisor: SyscallSupervisor | None = None
        self.process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        self._stream.close()

    def tell(self, code: str) -> None:
        """Start something without waiting for its end."""
        self._stream.write(json.dumps(code) + "\n")
        self._stream.flush()

    def answer(self) -> Any:
        line = self._stream.readline()
        if not line:
            raise EOFError("the program inside is gone")
        answer = json.loads(line)
        assert "failure" not in answer, answer
        return answer["result"]

    def do(self, code: str) -> Any:
        """Run code inside; its `result`, or the name of the error that the kernel gave."""
        self.tell(code)
        return self.answer()

    def prohibited(self, call: str) -> list[ProhibitedRecord]:
        """What is on record about a call that was refused."""
        return [r for r in self.records if isinstance(r, ProhibitedRecord) and r.call == call]


def require_bubblewrap() -> None:
    """Skip where this machine has no bubblewrap; where it has, user namespaces must work too."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if not Path(PYTHON).exists():
        pytest.skip(f"no {PYTHON} to run inside")
    with contextlib.suppress(OSError):
        if Path("/proc/sys/user/max_user_namespaces").read_text(encoding="ascii").strip() == "0":
            pytest.skip("user namespaces are switched off")


@contextlib.contextmanager
def make_directory() -> Iterator[Path]:
    """A directory that the sandbox's user owns and can reach."""
    path = Path(tempfile.mkdtemp(prefix="repotrial-test-"))
    try:
        path.chmod(0o755)
        if os.getuid() == 0:
            os.chown(path, DROPPED, DROPPED)
        yield path
    finally:
        shutil.rmtree(path)


def build_options(workspace: Path, *, is_writable: bool = True) -> list[str]:
    options = ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    options += ["--cap-drop", "ALL", "--ro-bind", "/usr", "/usr"]
    for name in ("bin", "lib", "lib64", "sbin"):
        if Path("/", name).is_symlink():
            options += ["--symlink", str(Path("/", name).readlink()), f"/{name}"]
        elif Path("/", name).is_dir():
            options += ["--ro-bind", f"/{name}", f"/{name}"]
    options += ["--proc", "/proc", "--dev", "/dev"]
    for size, place in ((16, "/dev/shm"), (64, "/tmp"), (16, "/run")):
        options += ["--size", str(size << 20), "--tmpfs", place]
    options += ["--bind" if is_writable else "--ro-bind", str(workspace), "/workspace", "--remount-ro", "/"]
    options += ["--chdir", "/workspace", "--hostname", "sandbox", "--clearenv"]
    return [*options, "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--setenv", "HOME", "/tmp"]


@contextlib.contextmanager
def open_puppet(
    workspace: Path,
    *,
    syscalls: SyscallPolicy | None = _SYSCALLS,
    supervision: SupervisorPolicy = _SUPERVISION,
    sink: RecordSink | None = None,
    is_writable: bool = True,
    interfere: Callable[[int], object] = lambda _: None,
    on_ready: Callable[[SyscallSupervisor], object] = lambda _: None,
) -> Iterator[Puppet]:
    """A sandbox with a puppet in it.

    Args:
        workspace: Appears as /workspace.
        syscalls: The filter, supervised; None for none.
        supervision: How the supervisor behaves.
        sink: Takes what the supervisor saw; by default the puppet's own list.
        is_writable: Whether /workspace is.
        interfere: Called with the pid before the puppet starts, when the sandbox is built.
        on_ready: The same, with the supervisor.
    """
    with contextlib.ExitStack() as stack:
        ours, theirs = socket.socketpair()
        stack.enter_context(ours)
        status_read, status_write = os.pipe()
        block_read, block_write = os.pipe()
        options = build_options(workspace, is_writable=is_writable)
        options += ["--json-status-fd", str(status_write), "--block-fd", str(block_read)]
        arguments = _write_arguments(options)
        passed = (theirs.fileno(), status_write, block_read, arguments)
        argv = ["bwrap", "--args", str(arguments), PYTHON, "-c", _PUPPET, str(theirs.fileno())]
        try:
            started = start_filtered(
                (shutil.which("bwrap") or "", *argv[1:]), syscalls, variables={}, pass_fds=passed
            )
        finally:
            theirs.close()
            for descriptor in passed[1:]:
                os.close(descriptor)
        records: list[SyscallRecord] = []
        supervisor = None
        if started.listener is not None:
            supervisor = SyscallSupervisor(started.listener, sink=sink or records.append, policy=supervision)
            supervisor.start()
        stack.callback(_end, started.process, supervisor, (status_read, block_write))
        puppet = Puppet(ours, _read_child_pid(status_read))
        stack.callback(_end_inside, os.pidfd_open(puppet.pid), started.process)
        puppet.records, puppet.supervisor, puppet.process = records, supervisor, started.process
        stack.callback(puppet.close)
        _await_mounts(puppet.pid)
        interfere(puppet.pid)
        if supervisor is not None:
            on_ready(supervisor)
        os.write(block_write, b"x")
        assert puppet.do("result = os.getpid()") > 1
        yield puppet


def _write_arguments(options: Sequence[str]) -> int:
    descriptor = os.memfd_create("options")
    os.write(descriptor, b"".join(option.encode() + b"\0" for option in options))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _read_child_pid(descriptor: int) -> int:
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(descriptor, 1)
        assert chunk, "bubblewrap ended before it said anything"
        line += chunk
    return int(json.loads(line)["child-pid"])


def _await_mounts(pid: int) -> None:
    """Bubblewrap tells its child's pid before it has built the sandbox."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            is_mounted = " /workspace " in Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8")
            # In `read`: it waits for us.
            if is_mounted and Path(f"/proc/{pid}/syscall").read_text(encoding="ascii").split()[0] == _READ:
                return
        time.sleep(0.001)
    raise TimeoutError("the sandbox was not built in time")


def _end_inside(pidfd: int, process: subprocess.Popen[bytes]) -> None:
    """The outer process takes the inner ones with it, but not at the same instant."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    try:
        assert select.select([pidfd], [], [], _SECONDS)[0], "the sandbox outlived its parent"
    finally:
        os.close(pidfd)


def _end(
    process: subprocess.Popen[bytes], supervisor: SyscallSupervisor | None, descriptors: Sequence[int]
) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for descriptor in descriptors:
        os.close(descriptor)
    if supervisor is not None:
        # A test that broke it has seen so already.
        with contextlib.suppress(MachineError):
            supervisor.stop()
