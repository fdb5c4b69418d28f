"""Attacks on the kernel from inside a sandbox: each is refused, and what the supervisor saw is on record."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from repotrial.machine._probe_suite._calls import CALLS
from repotrial.syscalls import (
    NetworkRecord,
    ProhibitedRecord,
    StartRecord,
    SyscallPolicy,
    SyscallRecord,
    build_numbers,
    find_machine,
)
from support.bubblewrap import Puppet, make_directory, open_puppet, require_bubblewrap
from support.errors import raises_code

SOURCE: Final = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture(scope="module")
def inside() -> Iterator[Puppet]:
    require_bubblewrap()
    with make_directory() as workspace, open_puppet(workspace) as puppet:
        puppet.do(f"NR = {json.dumps(dict(build_numbers(find_machine())))}")
        yield puppet


@pytest.mark.parametrize("name", CALLS)
def test_attack_is_refused(inside: Puppet, name: str) -> None:
    attack = CALLS[name]
    if name.startswith("x32") and find_machine() != "x86_64":
        pytest.skip("x32 belongs to x86-64")
    before = len(inside.records)
    assert inside.do(attack.code) in attack.refusals
    recorded = {getattr(record, "call", "program") for record in inside.records[before:]}
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
        with raises_code("supervisor-lost", match="no room for evidence"):
            inside.supervisor.stop()


def _break_down(record: SyscallRecord) -> None:
    if isinstance(record, ProhibitedRecord) and record.call == "unshare":
        raise RuntimeError("no room for evidence")


def test_bubblewrap_s_own_calls_are_no_excuse_for_the_payload() -> None:
    """Nobody said `begin_enforcing`: the payload's own start did."""
    require_bubblewrap()
    with make_directory() as workspace, open_puppet(workspace) as inside:
        assert inside.supervisor is not None
        assert inside.supervisor.is_enforcing
        (first, *_) = inside.records
        assert isinstance(first, StartRecord)
        assert first.path == "/usr/bin/python3"
        assert first.cwd == "/workspace"


def test_address_beyond_the_sandbox_is_refused_and_reported() -> None:
    """The address is one that the test itself put into the sandbox's own empty network."""
    require_bubblewrap()
    connect = (
        's = socket.socket(); s.settimeout(60)\ns.connect(("198.51.100.7", {port}))\nresult = "connected"'
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
from repotrial.isolation._launch_server._helper_process import enter_namespace
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
        self.process.communicate(timeout=120)
