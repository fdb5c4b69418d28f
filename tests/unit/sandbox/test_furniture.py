"""What all sandboxes of a harness have in common is nobody's to change, and carries nothing across."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import repotrial
from repotrial.sandbox._lean import _furniture
from repotrial.sandbox._levels._launcher import Launcher
from repotrial.sandbox._levels._session import BubblewrapSandbox, Engine
from repotrial.sandbox._machine._probe import find_engine
from repotrial.sandbox._model import CommandSpec, Level, SandboxSpec
from support.accounts import public_directory
from support.harness import (
    HARNESSES,
    HarnessProcess,
    RemoteSandbox,
    make_workspace,
    require_sandboxes,
    start_harness,
)

SOURCES = Path(repotrial.__file__).parents[1]
TERMINAL = """
import os, pty, sys
control, terminal = pty.openpty()
os.write(terminal, b"said\\n")
sys.stdout.write(os.read(control, 100).decode().replace("\\r", "") + os.ttyname(terminal) + "\\n")
sys.stdout.write(" ".join(sorted(os.listdir("/dev/pts"))) + "\\n")
"""


SYSTEM_CALL = (
    "python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None)[sys.argv[1]](sys.argv[2].encode(), 2) != 0)'"
)
LEASE = """
import fcntl, os, sys
for name in ("passwd", "group", "hosts", "nsswitch.conf"):
    try:
        fcntl.fcntl(os.open(f"/etc/{name}", os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        sys.stdout.write(f"{error.errno} ")
"""


@pytest.fixture(autouse=True)
def _capable() -> None:
    require_sandboxes()


@pytest.fixture(scope="module", params=HARNESSES)
def harness(request: pytest.FixtureRequest) -> Iterator[HarnessProcess]:
    with start_harness(request.param) as process:
        yield process


@pytest.fixture
def sandbox(harness: HarnessProcess) -> Iterator[RemoteSandbox]:
    with make_workspace(harness, {"a.txt": "old\n"}) as path, harness.sandbox(path) as opened:
        yield opened


def said(result: dict[str, object]) -> str:
    stream = result["stdout"]
    assert isinstance(stream, dict), result
    return str(stream["prefix"])


def test_there_are_the_usual_devices_and_no_others(sandbox: RemoteSandbox) -> None:
    assert " ".join(said(sandbox.shell("ls /dev")).split()) == (
        "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
    )
    assert said(sandbox.shell("echo x > /dev/null; head -c 2 /dev/zero | od -An -tx1")).split() == ["00"] * 2
    assert len(said(sandbox.shell("head -c 8 /dev/urandom | od -An -tx1")).split()) == 8
    assert said(sandbox.shell("echo through > /dev/stdout; cat /dev/fd/3 3< /etc/hosts | head -c 9")) == (
        "through\n127.0.0.1"
    )


def test_a_terminal_can_be_had_and_is_seen_by_nobody_else(
    harness: HarnessProcess, sandbox: RemoteSandbox
) -> None:
    with make_workspace(harness, {}) as path, harness.sandbox(path) as other:
        other.start("exec script -qec 'sleep 60' /dev/null")
        assert said(sandbox.python(TERMINAL)) == "said\n/dev/pts/0\n0 ptmx\n"


@pytest.mark.parametrize(
    "attack",
    [
        "touch /dev/new",
        "touch /etc/new",
        "rm /dev/null",
        "rm /dev/stdin",
        "echo evil >> /etc/passwd",
        "chmod 666 /etc/hosts",
        "ln -sf /tmp/evil /etc/localtime",
        "mkdir /dev/pts/new",
        "mount -o remount,rw /etc",
        "mount -o remount,rw,bind /dev",
        f"{SYSTEM_CALL} umount2 /dev/null",
        f"{SYSTEM_CALL} umount2 /etc",
        "ls /sys/staging",
        "mknod /dev/shm/disk b 8 0",
    ],
)
def test_nobody_inside_rearranges_the_furniture(sandbox: RemoteSandbox, attack: str) -> None:
    ending = sandbox.shell(attack)["exit"]
    assert ending["kind"] == "exited"
    assert ending["code"] != 0


def test_nobody_gets_a_lease_by_which_everybody_else_would_wait(sandbox: RemoteSandbox) -> None:
    assert said(sandbox.python(LEASE)).split() == [str(errno.EAGAIN)] * 4


def test_settings_are_those_that_every_sandbox_has(sandbox: RemoteSandbox) -> None:
    assert said(sandbox.shell("id -un; getent hosts localhost | wc -l; ls /etc/shadow 2>&1 | wc -l")) == (
        "sandbox\n1\n1\n"
    )
    shown = set(said(sandbox.shell("ls /etc")).split())
    assert {"passwd", "group", "hosts", "nsswitch.conf"} <= shown
    assert not shown & {"shadow", "hostname", "machine-id", "resolv.conf", "fstab"}


def test_where_no_namespace_may_be_made_the_server_stays_where_it_is_and_says_why() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare(1): a namespace without namespaces cannot be made")
    code = (
        "import os, sys\n"
        f"sys.path.insert(0, {str(SOURCES)!r})\n"
        "from repotrial.sandbox._lean._furniture import rehearse_furnishing\n"
        "before = os.readlink('/proc/self/ns/user')\n"
        "print(rehearse_furnishing())\n"
        "assert os.readlink('/proc/self/ns/user') == before\n"
    )
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" -c "$1"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", script, sys.executable, code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "unshare" in done.stdout


def test_numbers_of_namespaces_that_were_left_are_not_held_against_anybody() -> None:
    # As soon as nobody lives in one, the kernel gives its number to the next.
    code = (
        "import os, sys\n"
        f"sys.path.insert(0, {str(SOURCES)!r})\n"
        "from repotrial.sandbox._lean import _confine, _furniture\n"
        "before = dict(_confine.find_own_namespaces())\n"
        "_furniture.furnish()\n"
        "after = _confine.find_own_namespaces()\n"
        "for name in ('mnt', 'user'):\n"
        "    assert after[name] == os.stat(f'/proc/self/ns/{name}').st_ino != before[name]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_many_sandboxes_at_once_are_not_in_each_others_way() -> None:
    engine = find_engine(Level.L3)
    assert isinstance(engine, Engine)
    with public_directory() as path, Launcher() as launcher, ThreadPoolExecutor(12) as pool:
        spec = SandboxSpec(workspace=path)

        def visit(_: int) -> None:
            with BubblewrapSandbox(spec, engine, launcher=launcher) as opened:
                opened.run(CommandSpec(argv=("/bin/true",)))

        assert [*pool.map(visit, range(120))] == [None] * 120


def test_a_rehearsal_that_was_killed_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_furniture, "furnish", lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert "status" in _furniture.rehearse_furnishing()
