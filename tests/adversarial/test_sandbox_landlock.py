"""Attempts to get out of level L1, which has no namespaces: each against the real kernel, by a harness that
is root and by one that is an ordinary user.

What this level does not promise is named here too, so that nobody takes it for more than it is.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from adversarial.test_sandbox_escapes import make_attempts
from repotrial.sandbox._label import parse_label
from repotrial.sandbox._launch_server._landlock import read_landlock_abi
from repotrial.sandbox._workspace import remove_tree
from support.harness import (
    HARNESSES,
    HEADLESS,
    HarnessProcess,
    list_host_processes,
    make_workspace,
    start_harness,
)
from support.waiting import wait_until

NEEDED_ABI: Final = 6

ATTEMPTS: Final = {
    "read-a-secret-outside": "open(os.environ['HOST_FILE'])",
    "list-a-directory-outside": "os.listdir(os.path.dirname(os.environ['HOST_FILE']))",
    "follow-a-link-out-of-the-workspace": "os.symlink(os.environ['HOST_FILE'], 'l'); open('l')",
    "link-a-file-from-outside": "os.link(os.environ['HOST_FILE'], 'hard')",
    "write-beside-the-workspace": "open('../planted', 'w')",
    "write-in-the-shared-tmp": "open('/tmp/repotrial-planted', 'w')",
    "write-in-the-shared-memory": "open('/dev/shm/repotrial-planted', 'w')",
    "truncate-a-file-outside": "os.truncate(os.environ['HOST_OPEN_FILE'], 0)",
    "rename-a-file-outside": "os.rename(os.environ['HOST_OPEN_FILE'], 'taken')",
    "list-the-homes": "any_of(lambda: os.listdir('/root'), lambda: os.listdir('/home'))",
    "read-the-shadow-file": "open('/etc/shadow')",
    "connect-to-a-listener": "socket.create_connection(('127.0.0.1', int(os.environ['HOST_PORT'])), 3)",
    "listen-for-the-network": "socket.create_server(('127.0.0.1', 0))",
    "send-a-datagram": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "resolve-a-name": "socket.getaddrinfo('repotrial.invalid', 80)",
    "reach-a-socket-file": "socket.socket(socket.AF_UNIX).connect(os.environ['HOST_SOCKET'])",
    "reach-a-socket-file-from-a-pair": """
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.connect(os.environ['HOST_DATAGRAM_SOCKET'])""",
    "reconnect-a-pair": "socket.socketpair()[0].connect(os.environ['HOST_SOCKET'])",
    "reach-an-abstract-socket": "socket.socket(socket.AF_UNIX).connect('\\0' + os.environ['HOST_ABSTRACT'])",
    "become-root": "os.setuid(0)",
    "run-a-setuid-program": """
    need(subprocess.run(["su", "-c", "id -u"], input=b"", capture_output=True).returncode == 0)""",
    "gain-privileges-by-execution": "need('NoNewPrivs:\\t1' not in open('/proc/self/status').read())",
    "trace-the-harness": "check(libc.ptrace(16, int(os.environ['HOST_PID']), 0, 0))",
    "trace-a-process-of-the-same-user": "check(libc.ptrace(16, int(os.environ['VICTIM_PID']), 0, 0))",
    "kill-a-process-of-the-same-user": "os.kill(int(os.environ['VICTIM_PID']), 9)",
    "kill-the-harness": "os.kill(int(os.environ['HOST_PID']), 9)",
    "signal-the-keeper": """
    # The first process is the leader of its session, and the only one whose files can be read.
    status = open(f"/proc/{os.getsid(0)}/stat").read()
    os.kill(int(status.rpartition(")")[2].split()[1]), 0)""",
    "read-the-harness's-environment": "open(f\"/proc/{os.environ['HOST_PID']}/environ\", 'rb').read()",
    "read-the-environment-of-pid-1": "open('/proc/1/environ', 'rb').read()",
    "make-a-user-namespace": "check(libc.unshare(0x10000000))",
    "make-a-device": "os.mknod('m', stat.S_IFCHR | 0o600, os.makedev(1, 1))",
    "write-a-control-group": """
    any_of(*(lambda d=d: open(f"/sys/fs/cgroup/{d}cgroup.procs", "w") for d in ("", "memory/", "pids/")))""",
    "write-a-kernel-setting": "open('/proc/sys/kernel/core_pattern', 'w')",
    "use-an-inherited-descriptor": """
    def is_open(number):
        try:
            return os.fstat(number)
        except OSError:
            return None
    need([number for number in range(3, 3000) if is_open(number)])""",
    "raise-a-hard-limit": """
    import resource
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    check(libc.setrlimit(resource.RLIMIT_NPROC, struct.pack("=QQ", hard, hard + 1)))""",
}
CLAIMED: Final = 34
"""How many attempts there must at least be; a number that only grows."""


class Played(NamedTuple):
    results: dict[str, str]
    place: Path


@pytest.fixture(scope="module", params=HARNESSES)
def harness(request: pytest.FixtureRequest) -> Iterator[HarnessProcess]:
    if read_landlock_abi() < NEEDED_ABI:
        pytest.skip(f"Landlock ABI {read_landlock_abi()}: these attempts are stopped from {NEEDED_ABI} on")
    with start_harness(request.param) as started:
        yield started


@contextlib.contextmanager
def start_victim(owner: int | None) -> Iterator[subprocess.Popen[bytes]]:
    """A process of whoever programs inside are, that is none of theirs."""
    victim = subprocess.Popen(["/bin/sleep", "600"], user=owner, cwd="/")
    try:
        yield victim
    finally:
        victim.kill()
        victim.wait()


@pytest.fixture(scope="module")
def played(harness: HarnessProcess) -> Iterator[Played]:
    """Make every attempt, once."""
    place = Path(tempfile.mkdtemp(prefix="repotrial-test-")).resolve()
    place.chmod(0o755)
    for name in ("secret", "open"):
        (place / name).write_text("only-on-the-host", encoding="utf-8")
        (place / name).chmod(0o666)
        harness.give(place / name)
    owner = harness.owner if os.geteuid() == 0 else None
    with (
        start_victim(owner) as victim,
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_UNIX) as abstract,
        make_workspace(harness) as workspace,
        harness.sandbox(workspace, level="L1") as sandbox,
    ):
        listener.settimeout(0)
        abstract.bind(f"\0repotrial-test-{place.name}")
        abstract.listen()
        for channel, name in ((named, "socket"), (datagrams, "datagrams")):
            channel.bind(str(place / name))
            (place / name).chmod(0o777)
        named.listen()
        variables = {
            "HOST_FILE": str(place / "secret"),
            "HOST_OPEN_FILE": str(place / "open"),
            "HOST_SOCKET": str(place / "socket"),
            "HOST_DATAGRAM_SOCKET": str(place / "datagrams"),
            "HOST_ABSTRACT": f"repotrial-test-{place.name}",
            "HOST_PORT": str(listener.getsockname()[1]),
            "HOST_PID": str(harness.process.pid),
            "VICTIM_PID": str(victim.pid),
        }
        results = make_attempts(sandbox, ATTEMPTS, variables)
        # Whatever was said inside: nothing arrived outside.
        with pytest.raises(BlockingIOError):
            listener.accept()
        assert victim.poll() is None
        yield Played(results, place)
    remove_tree(place)


@pytest.mark.parametrize("name", ATTEMPTS)
def test_attempt_is_stopped(played: Played, name: str) -> None:
    assert played.results[name].startswith("stopped"), played.results[name]


def test_every_attempt_was_made(played: Played) -> None:
    assert len(played.results) == len(ATTEMPTS) >= CLAIMED


def test_nothing_outside_has_changed(played: Played) -> None:
    assert {path.name for path in played.place.iterdir()} == {"secret", "open", "socket", "datagrams"}
    assert (played.place / "open").read_text(encoding="utf-8") == "only-on-the-host"


def test_a_success_would_be_noticed(harness: HarnessProcess) -> None:
    attempts = {
        "work": "open('made', 'w').close(); os.mkdir('d'); os.rename('made', 'd/made')",
        "scratch": "open(os.environ['TMPDIR'] + '/x', 'w'); open(os.environ['HOME'] + '/y', 'w')",
        "pair": "one, other = socket.socketpair(); one.send(b'x'); assert other.recv(1) == b'x'",
    }
    with make_workspace(harness) as workspace, harness.sandbox(workspace, level="L1") as sandbox:
        assert make_attempts(sandbox, attempts, {}) == dict.fromkeys(attempts, "escaped")


def test_the_read_stage_holds_for_commands_that_begin_in_it(harness: HarnessProcess) -> None:
    with (
        make_workspace(harness, {"kept": "x"}) as workspace,
        harness.sandbox(workspace, level="L1", stage="read") as sandbox,
    ):
        for script in (": > new", ": > kept", "rm kept", "mv kept other"):
            assert sandbox.shell(f"({script}) 2>/dev/null")["exit"] != {"kind": "exited", "code": 0}
        assert sandbox.shell("cat kept")["stdout"]["prefix"] == "x"
        sandbox.call("enter_stage", "write")
        assert sandbox.shell(": > new")["exit"] == {"kind": "exited", "code": 0}
        sandbox.call("enter_stage", "read")
        assert sandbox.shell("(: > later) 2>/dev/null")["exit"] != {"kind": "exited", "code": 0}
        assert sorted(path.name for path in workspace.iterdir()) == ["kept", "new"]


def test_a_program_that_may_write_keeps_the_read_stage_away(harness: HarnessProcess) -> None:
    with make_workspace(harness) as workspace, harness.sandbox(workspace, level="L1") as sandbox:
        sandbox.shell("setsid sleep 611 > /dev/null 2>&1 &")
        with pytest.raises(Exception, match="WritersError"):
            sandbox.call("enter_stage", "read")
        assert sandbox.shell(": > still")["exit"] == {"kind": "exited", "code": 0}


SURVIVORS: Final = """\
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            os.closerange(0, 100)
            os.execv("/bin/sleep", ["sleep", "{seconds}"])
        os._exit(0)
open("ready", "w").close()
time.sleep(3600)
"""


def test_nothing_survives_a_timeout(harness: HarnessProcess) -> None:
    seconds = str(7_000_000 + os.getpid())
    with make_workspace(harness) as workspace, harness.sandbox(workspace, level="L1") as sandbox:
        result = sandbox.python(SURVIVORS.replace("{seconds}", seconds), timeout_seconds=8)
        assert result["cause"] == "timeout"
        assert result["exit"]["kind"] == "timed-out"
        assert (workspace / "ready").exists()
        assert list_host_processes([seconds]) == []
        assert sandbox.shell("exit 4")["exit"] == {"kind": "exited", "code": 4}


def test_ending_its_first_thread_does_not_make_a_program_immortal(harness: HarnessProcess) -> None:
    """The kernel shows such a process as dead, and its other threads go on."""
    with make_workspace(harness) as workspace, harness.sandbox(workspace, level="L1") as sandbox:
        result = sandbox.python(HEADLESS, timeout_seconds=5)
        assert (workspace / "headless").exists()
        assert result["cause"] == "timeout"
        assert sandbox.shell("exit 4")["exit"] == {"kind": "exited", "code": 4}


def test_nothing_survives_the_end_of_the_sandbox(harness: HarnessProcess) -> None:
    seconds = str(8_000_000 + os.getpid())
    with make_workspace(harness) as workspace:
        with harness.sandbox(workspace, level="L1") as sandbox:
            sandbox.shell(f"setsid sleep {seconds} > /dev/null 2>&1 &")
            assert wait_until(lambda: list_host_processes([seconds]))
        assert list_host_processes([seconds]) == []


def test_nothing_survives_the_death_of_the_harness() -> None:
    if read_landlock_abi() < NEEDED_ABI:
        pytest.skip("no Landlock that scopes signals")
    seconds = str(9_000_000 + os.getpid())
    with start_harness("user") as mortal, make_workspace(mortal) as workspace:
        mortal.open(workspace, level="L1").start(f"setsid sleep {seconds} & sleep {seconds}")
        assert wait_until(lambda: len(list_host_processes([seconds])) > 1)
        mortal.process.kill()
        assert wait_until(lambda: not list_host_processes([seconds]))
        # Its scratch directory is one of those that the next start removes.
        (left,) = [path for path in mortal.scratch.iterdir() if parse_label(path.name)]
        assert left.stat().st_uid == mortal.uid


FORK_BOMB: Final = """\
import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.05)
"""


def test_a_fork_bomb_is_bounded_and_named(harness: HarnessProcess) -> None:
    with (
        make_workspace(harness) as workspace,
        harness.sandbox(workspace, level="L1", limits={"processes": 40}) as sandbox,
    ):
        result: dict[str, Any] = sandbox.python(FORK_BOMB)
        assert result["cause"] == "processes"
        assert sandbox.shell("echo alive")["stdout"]["prefix"] == "alive\n"


def test_what_this_level_does_not_promise_is_known(harness: HarnessProcess) -> None:
    """Landlock closes neither names nor modes: an agent at this level learns that a file is there."""
    with make_workspace(harness) as workspace, harness.sandbox(workspace, level="L1") as sandbox:
        assert sandbox.shell("test -e /etc/shadow")["exit"] == {"kind": "exited", "code": 0}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"test_tools": ["/usr/bin/env"]}, "tools to mask"),
        ({"listener_port": 18080}, "no listener"),
        ({"binds": [{"source": "/usr", "target": "/opt/usr"}]}, "at its own path"),
    ],
)
def test_what_it_cannot_give_is_refused_and_not_left_out(
    harness: HarnessProcess, fields: dict[str, Any], reason: str
) -> None:
    with make_workspace(harness) as workspace, pytest.raises(Exception, match=reason):
        harness.open(workspace, level="L1", **fields)
