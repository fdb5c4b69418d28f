"""The degraded level: real programs under Landlock, the static filter and limits."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial.sandbox._launch_server._landlock import LandlockRules, read_landlock_abi
from repotrial.sandbox._levels._restricted import Restriction, RestrictionError, start_restricted
from repotrial.sandbox._model import ResourceLimits
from support.bubblewrap import DROPPED, PYTHON, choose_identity, make_directory

SYSTEM = (
    "/usr",
    "/bin",
    "/lib",
    "/lib64",
    "/etc",
    "/proc/self",
    "/dev/null",
    "/dev/urandom",
    "/no/such/path",
)
PRELUDE = "import ctypes, errno, mmap, os, socket, sys, resource\nlibc = ctypes.CDLL(None, use_errno=True)\n"


@pytest.fixture
def workspace() -> Iterator[Path]:
    if not Path(PYTHON).exists():
        pytest.skip(f"no {PYTHON}")
    if read_landlock_abi() == 0:
        pytest.skip("this kernel has no Landlock")
    with make_directory() as path:
        yield path


def run(
    workspace: Path, code: str, *, limits: ResourceLimits | None = None, has_landlock: bool = True
) -> tuple[int, str]:
    """Exit status and output of code under restrictions; errors of the kernel end it with their name."""
    rules = LandlockRules(readable=SYSTEM, writable=(str(workspace), "/dev/null"))
    body = "\n".join(f"    {line}" for line in code.splitlines())
    script = (
        f"{PRELUDE}try:\n{body}\nexcept OSError as e:\n    print(errno.errorcode[e.errno]); sys.exit(9)\n"
    )
    started = start_restricted(
        (PYTHON, "-I", "-c", script),
        Restriction(landlock=rules if has_landlock else None, limits=limits, identity=choose_identity()),
        cwd=workspace,
        variables={"PATH": "/usr/bin:/bin", "HOME": str(workspace)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = started.process.communicate(timeout=60)
    return started.process.returncode, (out + err).decode()


def test_it_works_in_its_workspace(workspace: Path) -> None:
    code = (
        "open('a', 'w').write('x'); os.rename('a', 'b'); os.mkdir('d'); os.rename('b', 'd/b')\n"
        "os.symlink('d', 'link'); os.truncate('d/b', 0)"
    )
    assert run(workspace, code) == (0, "")
    assert sorted(path.name for path in workspace.iterdir()) == ["d", "link"]


def test_it_starts_programs_of_the_system(workspace: Path) -> None:
    code = "import subprocess\nprint(subprocess.check_output(['/bin/sh', '-c', 'echo $((6*7))']))"
    assert run(workspace, code) == (0, "b'42\\n'\n")


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/repotrial-test', 'w')",
        "open('/tmp/repotrial-test', 'w')",
        "os.listdir('/home')",
        "os.listdir('/tmp')",
        "os.mkdir('/var/tmp/repotrial-test')",
        "open('/proc/1/environ', 'rb').read()",
        "os.mknod('null', 0o020666, os.makedev(1, 3))",
    ],
)
def test_everything_outside_is_closed(workspace: Path, code: str) -> None:
    status, output = run(workspace, code)
    assert status == 9
    assert output.strip() in {"EACCES", "EPERM"}


@pytest.mark.parametrize(
    "kind", ["socket.AF_INET", "socket.AF_INET6", "40", "socket.AF_NETLINK", "socket.AF_PACKET"]
)
def test_no_socket_of_the_network_can_be_made(workspace: Path, kind: str) -> None:
    assert run(workspace, f"socket.socket({kind}, socket.SOCK_DGRAM)") == (9, "EAFNOSUPPORT\n")


def test_local_sockets_work(workspace: Path) -> None:
    assert run(workspace, "a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))") == (0, "b'x'\n")


@pytest.mark.parametrize(
    "call",
    ["unshare(0x10000000)", "ptrace(16, 1, 0, 0)", "setns(0, 0)", "chroot(b'/')", "personality(0x40000)"],
)
def test_prohibited_calls_fail(workspace: Path, call: str) -> None:
    assert run(workspace, f"print(libc.{call}, errno.errorcode[ctypes.get_errno()])") == (0, "-1 EPERM\n")


def test_it_cannot_signal_the_harness(workspace: Path) -> None:
    """Landlock's scope, or the other uid: whichever is here."""
    if os.getuid() != 0 and read_landlock_abi() < 6:
        pytest.skip("this Landlock does not scope signals")
    assert run(workspace, f"os.kill({os.getpid()}, 0)") == (9, "EPERM\n")


def test_it_cannot_reach_sockets_of_the_host_by_path_or_name(workspace: Path) -> None:
    """Landlock lets paths of sockets through: there are none to connect, and pairs know only each other."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0repotrial-test-{os.getpid()}")
        listener.listen()
        address = f"'\\0repotrial-test-{os.getpid()}'"
        assert run(workspace, f"socket.socket(socket.AF_UNIX).connect({address})") == (9, "EAFNOSUPPORT\n")
        assert run(workspace, f"socket.socketpair()[0].connect({address})") == (9, "EISCONN\n")
        datagrams = f"socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].connect({address})"
        assert run(workspace, datagrams) == (9, "EAFNOSUPPORT\n")


def test_limits_hold(workspace: Path) -> None:
    limits = ResourceLimits(memory_mb=256, open_files=64, file_mb=1, processes=4096)
    wanted = "[(268435456, 268435456), (64, 64), (1048576, 1048576), (0, 0)]"
    names = "RLIMIT_AS RLIMIT_NOFILE RLIMIT_FSIZE RLIMIT_CORE"
    code = f"print([resource.getrlimit(getattr(resource, name)) for name in '{names}'.split()])"
    assert run(workspace, code, limits=limits) == (0, wanted + "\n")
    assert run(workspace, "mmap.mmap(-1, 512 << 20)", limits=limits)[1].strip() == "ENOMEM"
    status, _ = run(workspace, "open('big', 'wb').write(bytes(2 << 20))", limits=limits)
    assert status in {-signal.SIGXFSZ, 9}


def test_nothing_is_inherited(workspace: Path) -> None:
    leak = os.open("/etc/hostname", os.O_RDONLY)
    try:
        is_open = "os.path.exists(f'/proc/self/fd/{fd}')"
        code = f"print(sorted(int(fd) for fd in os.listdir('/proc/self/fd') if {is_open}))"
        assert run(workspace, code) == (0, "[0, 1, 2]\n")
        assert run(workspace, "print(sorted(os.environ))") == (0, "['HOME', 'LC_CTYPE', 'PATH']\n")
    finally:
        os.close(leak)


def test_new_privileges_are_out_of_reach(workspace: Path) -> None:
    code = "print([l for l in open('/proc/self/status') if l.startswith(('NoNewPrivs', 'Seccomp:'))])"
    assert run(workspace, code) == (0, "['NoNewPrivs:\\t1\\n', 'Seccomp:\\t2\\n']\n")


def test_root_is_left_behind(workspace: Path) -> None:
    expected = DROPPED if os.getuid() == 0 else os.getuid()
    assert run(workspace, "print(os.getresuid(), os.getgroups() if os.getuid() == 65534 else [])") == (
        0,
        f"{(expected,) * 3} []\n",
    )


def test_a_program_that_does_not_exist_is_an_error(workspace: Path) -> None:
    rules = LandlockRules(readable=("/usr",), writable=(str(workspace),))
    with pytest.raises(RestrictionError, match="No such file"):
        start_restricted(("/usr/bin/no-such",), Restriction(landlock=rules), cwd=workspace, variables={})


def test_a_workspace_that_does_not_exist_is_an_error(workspace: Path) -> None:
    rules = LandlockRules(readable=("/usr",), writable=(str(workspace / "none"),))
    with pytest.raises(RestrictionError, match="none"):
        start_restricted(("/usr/bin/true",), Restriction(landlock=rules), cwd=workspace, variables={})


def test_it_starts_from_a_harness_with_threads(workspace: Path) -> None:
    results: list[tuple[int, str]] = []
    threads = [threading.Thread(target=lambda: results.append(run(workspace, "print(1)"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(0, "1\n")] * 4
