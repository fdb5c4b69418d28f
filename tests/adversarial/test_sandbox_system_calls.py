"""Attacks on the kernel from inside a sandbox: each is refused, and what the supervisor saw is on record."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from repotrial.sandbox._records import ExecRecord, NetworkRecord, SyscallRecord
from repotrial.sandbox._seccomp import SyscallPolicy
from repotrial.sandbox._supervisor import SupervisorLostError
from repotrial.sandbox._syscalls import build_numbers, find_machine
from support.bubblewrap import Puppet, make_directory, open_puppet, require_bubblewrap

SOURCE: Final = Path(__file__).resolve().parents[2] / "src"


class Attack(NamedTuple):
    code: str
    """Leaves what the kernel said in `result`; an error that it raises does the same."""
    refusals: frozenset[str]
    recorded: str | None = None
    """The call that must be on record; None where another layer refuses first."""


def refused(code: str, recorded: str, error: str = "EPERM") -> Attack:
    return Attack(code, frozenset({error}), recorded)


def stopped(code: str, *errors: str) -> Attack:
    return Attack(code, frozenset(errors))


ATTACKS: Final = {
    "open-core-pattern-for-writing": stopped(
        'open("/proc/sys/kernel/core_pattern", "r+")', "EACCES", "EROFS"
    ),
    "remount-usr-writable": refused('result = call(NR["mount"], None, b"/usr", None, 0x1020, None)', "mount"),
    "mount-a-tmpfs": refused('result = call(NR["mount"], b"t", b"/tmp", b"tmpfs", 0, None)', "mount"),
    "unmount-the-workspace": refused('result = call(NR["umount2"], b"/workspace", 2)', "umount2"),
    "nested-user-namespace": refused('result = call(NR["unshare"], 0x10000000)', "unshare"),
    "nested-user-and-mount-namespace": refused('result = call(NR["unshare"], 0x10020000)', "unshare"),
    "new-time-namespace": refused('result = call(NR["unshare"], 0x80)', "unshare"),
    "open-tree": refused('result = call(NR["open_tree"], -100, b"/usr", 1)', "open_tree"),
    "open-tree-with-attributes": refused(
        'result = call(NR["open_tree_attr"], -100, b"/usr", 1, None, 0)', "open_tree_attr"
    ),
    "fsopen": refused('result = call(NR["fsopen"], b"tmpfs", 0)', "fsopen"),
    "mount-setattr-workspace": refused(
        'import struct\nattributes = struct.pack("QQQQ", 0, 1, 0, 0)\n'
        'result = call(NR["mount_setattr"], -100, b"/workspace", 0, attributes, 32)',
        "mount_setattr",
    ),
    "chroot": refused('result = call(NR["chroot"], b"/tmp")', "chroot"),
    "pivot-root": refused('result = call(NR["pivot_root"], b"/tmp", b"/tmp")', "pivot_root"),
    "setns-to-init": refused(
        'fd = os.open("/proc/self/ns/mnt", 0)\nresult = call(NR["setns"], fd, 0x20000)\nos.close(fd)', "setns"
    ),
    "ptrace-pid-1": refused('result = call(NR["ptrace"], 16, 1, 0, 0)', "ptrace"),
    "seize-pid-1": refused('result = call(NR["ptrace"], 0x4206, 1, 0, 0)', "ptrace"),
    "read-memory-of-pid-1": refused(
        'result = call(NR["process_vm_readv"], 1, 0, 0, 0, 0, 0)', "process_vm_readv"
    ),
    "write-memory-of-pid-1": refused(
        'result = call(NR["process_vm_writev"], 1, 0, 0, 0, 0, 0)', "process_vm_writev"
    ),
    "steal-a-descriptor-of-pid-1": refused(
        'fd = os.pidfd_open(1)\nresult = call(NR["pidfd_getfd"], fd, 0, 0)\nos.close(fd)', "pidfd_getfd"
    ),
    "vsock-socket": refused("socket.socket(40, socket.SOCK_STREAM)", "socket", "EAFNOSUPPORT"),
    "vsock-socket-pair": refused(
        'result = call(NR["socketpair"], 40, 1, 0, b"x" * 8)', "socketpair", "EAFNOSUPPORT"
    ),
    "packet-socket": refused("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", "socket", "EAFNOSUPPORT"),
    "raw-socket": refused("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", "socket", "EAFNOSUPPORT"),
    "crypto-socket": refused("socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)", "socket", "EAFNOSUPPORT"),
    "audit-netlink": refused(
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)", "socket", "EAFNOSUPPORT"
    ),
    "add-a-network-link": stopped(
        "import struct\n"
        "s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)\n"
        'body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + struct.pack("HH8s", 12, 3, b"evil0")\n'
        'body += struct.pack("HHHH8s", 16, 18, 12, 1, b"dummy")\n'
        's.send(struct.pack("IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)\n'
        "reply = s.recv(4096); s.close()\n"
        'result = errno.errorcode[-struct.unpack_from("i", reply, 16)[0]]',
        "EPERM",
    ),
    "io-uring": refused('result = call(NR["io_uring_setup"], 8, b"\\0" * 120)', "io_uring_setup"),
    "userfaultfd": refused('result = call(NR["userfaultfd"], 1)', "userfaultfd"),
    "add-key": refused('result = call(NR["add_key"], b"user", b"name", b"x", 1, -3)', "add_key"),
    "keyctl": refused('result = call(NR["keyctl"], 0, -3, 1)', "keyctl"),
    "request-key": refused('result = call(NR["request_key"], b"user", b"name", None, -3)', "request_key"),
    "bpf": refused('result = call(NR["bpf"], 0, b"\\0" * 72, 72)', "bpf"),
    "perf-event-open": refused(
        'result = call(NR["perf_event_open"], b"\\0" * 128, 0, -1, -1, 0)', "perf_event_open"
    ),
    "load-a-module": refused('result = call(NR["init_module"], b"", 0, b"")', "init_module"),
    "load-a-module-by-descriptor": refused('result = call(NR["finit_module"], 0, b"", 0)', "finit_module"),
    "kexec": refused('result = call(NR["kexec_load"], 0, 0, 0, 0)', "kexec_load"),
    # The magic numbers are wrong on purpose: should a layer be missing, the kernel still refuses.
    "reboot": refused('result = call(NR["reboot"], 0, 0, 0, 0)', "reboot"),
    "swapoff": refused('result = call(NR["swapoff"], b"/nonexistent")', "swapoff"),
    "open-by-handle": refused(
        'result = call(NR["open_by_handle_at"], -100, b"\\0" * 64, 0)', "open_by_handle_at"
    ),
    "clone-with-a-user-namespace": refused('result = call(NR["clone"], 0x10000011, 0, 0, 0, 0)', "clone"),
    "clone-with-a-mount-namespace": refused('result = call(NR["clone"], 0x00020011, 0, 0, 0, 0)', "clone"),
    "clone3": stopped('result = call(NR["clone3"], b"\\0" * 88, 88)', "ENOSYS"),
    "x32-call": stopped("result = call(0x40000000 + 39)", "ENOSYS"),
    "x32-ptrace": stopped("result = call(0x40000000 + 521, 16, 1, 0, 0)", "ENOSYS"),
    "call-of-a-later-kernel": stopped("result = call(599)", "ENOSYS"),
    "inject-into-the-terminal": stopped('open("/dev/tty")', "ENXIO", "ENOENT"),
    "inject-into-a-terminal-of-its-own": refused(
        'import fcntl, pty\nm, s = pty.openpty()\nfcntl.ioctl(s, 0x5412, b"x")', "ioctl"
    ),
    "linux-console-commands": refused("import fcntl\nfcntl.ioctl(0, 0x541C, 0)", "ioctl"),
    "personality-without-randomization": refused(
        'result = call(NR["personality"], 0x0040000)', "personality"
    ),
    "raise-a-hard-limit": stopped(
        "import resource\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_CORE)\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "try:\n    resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))\n"
        'except ValueError:\n    result = "EPERM"',
        "EPERM",
    ),
    "raise-priority": stopped("os.nice(-5)", "EPERM", "EACCES"),
    "fanotify": refused('result = call(NR["fanotify_init"], 0, 0)', "fanotify_init"),
    "kernel-log": refused('result = call(NR["syslog"], 3, b"x" * 64, 64)', "syslog"),
    "set-the-clock": refused('result = call(NR["clock_settime"], 0, b"\\0" * 16)', "clock_settime"),
}


@pytest.fixture(scope="module")
def inside() -> Iterator[Puppet]:
    require_bubblewrap()
    with make_directory() as workspace, open_puppet(workspace) as puppet:
        puppet.do(f"NR = {json.dumps(dict(build_numbers(find_machine())))}")
        yield puppet


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused(inside: Puppet, name: str) -> None:
    attack = ATTACKS[name]
    if name.startswith("x32") and find_machine() != "x86_64":
        pytest.skip("x32 belongs to x86-64")
    before = len(inside.records)
    assert inside.do(attack.code) in attack.refusals
    recorded = {record.call for record in inside.records[before:]}
    assert recorded == (set() if attack.recorded is None else {attack.recorded})


def test_paths_of_a_refused_mount_are_on_record(inside: Puppet) -> None:
    inside.do('result = call(NR["mount"], b"source", b"/usr", b"overlay", 0x1000, None)')
    assert inside.prohibited("mount")[-1].arguments == ("source", "/usr", "overlay", "0x1000")


def test_i386_call_kills_the_caller(inside: Puppet) -> None:
    if find_machine() != "x86_64":
        pytest.skip("only x86-64 has the old entry")
    # mov eax, 20 (getpid); int 0x80; ret
    code = """
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))
entry = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
child = os.fork()
if child == 0:
    entry()
    os._exit(0)
result = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
    assert inside.do(code) == -31  # SIGSYS


def test_ptrace_of_its_own_child_needs_a_grant(inside: Puppet) -> None:
    assert inside.do('result = call(NR["ptrace"], 0, 0, 0, 0)') == "EPERM"


def test_granted_ptrace_still_does_not_reach_pid_1() -> None:
    require_bubblewrap()
    policy = SyscallPolicy(granted=("ptrace",))
    number = build_numbers(find_machine())["ptrace"]
    ask = f"os._exit(0 if call({number}, 0, 0, 0, 0) == 'ok' else 1)"
    with make_directory() as workspace, open_puppet(workspace, syscalls=policy) as inside:
        inside.do(f"child = os.fork()\nif child == 0:\n    {ask}")
        assert inside.do("result = os.waitpid(child, 0)[1]") == 0
        assert inside.do(f"result = call({number}, 16, 1, 0, 0)") == "EPERM"


def test_calls_fail_after_the_death_of_the_supervisor() -> None:
    require_bubblewrap()
    with make_directory() as workspace, open_puppet(workspace) as inside:
        assert inside.supervisor is not None
        inside.supervisor.stop()
        number = build_numbers(find_machine())["unshare"]
        assert inside.do(f"result = call({number}, 0x10000000)") == "ENOSYS"
        assert inside.do('result = os.posix_spawn("/usr/bin/true", ["true"], {})') == "ENOSYS"


def test_calls_fail_after_the_supervisor_broke() -> None:
    require_bubblewrap()
    number = build_numbers(find_machine())["unshare"]
    with make_directory() as workspace, open_puppet(workspace, sink=_break_down) as inside:
        assert inside.do(f"result = call({number}, 0x10000000)") == "ENOSYS"
        assert inside.do(f"result = call({number}, 0x10000000)") == "ENOSYS"
        assert inside.supervisor is not None
        with pytest.raises(SupervisorLostError, match="no room for evidence"):
            inside.supervisor.stop()


def _break_down(record: SyscallRecord) -> None:
    if record.call == "unshare":
        raise RuntimeError("no room for evidence")


def test_bubblewrap_s_own_calls_are_no_excuse_for_the_payload() -> None:
    """Nobody said `begin_enforcing`: the payload's own start did."""
    require_bubblewrap()
    with make_directory() as workspace, open_puppet(workspace) as inside:
        assert inside.supervisor is not None
        assert inside.supervisor.is_enforcing
        (first, *_) = inside.records
        assert isinstance(first, ExecRecord)
        assert first.path == "/usr/bin/python3"
        assert first.cwd == "/workspace"


def test_address_beyond_the_sandbox_is_refused_and_reported() -> None:
    """The address is one that the test itself put into the sandbox's own empty network."""
    require_bubblewrap()
    connect = (
        's = socket.socket(); s.settimeout(5)\ns.connect(("198.51.100.7", {port}))\nresult = "connected"'
    )
    send = (
        's = socket.socket(type=socket.SOCK_DGRAM)\ns.sendto(b"x", ("198.51.100.7", {port}))\nresult = "sent"'
    )
    with make_directory() as workspace:
        with open_puppet(workspace, syscalls=None) as inside:
            with _neighbor(inside.pid) as (port, neighbor):
                assert inside.do(connect.format(port=port)) == "connected"
            assert neighbor.returncode == 0
        with open_puppet(workspace) as inside:
            with _neighbor(inside.pid) as (port, neighbor):
                assert inside.do(connect.format(port=port)) == "ENETUNREACH"
                assert inside.do(send.format(port=port)) == "ENETUNREACH"
            assert neighbor.returncode == 3
            records = [record for record in inside.records if isinstance(record, NetworkRecord)]
            assert [(r.call, r.address) for r in records] == [
                ("connect", f"198.51.100.7:{port}"),
                ("sendto", f"198.51.100.7:{port}"),
            ]


_NEIGHBOR: Final = """
import fcntl, socket, struct, sys
from repotrial.sandbox._namespaces import enter_namespace
enter_namespace(int(sys.argv[1]), "net")
listener = socket.socket()
address = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton("198.51.100.7"))
fcntl.ioctl(listener, 0x8916, address)
listener.bind(("198.51.100.7", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
listener.setblocking(False)
try:
    listener.accept()
except BlockingIOError:
    sys.exit(3)
"""


class _neighbor:  # noqa: N801 - reads as a function
    """A listener of ours at an address that is not loopback, in the sandbox's own network namespace."""

    def __init__(self, pid: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _NEIGHBOR, str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": ":".join([str(SOURCE), *sys.path])},
        )

    def __enter__(self) -> tuple[int, subprocess.Popen[str]]:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline()), self.process

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=30)
