"""Attempts to get out of a sandbox, or to reach what is not inside: each against the real back end, by a
harness that is root and by one that is an ordinary user.

Attempts on the kernel's calls are in `test_sandbox_system_calls`; on the workspace, in
`test_sandbox_workspace`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from repotrial.sandbox._workspace import remove_tree
from support.harness import (
    HARNESSES,
    SECRET,
    SOURCES,
    HarnessProcess,
    RemoteSandbox,
    make_workspace,
    start_harness,
)

FILE_CONTENT: Final = "only-on-the-host"

# Runs inside, and makes each attempt in a process of its own. One that comes to its end has succeeded; an
# error of the kernel means that it was stopped.
FRAME: Final = """\
import ctypes, json, os, signal, socket, stat, struct, subprocess, sys, textwrap, time
libc = ctypes.CDLL(None, use_errno=True)
def check(value):
    if value < 0:
        raise OSError(ctypes.get_errno(), "refused")
def need(condition):
    if not condition:
        raise OSError(0, "nothing there")
def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
def others():
    return [pid for pid in pids() if pid not in (os.getpid(), os.getppid())]
def ours():
    # Processes of the harness: their parent is outside.
    found = [pid for pid in others() if pid != 1 and b"\\nPPid:\\t0\\n" in read(f"/proc/{pid}/status")]
    assert found, "expected at least the one that started us"
    return found
def read(path):
    with open(path, "rb", buffering=0) as stream:
        return stream.read(100_000)
def write(path, data):
    with open(path, "wb", buffering=0) as stream:
        stream.write(data)
def any_of(*attempts):
    errors = []
    for attempt in attempts:
        try:
            return attempt()
        except OSError as error:
            errors.append(error)
    raise errors[-1]
def make(code):
    names = dict(globals())
    exec("def attempt():\\n" + textwrap.indent(textwrap.dedent(code), "    "), names)
    try:
        names["attempt"]()
    except OSError as error:
        return f"stopped: {error}"
    except BaseException as error:
        return f"broken: {error!r}"
    return "escaped"
for name, code in json.loads(sys.argv[1]).items():
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        os.dup2(writer, 3000)
        os.close(writer)
        signal.alarm(20)
        outcome = make(code)
        os.write(3000, outcome.encode())
        os._exit(0)
    os.close(writer)
    outcome = os.read(reader, 4096).decode()
    os.close(reader)
    os.waitpid(child, 0)
    print(json.dumps([name, outcome]), flush=True)
"""

ATTEMPTS: Final = {
    # 1 to 4: files of the host
    "write-etc-passwd": "open('/etc/passwd', 'a')",
    "replace-etc-passwd": "open('/tmp/p', 'w').close(); os.rename('/tmp/p', '/etc/passwd')",
    "create-in-usr-bin": "open('/usr/bin/planted', 'w')",
    "create-in-etc": "open('/etc/planted', 'w')",
    "create-in-the-root": "open('/planted', 'w')",
    "create-in-dev": "open('/dev/planted', 'w')",
    "change-a-mode-in-usr": "os.chmod('/usr/bin/env', 0o777)",
    "read-a-file-of-the-host": "open(os.environ['HOST_FILE'])",
    "list-the-homes": "any_of(lambda: os.listdir('/root'), lambda: os.listdir('/home'))",
    "read-the-shadow-file": "open('/etc/shadow')",
    "see-accounts-of-the-host": "need(b'daemon' in read('/etc/passwd'))",
    "climb-out-of-the-root": "open('../' * 30 + os.environ['HOST_FILE'][1:])",
    # 5 to 9: what /proc shows
    "read-environment-of-pid-1": "read('/proc/1/environ')",
    "read-command-line-of-pid-1": "need(os.environ['HOST_SOURCES'].encode() in read('/proc/1/cmdline'))",
    "read-root-of-pid-1": "open('/proc/1/root' + os.environ['HOST_FILE'])",
    "read-cwd-of-pid-1": "os.listdir('/proc/1/cwd')",
    "read-memory-of-pid-1": "open('/proc/1/mem', 'rb')",
    "list-descriptors-of-pid-1": "os.listdir('/proc/1/fd')",
    "find-the-secret-in-any-environment": """
    for pid in pids():
        try:
            found = read(f"/proc/{pid}/environ")
        except OSError:
            continue
        if b"do-not-leak-me" in found:
            return
    need(False)""",
    "find-paths-of-the-host-in-any-command-line": """
    words = [os.environ["HOST_SOURCES"].encode(), b"site-packages", b"harness_process"]
    need(any(word in read(f"/proc/{pid}/cmdline") for pid in others() for word in words))""",
    "find-paths-of-the-host-in-any-memory-map": """
    for pid in others():
        try:
            maps = read(f"/proc/{pid}/maps")
        except OSError:
            continue
        if os.environ["HOST_SOURCES"].encode() in maps or b"libpython" in maps:
            return
    need(False)""",
    "open-memory-of-our-processes": """
    any_of(*(lambda pid=pid: open(f"/proc/{pid}/mem", "r+b") for pid in ours()))""",
    "open-descriptors-of-our-processes": """
    any_of(*(lambda pid=pid: os.listdir(f"/proc/{pid}/fd") for pid in ours()))""",
    "press-the-magic-key": "write('/proc/sysrq-trigger', b'h')",
    "write-a-kernel-setting": "open('/proc/sys/kernel/core_pattern', 'w')",
    "change-the-host-name-through-proc": "write('/proc/sys/kernel/hostname', b'x')",
    "read-kernel-memory": "any_of(lambda: open('/proc/kcore', 'rb'), lambda: open('/proc/kmsg', 'rb'))",
    # 20: processes
    "see-processes-of-the-host": """
    need(any(b"harness_process" in read(f"/proc/{pid}/cmdline") for pid in others()))""",
    "see-many-processes": "need(len(pids()) > 6)",
    # 21 to 26: the network
    "reach-a-service-on-the-host's-loopback": (
        "socket.create_connection(('127.0.0.1', int(os.environ['HOST_PORT'])), 3)"
    ),
    "reach-a-service-of-another-sandbox": (
        "socket.create_connection(('127.0.0.1', int(os.environ['OTHER_PORT'])), 3)"
    ),
    "reach-the-host's-loopback-over-version-6": (
        "socket.create_connection(('::1', int(os.environ['HOST_PORT'])), 3)"
    ),
    "send-a-datagram-to-the-host's-loopback": """
    channel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    channel.connect(("127.0.0.1", int(os.environ["HOST_DATAGRAM_PORT"])))
    channel.send(b"x")
    channel.settimeout(1)
    channel.recv(1)""",
    "resolve-a-name": "socket.getaddrinfo('repotrial.invalid', 80)",
    "have-an-interface-besides-loopback": "need([name for _, name in socket.if_nameindex() if name != 'lo'])",
    "reach-an-abstract-socket-of-the-host": """
    channel = socket.socket(socket.AF_UNIX)
    channel.connect("\\0" + os.environ["HOST_ABSTRACT"])""",
    "reach-a-socket-file-of-the-host": """
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(os.environ["HOST_SOCKET"])""",
    "reach-well-known-sockets": """
    channel = socket.socket(socket.AF_UNIX)
    paths = ["/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock"]
    paths.append("/run/dbus/system_bus_socket")
    any_of(*(lambda path=path: channel.connect(path) for path in paths))""",
    "route-elsewhere": """
    channel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    message = struct.pack("=IHHII", 28, 16, 5, 1, 0) + struct.pack("=BxHiII", 0, 0, 1, 0, 1)
    channel.send(message)
    answer = channel.recv(4096)
    check(-1 if struct.unpack_from("=i", answer, 16)[0] else 0)""",
    # 40 to 46: devices, privileges, descriptors
    "make-a-block-device": "os.mknod('/tmp/b', stat.S_IFBLK | 0o600, os.makedev(254, 0))",
    "make-a-character-device": "os.mknod('/workspace/m', stat.S_IFCHR | 0o600, os.makedev(1, 1))",
    "read-a-disk": """
    names = ("vda", "sda", "nvme0n1", "mem")
    any_of(*(lambda name=name: open(f"/dev/{name}", "rb") for name in names))""",
    "become-root": "os.setuid(0)",
    "become-somebody-else": "os.setresuid(2000, 2000, 2000)",
    "run-a-setuid-program": """
    done = subprocess.run(["su", "-c", "id -u"], input=b"", capture_output=True)
    need(done.returncode == 0)""",
    "gain-by-a-setuid-bit-of-our-own": """
    import shutil
    shutil.copy("/usr/bin/id", "/workspace/id")
    os.chmod("/workspace/id", 0o6755)
    need(subprocess.run(["/workspace/id", "-u"], capture_output=True).stdout.strip() == b"0")""",
    "have-a-capability": """
    lines = open("/proc/self/status").read().splitlines()
    need(any(int(line.split()[1], 16) for line in lines if line.startswith("Cap")))""",
    "gain-privileges-by-execution": "need('NoNewPrivs:\\t1' not in open('/proc/self/status').read())",
    "write-a-control-group": """
    any_of(*(lambda d=d: open(f"/sys/fs/cgroup/{d}cgroup.procs", "w") for d in ("", "memory/", "pids/")))""",
    "see-hardware": "need(os.listdir('/sys'))",
    "read-the-kernel-log": """
    any_of(lambda: open("/dev/kmsg"), lambda: check(libc.klogctl(3, b"x" * 100, 100)))""",
    "set-the-clock": "time.clock_settime(time.CLOCK_REALTIME, time.time() + 100)",
    "set-the-host-name": "socket.sethostname('x')",
    "find-a-terminal": "open('/dev/tty')",
    "type-into-a-terminal": """
    import fcntl
    master, slave = os.openpty()
    fcntl.ioctl(slave, 0x5412, b"x")""",
    "truncate-the-record-of-the-output": "os.ftruncate(1, 0)",
    "reopen-the-output-as-a-file": "need(not stat.S_ISFIFO(os.stat('/proc/self/fd/1').st_mode))",
    "seek-in-the-output": "os.lseek(1, 0, 0)",
    "use-an-inherited-descriptor": """
    found = []
    for number in range(3, 3000):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(number)
    need(found)""",
    "read-the-standard-input": "need(os.read(0, 1))",
    "reach-a-directory-through-the-standard-input": "need(os.readlink('/proc/self/fd/0') != '/dev/null')",
    # 50 and 51: the workspace
    "follow-a-link-out-of-the-workspace": """
    os.symlink(os.environ["HOST_FILE"], "/workspace/link")
    open("/workspace/link")""",
    "link-a-file-from-outside": "os.link('/usr/bin/env', '/workspace/env')",
    "leave-a-file-of-root": """
    open("/workspace/mine", "w").close()
    os.chown("/workspace/mine", 0, 0)""",
    # namespaces and limits
    "make-a-user-namespace": "check(libc.unshare(0x10000000))",
    "raise-a-hard-limit": """
    import resource
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    check(libc.setrlimit(resource.RLIMIT_NPROC, struct.pack("=QQ", hard, hard + 1)))""",
    "raise-the-priority": "os.nice(-5)",
    "spare-oneself-when-memory-runs-out": "write('/proc/self/oom_score_adj', b'-1000')",
    "kill-everything-outside": "os.kill(-os.getpid() - 100_000, 9)",
}
CLAIMED: Final = 60
"""How many attempts there must at least be; a number that only grows."""


class Scene(NamedTuple):
    """What there is to reach on the host."""

    variables: dict[str, str]
    datagrams: socket.socket
    listener: socket.socket


class Played(NamedTuple):
    results: dict[str, str]
    workspace: Path
    owner: int


@contextlib.contextmanager
def set_scene() -> Iterator[Scene]:
    place = Path(tempfile.mkdtemp(prefix="repotrial-test-")).resolve()
    place.chmod(0o755)
    file = place / "secret"
    file.write_text(FILE_CONTENT, encoding="utf-8")
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
    ):
        datagrams.bind(("127.0.0.1", 0))
        datagrams.settimeout(0)
        listener.settimeout(0)
        abstract.bind(f"\0repotrial-test-{place.name}")
        abstract.listen()
        named.bind(str(place / "socket"))
        (place / "socket").chmod(0o777)
        named.listen()
        yield Scene(
            {
                "HOST_FILE": str(file),
                "HOST_SOURCES": str(SOURCES),
                "HOST_PORT": str(listener.getsockname()[1]),
                "HOST_DATAGRAM_PORT": str(datagrams.getsockname()[1]),
                "HOST_ABSTRACT": f"repotrial-test-{place.name}",
                "HOST_SOCKET": str(place / "socket"),
            },
            datagrams,
            listener,
        )
    remove_tree(place)


def play(harness: HarnessProcess, level: str) -> Iterator[Played]:
    """Make every attempt, once."""
    with (
        set_scene() as scene,
        make_workspace(harness) as workspace,
        make_workspace(harness) as elsewhere,
        harness.sandbox(elsewhere, level=level, listener_port=18999),
        harness.sandbox(workspace, level=level) as sandbox,
    ):
        variables = {**scene.variables, "OTHER_PORT": "18999"}
        results = make_attempts(sandbox, ATTEMPTS, variables)
        # Whatever was said inside: nothing arrived outside.
        with pytest.raises(BlockingIOError):
            scene.datagrams.recv(1)
        with pytest.raises(BlockingIOError):
            scene.listener.accept()
        yield Played(results, workspace, harness.owner)


def make_attempts(
    sandbox: RemoteSandbox, attempts: dict[str, str], variables: dict[str, str]
) -> dict[str, str]:
    """What came of each."""
    argv = ("/usr/bin/python3", "-c", FRAME, json.dumps(attempts))
    result = sandbox.run(*argv, variables=variables, prefix_bytes=10**6, timeout_seconds=100)
    assert result["exit"] == {"kind": "exited", "code": 0}, result
    return dict(json.loads(line) for line in result["stdout"]["prefix"].splitlines())


@pytest.fixture(scope="module", params=HARNESSES)
def played(request: pytest.FixtureRequest) -> Iterator[Played]:
    with start_harness(request.param) as harness:
        yield from play(harness, "L3")


@pytest.fixture(scope="module", params=HARNESSES)
def played_without_overlay(request: pytest.FixtureRequest) -> Iterator[Played]:
    with start_harness(request.param) as harness:
        yield from play(harness, "L2")


@pytest.mark.parametrize("name", ATTEMPTS)
def test_attempt_is_stopped(played: Played, name: str) -> None:
    assert played.results[name].startswith("stopped")


def test_every_attempt_was_made(played: Played) -> None:
    assert len(played.results) == len(ATTEMPTS) >= CLAIMED


def test_every_attempt_is_stopped_at_level_2(played_without_overlay: Played) -> None:
    outcomes = played_without_overlay.results
    assert len(outcomes) == len(ATTEMPTS)
    assert {name: outcome for name, outcome in outcomes.items() if not outcome.startswith("stopped")} == {}


def test_what_the_agent_leaves_never_belongs_to_root(played: Played) -> None:
    assert (played.workspace / "id").stat().st_uid == played.owner != 0


def test_a_success_would_be_noticed() -> None:
    """The attempts would be worth nothing if a success looked like a failure."""
    with (
        start_harness("user") as harness,
        make_workspace(harness) as workspace,
        harness.sandbox(workspace) as sandbox,
    ):
        outcomes = make_attempts(sandbox, {"write": "open('/workspace/allowed', 'w')", "error": "1 / 0"}, {})
    assert outcomes == {"write": "escaped", "error": "broken: ZeroDivisionError('division by zero')"}


def test_the_secret_is_really_there() -> None:
    with start_harness("user") as harness:
        harness.state()
        environment = Path(f"/proc/{harness.process.pid}/environ").read_bytes()
    assert f"{SECRET}=do-not-leak-me".encode() in environment
