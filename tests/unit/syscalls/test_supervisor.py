from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial.syscalls import (
    FloodRecord,
    ProhibitedRecord,
    SupervisorPolicy,
    build_numbers,
    find_machine,
)
from support.bubblewrap import Puppet, make_directory, open_puppet, require_bubblewrap
from support.waiting import wait_until

UNSHARE = build_numbers(find_machine())["unshare"]
MOUNT = build_numbers(find_machine())["mount"]
CONNECT = build_numbers(find_machine())["connect"]
EXECVE = build_numbers(find_machine())["execve"]


@pytest.fixture
def workspace() -> Iterator[Path]:
    require_bubblewrap()
    with make_directory() as path:
        yield path


@pytest.fixture
def inside(workspace: Path) -> Iterator[Puppet]:
    with open_puppet(workspace) as puppet:
        yield puppet


def test_a_process_that_hides_its_memory_is_still_read(inside: Puppet) -> None:
    code = (
        "child = os.fork()\nif child == 0:\n"
        "    libc.prctl(4, 0, 0, 0, 0)\n"
        f"    call({MOUNT}, b'hidden', b'/usr', b'tmpfs', 0, None); os._exit(0)\n"
        "os.waitpid(child, 0)"
    )
    inside.do(code)
    assert inside.prohibited("mount")[-1].arguments[:2] == ("hidden", "/usr")


@pytest.mark.parametrize(
    "pointer", ["0", "1", "4096", "2**47", "2**63", "2**64 - 1", "-4096", "id(call) | 2**62"]
)
def test_wild_pointers_do_no_harm(inside: Puppet, pointer: str) -> None:
    assert inside.do(f"result = call({EXECVE}, {pointer}, {pointer}, 0)") == "EFAULT"
    assert inside.do(f"result = call({MOUNT}, {pointer}, {pointer}, {pointer}, 0, 0)") == "EPERM"
    fault = f"s = socket.socket()\nresult = call({CONNECT}, s.fileno(), {pointer}, 2**32 - 1)\ns.close()"
    assert inside.do(fault) in {"EFAULT", "EINVAL"}
    assert inside.supervisor is not None
    assert inside.supervisor.is_alive


def test_an_argument_list_without_an_end_does_no_harm(inside: Puppet) -> None:
    code = (
        'item = ctypes.create_string_buffer(b"again")\n'
        "items = (ctypes.c_void_p * 100000)(*[ctypes.addressof(item)] * 100000)\n"
        f"result = call({EXECVE}, b'/nonexistent', ctypes.byref(items), 0)"
    )
    assert inside.do(code) in {"ENOENT", "EFAULT", "E2BIG"}
    assert inside.supervisor is not None
    assert inside.supervisor.facts.started == 1


def test_processes_that_die_while_they_wait_do_no_harm(inside: Puppet) -> None:
    code = (
        "import signal, time\nfor _ in range(60):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        f"        while True:\n            call({UNSHARE}, 0x10000000)\n"
        "    time.sleep(0.001)\n    os.kill(child, signal.SIGKILL)\n    os.waitpid(child, 0)\n"
    )
    inside.do(code)
    assert inside.do(f"result = call({UNSHARE}, 0x10000000)") == "EPERM"


def test_signals_while_a_call_waits_do_no_harm(inside: Puppet) -> None:
    code = (
        "import signal\n"
        "signal.signal(signal.SIGALRM, lambda *_: None)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)\n"
        "answers = []\n"
        # On a busy machine the next signal may come before each answer, for a while.
        "while len(answers) < 500 or 'EPERM' not in answers:\n"
        f"    answers.append(call({UNSHARE}, 0x10000000))\n"
        "result = sorted(set(answers) - {'EINTR'})\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)"
    )
    assert inside.do(code) == ["EPERM"]


def test_a_flood_is_counted_to_the_last_call(workspace: Path) -> None:
    total = 3000
    with open_puppet(workspace, supervision=SupervisorPolicy(records_per_second=50)) as inside:
        inside.do(f"for _ in range({total}): call({UNSHARE}, 0x10000000)")
        inside.do(f"call({MOUNT}, b'needle', b'/usr', b'tmpfs', 0, None)")
        assert inside.supervisor is not None
        inside.supervisor.stop()
        single = inside.prohibited("unshare")
        floods = [record for record in inside.records if isinstance(record, FloodRecord)]
        assert len(single) + sum(flood.count for flood in floods) == total
        assert len(single) < total / 2
        assert all(flood.first_us <= flood.last_us for flood in floods)
        # A flood of one call hides no other.
        assert [record.arguments[0] for record in inside.prohibited("mount")] == ["needle"]


def test_a_flood_is_told_while_the_program_is_silent(workspace: Path) -> None:
    with open_puppet(workspace, supervision=SupervisorPolicy(records_per_second=10)) as inside:
        inside.do(f"for _ in range(100): call({UNSHARE}, 0x10000000)")
        assert wait_until(lambda: any(isinstance(record, FloodRecord) for record in inside.records))


def test_it_can_be_told_to_begin_before_the_payload_starts(workspace: Path) -> None:
    """As a launcher does that releases `--block-fd`: bubblewrap has done its part by then."""
    with open_puppet(workspace, on_ready=lambda supervisor: supervisor.begin_enforcing()) as inside:
        assert inside.do(f"result = call({UNSHARE}, 0x10000000)") == "EPERM"


def test_it_ends_by_itself_with_the_last_process(workspace: Path) -> None:
    with open_puppet(workspace) as inside:
        assert inside.process is not None
        assert inside.supervisor is not None
        supervisor = inside.supervisor
        inside.process.kill()
        assert wait_until(lambda: not supervisor.is_alive)


def test_stopping_twice_is_harmless(inside: Puppet) -> None:
    assert inside.supervisor is not None
    inside.supervisor.stop()
    inside.supervisor.stop()
    assert not inside.supervisor.is_alive


def test_nothing_stays_open_after_its_end(workspace: Path) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    with open_puppet(workspace):
        pass
    before = count()
    for _ in range(3):
        with open_puppet(workspace) as inside:
            inside.do(f"call({UNSHARE}, 0x10000000)")
    assert count() == before


def test_records_say_whose_call_it_was(inside: Puppet) -> None:
    inside.do(f"call({UNSHARE}, 0x10000000)")
    (record,) = inside.prohibited("unshare")
    assert isinstance(record, ProhibitedRecord)
    assert Path(f"/proc/{record.pid}/comm").read_text().strip() == "python3"
    assert record.call_class == "namespace"
    assert record.error == "EPERM"
    assert abs(record.at_us - time.time_ns() // 1000) < 60_000_000
