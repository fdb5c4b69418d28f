"""Devices and settings are each sandbox's own: nothing inside changes them, and they carry nothing across."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import repotrial
from repotrial._core.words import Level
from repotrial.isolation import BubblewrapSandbox, CommandSpec, Missing, SandboxSpec
from repotrial.isolation._levels._back_ends.bubblewrap import find_engine
from repotrial.isolation._levels._launcher import Launcher
from support.accounts import public_directory
from support.harness import (
    HARNESSES,
    HarnessProcess,
    RemoteSandbox,
    make_workspace,
    require_sandboxes,
    start_harness,
)
from support.waiting import wait_until

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
OWN = ("/etc", "/etc/passwd", "/dev", "/dev/shm", "/dev/pts")
HOLD_LOCK = """
import fcntl, os, time
fcntl.flock(os.open("{place}", os.O_RDONLY), fcntl.LOCK_EX)
open("ready", "x")
time.sleep(300)
"""
HOLD_LEASE = """
import fcntl, os, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
try:
    fcntl.fcntl(os.open("/etc/passwd", os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK)
except OSError:
    open("refused", "x")
open("ready", "x")
time.sleep(300)
"""
WATCH = """
import ctypes, os
watch = ctypes.CDLL(None).inotify_init()
IN_OPEN = 0x20
assert ctypes.CDLL(None).inotify_add_watch(watch, b"{place}", IN_OPEN) > 0
open("ready", "x")
os.read(watch, 4096)
open("seen", "x")
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


def test_a_terminal_can_be_had_and_is_not_seen_elsewhere(
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
        "ls /sys",
        "mknod /dev/shm/disk b 8 0",
    ],
)
def test_nothing_inside_changes_its_own_mounts(sandbox: RemoteSandbox, attack: str) -> None:
    ending = sandbox.shell(attack)["exit"]
    assert ending["kind"] == "exited"
    assert ending["code"] != 0


def start_listener(sandbox: RemoteSandbox, workspace: Path, program: str) -> None:
    """A program inside that goes on once it says so, by a file in its workspace."""
    (workspace / "program.py").write_text(program, "utf-8")
    sandbox.start("exec python3 program.py")
    assert wait_until((workspace / "ready").exists), "the program inside is not ready"


@pytest.mark.parametrize("place", OWN)
def test_a_lock_is_not_seen_from_another_sandbox(
    harness: HarnessProcess, sandbox: RemoteSandbox, place: str
) -> None:
    with make_workspace(harness, {}) as path, harness.sandbox(path) as other:
        start_listener(other, path, HOLD_LOCK.format(place=place))
        assert other.shell(f"flock --nonblock {place} true")["exit"] == {"kind": "exited", "code": 1}
        assert sandbox.shell(f"flock --nonblock {place} true")["exit"] == {"kind": "exited", "code": 0}


@pytest.mark.parametrize("place", OWN)
def test_opening_a_file_is_not_seen_from_another_sandbox(
    harness: HarnessProcess, sandbox: RemoteSandbox, place: str
) -> None:
    with make_workspace(harness, {}) as path, harness.sandbox(path) as other:
        start_listener(other, path, WATCH.format(place=place))
        opened = f"import os; os.close(os.open({place!r}, os.O_RDONLY))"
        sandbox.python(opened)
        assert not (path / "seen").exists()
        other.python(opened)
        assert wait_until((path / "seen").exists), "the watch does not even see its own sandbox"


def test_a_lease_on_a_setting_keeps_no_other_sandbox_waiting(
    harness: HarnessProcess, sandbox: RemoteSandbox
) -> None:
    with make_workspace(harness, {}) as path, harness.sandbox(path) as other:
        start_listener(other, path, HOLD_LEASE)
        # The kernel lets an open wait for the holder of a lease, 45 seconds by default.
        assert "sandbox" in said(sandbox.shell("cat /etc/passwd", timeout_seconds=20))
        assert (path / "refused").exists()


def test_settings_are_those_that_every_sandbox_has(sandbox: RemoteSandbox) -> None:
    assert said(sandbox.shell("id -un; getent hosts localhost | wc -l; ls /etc/shadow 2>&1 | wc -l")) == (
        "sandbox\n1\n1\n"
    )
    shown = set(said(sandbox.shell("ls /etc")).split())
    assert {"passwd", "group", "hosts", "nsswitch.conf"} <= shown
    assert not shown & {"shadow", "hostname", "machine-id", "resolv.conf", "fstab"}


def test_numbers_of_namespaces_that_were_left_are_not_held_against_a_later_one() -> None:
    # As soon as a namespace is empty, the kernel gives its number to the next.
    code = (
        "import os, sys\n"
        f"sys.path.insert(0, {str(SOURCES)!r})\n"
        "from repotrial.isolation._launch_server import _confine\n"
        "before = dict(_confine.find_own_namespaces())\n"
        "_confine.make_private_mounts('/sys')\n"
        "after = _confine.find_own_namespaces()\n"
        "for name in ('mnt', 'user'):\n"
        "    assert after[name] == os.stat(f'/proc/self/ns/{name}').st_ino != before[name]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_many_sandboxes_at_once_are_not_in_each_others_way() -> None:
    engine = find_engine(Level.L3)
    assert not isinstance(engine, Missing)
    with public_directory() as path, Launcher() as launcher, ThreadPoolExecutor(12) as pool:
        spec = SandboxSpec(workspace=path)

        def visit(_: int) -> None:
            with BubblewrapSandbox(spec, engine, launcher=launcher) as opened:
                opened.run(CommandSpec(argv=("/bin/true",)))

        assert [*pool.map(visit, range(120))] == [None] * 120
