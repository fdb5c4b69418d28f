"""Attempts to get out of a sandbox, as data."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from repotrial.isolation import Layer
from repotrial.machine._probe_suite._calls import CALLS

EscapeSign: TypeAlias = Literal["kernel", "connection", "datagram", "planted-file", "owner"]
"""How a success shows: in what the kernel said to a program of ours, which has no reason to lie (`kernel`);
for the others outside as well: something arrives at a listener, a file appears, a file belongs to root."""


class EscapeAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """Something that must not work inside."""

    name: str
    layer: Layer
    program: str
    """The body of a Python function: it reaches its end only by success, unless it leaves an error's name in
    `result`."""
    evidence: EscapeSign = "kernel"
    refusals: frozenset[str] = frozenset()
    """The errors with which the kernel may refuse it; empty for any."""
    recorded: str | None = None
    """The system call that the supervisor must have on record."""

    @property
    def tries(self) -> str:
        """What it tries, in words."""
        return self.name.replace("-", " ")


BOUNDS: Final = {
    "make-a-user-namespace": "check(libc.unshare(0x10000000))",
    "raise-a-hard-limit": """
    import resource
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    check(libc.setrlimit(resource.RLIMIT_NPROC, struct.pack("=QQ", hard, hard + 1)))""",
    "raise-the-priority": "os.nice(-5)",
    "spare-oneself-when-memory-runs-out": "write('/proc/self/oom_score_adj', b'-1000')",
    "kill-everything-outside": "os.kill(-os.getpid() - 100_000, 9)",
}

PRIVILEGES: Final = {
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
    "set-the-clock": "time.clock_settime(time.CLOCK_REALTIME, time.time())",
    "set-the-host-name": "socket.sethostname(socket.gethostname())",
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
}

WORKSPACE: Final = {
    "follow-a-link-out-of-the-workspace": """
    os.symlink(scene["file"], "/workspace/link")
    open("/workspace/link")""",
    "link-a-file-from-outside": "os.link('/usr/bin/env', '/workspace/env')",
    "leave-a-file-of-root": """
    open("/workspace/mine", "w").close()
    os.chown("/workspace/mine", 0, 0)""",
}


FILES: Final = {
    "write-etc-passwd": "open('/etc/passwd', 'a')",
    "move-a-file-into-etc": "open('/tmp/p', 'w').close(); os.rename('/tmp/p', '/etc/planted')",
    "create-in-usr-bin": "open('/usr/bin/planted', 'w')",
    "create-in-etc": "open('/etc/planted', 'w')",
    "create-in-the-root": "open('/planted', 'w')",
    "create-in-dev": "open('/dev/planted', 'w')",
    "change-a-mode-in-usr": "os.chmod('/usr/bin/env', 0o755)",
    "read-a-file-of-the-host": "open(scene['file'])",
    "list-the-homes": "any_of(lambda: os.listdir('/root'), lambda: os.listdir('/home'))",
    "read-the-shadow-file": "open('/etc/shadow')",
    "see-accounts-of-the-host": "need(b'daemon' in read('/etc/passwd'))",
    "climb-out-of-the-root": "open('../' * 30 + scene['file'][1:])",
}

NETWORK: Final = {
    "reach-a-service-on-the-host's-loopback": (
        "socket.create_connection(('127.0.0.1', int(scene['port'])), 3)"
    ),
    "reach-a-service-of-another-sandbox": (
        "socket.create_connection(('127.0.0.1', int(scene['neighbor_port'])), 3)"
    ),
    "reach-the-host's-loopback-over-version-6": ("socket.create_connection(('::1', int(scene['port'])), 3)"),
    "send-a-datagram-to-the-host's-loopback": """
    channel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    channel.connect(("127.0.0.1", int(scene["datagram_port"])))
    channel.send(b"x")
    channel.settimeout(1)
    channel.recv(1)""",
    "resolve-a-name": "socket.getaddrinfo('repotrial.invalid', 80)",
    "have-an-interface-besides-loopback": "need([name for _, name in socket.if_nameindex() if name != 'lo'])",
    "reach-an-abstract-socket-of-the-host": """
    channel = socket.socket(socket.AF_UNIX)
    channel.connect("\\0" + scene["abstract"])""",
    "reach-a-socket-file-of-the-host": """
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(scene["socket"])""",
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
}

PROC: Final = {
    "read-environment-of-pid-1": "read('/proc/1/environ')",
    "read-command-line-of-pid-1": "need(scene['sources'].encode() in read('/proc/1/cmdline'))",
    "read-root-of-pid-1": "open('/proc/1/root' + scene['file'])",
    "read-cwd-of-pid-1": "os.listdir('/proc/1/cwd')",
    "read-memory-of-pid-1": "open('/proc/1/mem', 'rb')",
    "list-descriptors-of-pid-1": "os.listdir('/proc/1/fd')",
    "find-the-secret-in-any-environment": """
    for pid in pids():
        try:
            found = read(f"/proc/{pid}/environ")
        except OSError:
            continue
        if scene["secret"].encode() in found:
            return
    need(False)""",
    "find-paths-of-the-host-in-any-command-line": """
    words = [scene["sources"].encode(), b"site-packages", scene["process"].encode()]
    need(any(word in read(f"/proc/{pid}/cmdline") for pid in others() for word in words))""",
    "find-paths-of-the-host-in-any-memory-map": """
    for pid in others():
        try:
            maps = read(f"/proc/{pid}/maps")
        except OSError:
            continue
        if scene["sources"].encode() in maps or b"libpython" in maps:
            return
    need(False)""",
    "open-memory-of-our-processes": """
    any_of(*(lambda pid=pid: open(f"/proc/{pid}/mem", "r+b") for pid in ours()))""",
    "open-descriptors-of-our-processes": """
    any_of(*(lambda pid=pid: os.listdir(f"/proc/{pid}/fd") for pid in ours()))""",
    "press-the-magic-key": "write('/proc/sysrq-trigger', b'h')",
    "write-a-kernel-setting": "open('/proc/sys/kernel/core_pattern', 'w')",
    "change-the-host-name-through-proc": "write('/proc/sys/kernel/hostname', socket.gethostname().encode())",
    "read-kernel-memory": "any_of(lambda: open('/proc/kcore', 'rb'), lambda: open('/proc/kmsg', 'rb'))",
}

PROCESSES: Final = {
    "see-processes-of-the-host": """
    need(any(scene["process"].encode() in read(f"/proc/{pid}/cmdline") for pid in others()))""",
    "see-many-processes": "need(len(pids()) > 6)",
}


PLANTED: Final = ("/usr/bin/planted", "/etc/planted", "/planted", "/dev/planted")
"""Files that appear on the host if an attempt succeeds."""

_EVIDENCE: Final[dict[str, EscapeSign]] = {
    "move-a-file-into-etc": "planted-file",
    "create-in-usr-bin": "planted-file",
    "create-in-etc": "planted-file",
    "create-in-the-root": "planted-file",
    "create-in-dev": "planted-file",
    "reach-a-service-on-the-host's-loopback": "connection",
    "send-a-datagram-to-the-host's-loopback": "datagram",
    "gain-by-a-setuid-bit-of-our-own": "owner",
    "leave-a-file-of-root": "owner",
}
_DESCRIPTORS: Final = frozenset(
    {
        "truncate-the-record-of-the-output",
        "reopen-the-output-as-a-file",
        "seek-in-the-output",
        "use-an-inherited-descriptor",
        "read-the-standard-input",
        "reach-a-directory-through-the-standard-input",
    }
)
_GROUPS: Final[tuple[tuple[Layer, dict[str, str]], ...]] = (
    ("mounts", FILES),
    ("processes", {**PROC, **PROCESSES}),
    ("network", NETWORK),
    ("privileges", {**PRIVILEGES, **BOUNDS}),
    ("workspace", WORKSPACE),
)

ATTEMPTS: Final[tuple[EscapeAttempt, ...]] = (
    *(
        EscapeAttempt(
            name=name,
            layer="descriptors" if name in _DESCRIPTORS else layer,
            program=program,
            evidence=_EVIDENCE.get(name, "kernel"),
        )
        for layer, programs in _GROUPS
        for name, program in programs.items()
    ),
    *(
        EscapeAttempt(
            name=f"call-{name}",
            layer="system-calls",
            program=call.code,
            refusals=call.refusals,
            recorded=call.recorded,
        )
        for name, call in CALLS.items()
    ),
)
"""Each has another name."""
