"""Attempts to run a program without a record, to forge one, or to lose one's parents; and honest programs."""

from __future__ import annotations

import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial.syscalls import EndRecord, StartRecord, SupervisorPolicy, build_numbers, find_machine
from support.bubblewrap import Puppet, make_directory, open_puppet, require_bubblewrap
from support.waiting import wait_until

NUMBERS = build_numbers(find_machine())
SET_FS, GET_FS = 0x1002, 0x1003


@pytest.fixture
def workspace() -> Iterator[Path]:
    require_bubblewrap()
    with make_directory() as path:
        yield path


@pytest.fixture
def inside(workspace: Path) -> Iterator[Puppet]:
    with open_puppet(workspace) as puppet:
        yield puppet


class Seen:
    """What is on record after everything that a puppet started has ended."""

    def __init__(self, inside: Puppet) -> None:
        witness = inside.supervisor
        assert witness is not None
        # A start is counted while its program is held, and told after: the program may have ended by then.
        assert wait_until(lambda: len(self._list_starts(inside)) >= witness.facts.started)
        assert wait_until(lambda: len(self._list_ends(inside)) >= len(self._list_starts(inside)) - 1)
        self.starts = self._list_starts(inside)
        self.puppet = self.starts[0].number
        self.ends = {end.number: end for end in self._list_ends(inside)}

    def find(self, *words: str) -> StartRecord:
        (found,) = [each for each in self.starts if each.argv == words]
        return found

    def status_of(self, *words: str) -> int | None:
        return self.ends[self.find(*words).number].status

    @staticmethod
    def _list_starts(inside: Puppet) -> list[StartRecord]:
        return [each for each in inside.records if isinstance(each, StartRecord)]

    @staticmethod
    def _list_ends(inside: Puppet) -> list[EndRecord]:
        return [each for each in inside.records if isinstance(each, EndRecord)]


def run(*argv: str) -> str:
    return f"result = subprocess.run({list(argv)!r}).returncode"


def test_an_honest_pipeline_has_arguments_directories_parents_and_ends(inside: Puppet) -> None:
    assert inside.do(run("/usr/bin/env", "-i", "sh", "-c", "cd /tmp && /usr/bin/true x; exit 4")) == 4
    seen = Seen(inside)
    env, shell = (
        seen.find("/usr/bin/env", "-i", "sh", "-c", "cd /tmp && /usr/bin/true x; exit 4"),
        seen.starts[2],
    )
    assert (env.path, env.cwd, env.parent, env.replaces) == ("/usr/bin/env", "/workspace", seen.puppet, None)
    assert (shell.parent, shell.replaces, shell.command) == (seen.puppet, env.number, env.number)
    assert seen.ends[env.number].replaced_by == shell.number
    true = seen.find("/usr/bin/true", "x")
    assert (true.cwd, true.parent, true.command) == ("/tmp", shell.number, env.number)
    assert seen.status_of("/usr/bin/true", "x") == 0
    assert seen.ends[shell.number].status == 4 << 8
    assert all(each.is_confirmed for each in seen.starts)


def test_tries_along_the_search_path_are_no_starts(inside: Puppet) -> None:
    inside.do(
        'result = subprocess.run(["env", "no-such-program"], env={"PATH": "/no:/nor:/usr/bin"}).returncode'
    )
    seen = Seen(inside)
    assert [each.argv for each in seen.starts[1:]] == [("env", "no-such-program")]
    assert seen.status_of("env", "no-such-program") == 127 << 8
    assert inside.supervisor is not None
    assert inside.supervisor.facts.failed_tries >= 3


def test_a_failed_try_dressed_up_as_a_start_is_none(inside: Puppet) -> None:
    """The call that tells a start is made by hand, after a try that failed."""
    if find_machine() != "x86_64":
        pytest.skip("another call tells a start there")
    code = (
        "child = os.fork()\n"
        "if child == 0:\n"
        "    place = ctypes.c_ulong()\n"
        f"    call({NUMBERS['arch_prctl']}, {GET_FS}, ctypes.byref(place))\n"
        '    open("/tmp/suite", "w").close()\n'
        f'    call({NUMBERS["execve"]}, b"/tmp/suite", 0, 0)\n'
        f"    call({NUMBERS['arch_prctl']}, {SET_FS}, ctypes.c_void_p(place.value))\n"
        "    os._exit(0)\n"
        "result = os.waitpid(child, 0)[1]"
    )
    assert inside.do(code) == 0
    inside.do(run("/bin/true"))
    seen = Seen(inside)
    assert [each.argv for each in seen.starts[1:]] == [("/bin/true",)]


def test_a_name_that_lies_does_not_hide_the_file(inside: Puppet) -> None:
    inside.do('result = subprocess.run(["harmless", "x"], executable="/bin/true").returncode')
    lie = Seen(inside).find("harmless", "x")
    assert lie.exe is not None
    assert lie.exe.endswith("/true")


def test_arguments_that_change_under_way_are_those_that_the_kernel_took(inside: Puppet) -> None:
    """Another thread writes into the arguments without pause: what is on record is what ran."""
    code = (
        "import threading\n"
        'word = ctypes.create_string_buffer(b"aaaa")\n'
        "items = (ctypes.c_void_p * 3)(ctypes.addressof(word), ctypes.addressof(word), None)\n"
        "over = False\n"
        "def flip():\n"
        "    while not over:\n"
        '        word.value = b"bbbb"\n'
        '        word.value = b"aaaa"\n'
        "pids = []\n"
        'script = ctypes.create_string_buffer(b"/workspace/show")\n'
        'with open("/workspace/show", "w") as file:\n'
        '    file.write("#!/bin/sh\\necho $1 >> /workspace/shown\\n")\n'
        'os.chmod("/workspace/show", 0o755)\n'
        "for _ in range(20):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        threading.Thread(target=flip, daemon=True).start()\n"
        f"        call({NUMBERS['execve']}, script, ctypes.byref(items), 0)\n"
        "        os._exit(1)\n"
        "    os.waitpid(child, 0)\n"
        'result = open("/workspace/shown").read().split()'
    )
    shown = inside.do(code)
    recorded = [each.argv[-1:] for each in Seen(inside).starts if each.path == "/workspace/show"]
    assert recorded == [(word,) for word in shown]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_program_that_was_killed_has_its_signal(inside: Puppet, number: signal.Signals) -> None:
    inside.do(run("/bin/sh", "-c", f"ulimit -c 0; kill -{int(number)} $$"))
    status = Seen(inside).status_of("/bin/sh", "-c", f"ulimit -c 0; kill -{int(number)} $$")
    assert status is not None
    assert status & 127 == number


def test_setsid_double_forks_and_orphans_keep_their_parents(inside: Puppet) -> None:
    inside.do(run("/bin/sh", "-c", "(setsid sh -c '(sleep 0.3 &)' &) ; exit 0"))
    assert wait_until(lambda: any(getattr(each, "argv", ()) == ("sleep", "0.3") for each in inside.records))
    seen = Seen(inside)
    first = seen.starts[1]
    sleep = seen.find("sleep", "0.3")
    assert sleep.command == first.number
    assert sleep.parent is not None
    assert {each.command for each in seen.starts[2:]} == {first.number}


def test_a_program_from_a_thread_replaces_the_process(inside: Puppet) -> None:
    program = (
        "import os, threading\n"
        "t = threading.Thread(target=lambda: os.execv('/bin/true', ['true', 'thread']))\n"
        "t.start(); t.join()"
    )
    inside.do(run("/usr/bin/python3", "-c", program))
    seen = Seen(inside)
    before, after = seen.find("/usr/bin/python3", "-c", program), seen.find("true", "thread")
    assert (after.replaces, after.parent) == (before.number, seen.puppet)
    assert (seen.ends[before.number].replaced_by, seen.ends[after.number].status) == (after.number, 0)


def test_children_of_vfork_and_of_threads_are_programs_of_their_own(inside: Puppet) -> None:
    inside.do(
        "import threading\n"
        'many = [threading.Thread(target=subprocess.run, args=(["/bin/true", str(n)],)) for n in range(8)]\n'
        "[each.start() for each in many]; [each.join() for each in many]"
    )
    seen = Seen(inside)
    assert {each.argv for each in seen.starts[1:]} == {("/bin/true", str(number)) for number in range(8)}
    assert {each.parent for each in seen.starts[1:]} == {seen.puppet}
    assert {seen.ends[each.number].status for each in seen.starts[1:]} == {0}


def build_elf(code: bytes) -> bytes:
    """A program of nothing but this code: no C library, no loader."""
    start, machine = 0x400000, 62
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, start + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = 120 + len(code)
    return header + struct.pack("<IIQQQQQQ", 1, 5, 0, start, start, size, size, 4096) + code


EXIT_7 = bytes.fromhex("bf07000000b83c0000000f05")
"""exit(7)"""
NAP_AND_EXIT_7 = bytes.fromhex(
    "6800e1f505 6a00 4889e7 31f6 b823000000 0f05 bf07000000 b83c000000 0f05".replace(" ", "")
)
"""nanosleep for a tenth of a second, exit(7)"""
INT_80 = bytes.fromhex("b801000000 bb03000000 cd80 ebfe".replace(" ", ""))
"""exit(3), asked of the kernel as a 32-bit program does"""


@pytest.mark.parametrize(
    ("name", "code", "status", "is_confirmed"),
    [
        ("short", EXIT_7, 7 << 8, False),
        ("napping", NAP_AND_EXIT_7, 7 << 8, True),
        ("of-32-bit-calls", INT_80, signal.SIGSYS, False),
    ],
)
def test_a_program_without_a_c_library_is_on_record(
    inside: Puppet, workspace: Path, name: str, code: bytes, status: int, *, is_confirmed: bool
) -> None:
    if find_machine() != "x86_64":
        pytest.skip("code for x86-64")
    program = workspace / name
    program.write_bytes(build_elf(code))
    program.chmod(0o755)
    inside.do(run(f"/workspace/{name}"))
    # Without a confirmation a start is told with the end.
    assert wait_until(lambda: any(getattr(each, "path", "").endswith(name) for each in inside.records))
    seen = Seen(inside)
    (start,) = [each for each in seen.starts if each.path == f"/workspace/{name}"]
    assert start.is_confirmed or not is_confirmed
    found = seen.ends[start.number].status
    assert found is not None
    assert found & ~0x80 == status


def test_the_number_of_a_program_cannot_be_changed_from_inside(inside: Puppet) -> None:
    pair = "pair = (ctypes.c_ulong * 2)(5, 5)\n"
    for call in (f"{NUMBERS['setrlimit']}, 10", f"{NUMBERS['prlimit64']}, 0, 10"):
        assert inside.do(f"{pair}result = call({call}, ctypes.byref(pair), 0)") == "EPERM"
    assert inside.do("import resource\nresult = resource.getrlimit(10)[0] > 1 << 60") is True
    # Every other limit is a program's own business.
    assert inside.do("import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nresult = 1") == 1


def test_very_long_and_unreadable_arguments_are_cut_and_say_so(inside: Puppet) -> None:
    inside.do('result = subprocess.run(["/usr/bin/true", *["x" * 1000] * 100]).returncode')
    inside.do('result = subprocess.run([b"/usr/bin/true", b"\\xff\\x1b[31m"]).returncode')
    long, odd = Seen(inside).starts[1:]
    assert long.is_truncated
    assert long.argv[:2] == ("/usr/bin/true", "x" * 1000)
    assert sum(map(len, long.argv)) <= 64 * 1024
    assert (odd.argv[1], odd.is_truncated) == ("\\xff\x1b[31m", False)


def test_a_held_call_that_a_signal_ends_is_counted(workspace: Path) -> None:
    """The supervisor is kept busy, so that signals come while calls wait for it."""

    def dawdle(_: object) -> None:
        time.sleep(0.005)

    with open_puppet(workspace, sink=dawdle) as inside:
        interrupted = inside.do(
            "import signal\n"
            "signal.signal(signal.SIGALRM, lambda *_: None)\n"
            'busy = subprocess.Popen(["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done"])\n'
            "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
            "result = 0\n"
            "while busy.poll() is None:\n"
            f"    result += call({NUMBERS['execve']}, b'/nonexistent', 0, 0) == 'EINTR'\n"
            "signal.setitimer(signal.ITIMER_REAL, 0)"
        )
        inside.do(run("/bin/true"))  # what comes after it shows what is missing
        assert inside.supervisor is not None
        assert inside.supervisor.facts.withdrawn >= interrupted > 0


def test_what_an_agent_starts_before_it_asks_a_model_is_no_command(workspace: Path) -> None:
    with open_puppet(workspace, supervision=SupervisorPolicy(asks_on_port=4000)) as inside:
        inside.do(run("/bin/true", "helper"))
        inside.do("s = socket.socket()\nresult = s.connect_ex(('127.0.0.1', 4001))")
        inside.do(run("/bin/true", "another"))
        inside.do("s = socket.socket()\nresult = s.connect_ex(('127.0.0.1', 4000))")
        inside.do(run("/bin/true", "ordered"))
        seen = Seen(inside)
    assert [seen.find("/bin/true", word).command for word in ("helper", "another")] == [None, None]
    assert seen.find("/bin/true", "ordered").command == seen.find("/bin/true", "ordered").number


def test_an_honest_build_is_a_tree(inside: Puppet, workspace: Path) -> None:
    lines = ["all: " + " ".join(f"t{number}" for number in range(20))]
    lines += [f"t{number}:\n\t@sh -c 'true {number}'" for number in range(20)]
    (workspace / "Makefile").write_text("\n".join(lines) + "\n")
    if inside.do(run("make", "-j4", "-s")) != 0:
        pytest.skip("no make here")
    seen = Seen(inside)
    make = seen.find("make", "-j4", "-s")
    assert {each.command for each in seen.starts[1:]} == {make.number}
    assert {seen.ends[each.number].status for each in seen.starts[1:]} <= {0, None}
    assert len([each for each in seen.starts if each.parent == make.number]) == 20
