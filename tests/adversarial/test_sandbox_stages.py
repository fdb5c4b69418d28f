"""Attacks on staged privileges: what a program inside tries in order to write, or to run tests, too early."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from repotrial.isolation._levels._stages import (
    KillWriters,
    RetryWriters,
    mask,
    set_read_only,
    signal_sandbox,
    unmask,
)
from repotrial.isolation._resources._freezer import SignalFreezer
from repotrial.isolation._resources._sandbox_processes import iter_sandbox_pids
from repotrial.syscalls import build_numbers, find_machine
from support.bubblewrap import Puppet, make_directory, open_puppet, require_bubblewrap
from support.errors import raises_code
from support.waiting import wait_until

WORKSPACE: Final = "/workspace"
WRITE: Final = 'open("/workspace/new", "w").write("x")\nresult = "written"'
TOOL: Final = "/usr/bin/env"
RUN_TOOL: Final = 'result = subprocess.run(["/usr/bin/env"], capture_output=True).returncode'
NUMBERS: Final = build_numbers(find_machine())


@pytest.fixture
def workspace() -> Iterator[Path]:
    require_bubblewrap()
    with make_directory() as path:
        yield path


@pytest.fixture
def inside(workspace: Path) -> Iterator[Puppet]:
    with open_puppet(workspace) as puppet:
        yield puppet


@pytest.fixture
def unwatched(workspace: Path) -> Iterator[Puppet]:
    """Without the syscall filter, so that the mounts alone have to hold."""
    with open_puppet(workspace, syscalls=None) as puppet:
        yield puppet


def test_write_in_the_read_stage_fails(inside: Puppet) -> None:
    set_read_only(inside.pid, WORKSPACE, is_read_only=True)
    assert inside.do(WRITE) == "EROFS"
    set_read_only(inside.pid, WORKSPACE, is_read_only=False)
    assert inside.do(WRITE) == "written"


def test_working_directory_inside_the_workspace_gives_no_way_around(inside: Puppet) -> None:
    inside.do('os.chdir("/workspace")\nheld = os.open(".", os.O_RDONLY)')
    set_read_only(inside.pid, WORKSPACE, is_read_only=True)
    assert inside.do('open("relative", "w")') == "EROFS"
    assert inside.do('os.open("at", os.O_CREAT | os.O_WRONLY, dir_fd=held)') == "EROFS"
    assert inside.do('open("/proc/self/cwd/by-proc", "w")') == "EROFS"
    assert inside.do('os.mkdir("directory")') == "EROFS"


def test_remount_from_inside_is_refused_without_the_filter_too(unwatched: Puppet) -> None:
    set_read_only(unwatched.pid, WORKSPACE, is_read_only=True)
    remount = f'result = call({NUMBERS["mount"]}, None, b"/workspace", None, 0x1020, None)'
    assert unwatched.do(remount) == "EPERM"
    attributes = "import struct\nclear = struct.pack('QQQQ', 0, 1, 0, 0)\n"
    change = f'result = call({NUMBERS["mount_setattr"]}, -100, b"/workspace", 0, clear, 32)'
    assert unwatched.do(attributes + change) == "EPERM"
    assert unwatched.do(WRITE) == "EROFS"


def test_nested_user_namespace_is_refused_without_the_filter_too(unwatched: Puppet) -> None:
    assert unwatched.do(f"result = call({NUMBERS['unshare']}, 0x10020000)") in {"ENOSPC", "EPERM"}


def test_mask_cannot_be_taken_off_from_inside_without_the_filter_too(unwatched: Puppet) -> None:
    mask(unwatched.pid, [TOOL])
    assert unwatched.do(f'result = call({NUMBERS["umount2"]}, b"{TOOL}", 2)') == "EPERM"
    assert unwatched.do(RUN_TOOL) == "EACCES"


def test_held_write_descriptor_prevents_the_read_stage(inside: Puppet) -> None:
    inside.do('held = open("/workspace/held", "w")\nresult = held.fileno()')
    number = inside.do("result = held.fileno()")
    with raises_code("workspace-writers", match="/workspace/held") as caught:
        set_read_only(inside.pid, WORKSPACE, is_read_only=True)
    (writer,) = caught.value.details
    assert (writer.path, writer.how, writer.descriptor) == ("/workspace/held", "descriptor", number)
    assert writer.pid in iter_sandbox_pids(inside.pid)
    # Not in force, and not said to be.
    assert inside.do(WRITE) == "written"


def test_shared_mapping_without_a_descriptor_is_found(inside: Puppet) -> None:
    inside.do(
        "import mmap\n"
        'file = open("/workspace/mapped", "w+b"); file.truncate(4096)\n'
        "view = mmap.mmap(file.fileno(), 4096); file.close()"
    )
    # Python keeps a copy of the descriptor for the mapping; an attacker would not.
    inside.do(
        "for entry in os.listdir('/proc/self/fd'):\n"
        "    try:\n        path = os.readlink('/proc/self/fd/' + entry)\n"
        "    except OSError:\n        continue\n"
        "    if path == '/workspace/mapped':\n        os.close(int(entry))"
    )
    with raises_code("workspace-writers") as caught:
        set_read_only(inside.pid, WORKSPACE, is_read_only=True)
    assert [(writer.path, writer.how) for writer in caught.value.details] == [
        ("/workspace/mapped", "mapping")
    ]


def test_writer_that_hides_itself_is_found_and_ended(inside: Puppet) -> None:
    inside.do(
        "import time\nchild = os.fork()\nif child == 0:\n"
        "    libc.prctl(4, 0, 0, 0, 0)\n"
        "    held = open('/workspace/hidden', 'w'); time.sleep(60)"
    )
    _await_file(inside, "/workspace/hidden")
    with raises_code("workspace-writers") as caught:
        set_read_only(inside.pid, WORKSPACE, is_read_only=True)
    assert [writer.how for writer in caught.value.details] == ["descriptor"]
    set_read_only(inside.pid, WORKSPACE, is_read_only=True, on_writers=KillWriters())
    assert inside.do("result = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])") == -9


def test_descriptor_under_way_in_a_socket_is_not_overlooked(inside: Puppet) -> None:
    """No process shows it, yet it could be received and written to later."""
    inside.do(
        "left, right = socket.socketpair()\n"
        'file = open("/workspace/sent", "w")\n'
        'socket.send_fds(left, [b"x"], [file.fileno()]); file.close()'
    )
    with raises_code("workspace-writers", match="no process shows") as caught:
        set_read_only(inside.pid, WORKSPACE, is_read_only=True)
    assert caught.value.details == ()


def test_writer_that_refuses_to_end_is_ended(inside: Puppet) -> None:
    inside.do(
        "import signal, time\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        '    held = open("/workspace/held", "w")\n'
        "    while True:\n        held.write('x'); held.flush(); time.sleep(0.001)"
    )
    _await_file(inside, "/workspace/held")
    ended = set_read_only(inside.pid, WORKSPACE, is_read_only=True, on_writers=KillWriters())
    assert [writer.path for writer in ended] == ["/workspace/held"]
    assert inside.do("result = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])") == -9
    assert inside.do(WRITE) == "EROFS"


@pytest.mark.parametrize("has_freezer", [True, False])
def test_writer_that_returns_as_another_process_is_ended(inside: Puppet, *, has_freezer: bool) -> None:
    """Each writer starts the next one before it dies; frozen, none can."""
    inside.do(
        "import time\n"
        "if os.fork() == 0:\n"
        "    held = open('/workspace/chain', 'w')\n"
        "    for _ in range(2000):\n"
        "        if os.fork():\n            time.sleep(0.003); os._exit(0)\n"
        "    os._exit(0)"
    )
    _await_file(inside, "/workspace/chain")
    freezer = SignalFreezer(
        lambda: iter_sandbox_pids(inside.pid), broadcast=lambda number: signal_sandbox(inside.pid, number)
    )
    policy = KillWriters(timeout_ms=90_000)
    set_read_only(
        inside.pid, WORKSPACE, is_read_only=True, on_writers=policy, freezer=freezer if has_freezer else None
    )
    assert inside.do(WRITE) == "EROFS"


def test_write_during_a_flip_does_not_survive_it(inside: Puppet, workspace: Path) -> None:
    """A program that opens, writes and closes without a pause: after the flip nothing more arrives."""
    inside.tell(
        "import time\n"
        "count, end = 0, time.monotonic() + 300\n"
        "while time.monotonic() < end:\n"
        "    try:\n"
        "        with open('/workspace/counter', 'w') as file:\n            file.write(str(count))\n"
        "    except OSError as error:\n        result = errno.errorcode[error.errno]; break\n"
        "    count += 1\n"
    )
    counter = workspace / "counter"
    assert wait_until(counter.exists)
    set_read_only(inside.pid, WORKSPACE, is_read_only=True, on_writers=RetryWriters(timeout_ms=90_000))
    at_flip = (counter.read_text(), counter.stat().st_mtime_ns)
    assert inside.answer() == "EROFS"
    assert (counter.read_text(), counter.stat().st_mtime_ns) == at_flip


def test_many_flips_under_writers_always_tell_the_truth(inside: Puppet, workspace: Path) -> None:
    inside.do(
        "import threading, time\nstop = []\n"
        "def write():\n"
        "    while not stop:\n"
        "        try:\n            open('/workspace/x', 'w').write('x')\n"
        "        except OSError:\n            pass\n"
        "        time.sleep(0.002)\n"
        "threads = [threading.Thread(target=write) for _ in range(2)]\n"
        "for thread in threads: thread.start()"
    )
    for _ in range(10):
        set_read_only(inside.pid, WORKSPACE, is_read_only=True, on_writers=RetryWriters(timeout_ms=90_000))
        before = (workspace / "x").stat().st_mtime_ns if (workspace / "x").exists() else 0
        assert inside.do(WRITE) == "EROFS"
        after = (workspace / "x").stat().st_mtime_ns if (workspace / "x").exists() else 0
        assert after == before
        set_read_only(inside.pid, WORKSPACE, is_read_only=False)
        assert inside.do(WRITE) == "written"
    inside.do("stop.append(1)\nfor thread in threads: thread.join()")


@pytest.mark.parametrize(
    "attempt",
    [
        RUN_TOOL,
        'result = subprocess.run(["env"], capture_output=True).returncode',
        'os.symlink("/usr/bin/env", "/workspace/a")\nresult = subprocess.run(["/workspace/a"]).returncode',
        'result = subprocess.run(["/bin/env"]).returncode',
        'result = subprocess.run(["/proc/self/root/usr/bin/env"]).returncode',
        'fd = os.open("/usr/bin/env", os.O_PATH)\nos.execve(fd, ["env"], {})',
        'fd = os.open("/usr/bin/env", os.O_PATH)\nos.execv(f"/proc/self/fd/{fd}", ["env"])',
        'fd = os.open("/usr/bin/env", os.O_RDONLY)',
        'import shutil\nshutil.copy("/usr/bin/env", "/tmp/copy")',
        'os.link("/usr/bin/env", "/workspace/link")',
        'os.chmod("/usr/bin/env", 0o755)',
        'os.rename("/usr/bin/env", "/usr/bin/other")',
        'open("/usr/bin/env", "wb")',
    ],
    ids=[
        "by-absolute-path",
        "by-search-path",
        "by-symlink",
        "by-second-name",
        "by-proc-root",
        "by-execveat",
        "by-proc-self-fd",
        "by-reading",
        "by-copy",
        "by-hard-link",
        "by-chmod",
        "by-rename",
        "by-overwriting",
    ],
)
def test_masked_tool_cannot_be_used_before_the_test_stage(workspace: Path, attempt: str) -> None:
    with open_puppet(workspace, interfere=lambda pid: mask(pid, [TOOL])) as inside:
        assert inside.do(attempt) in {"EACCES", "EROFS", "EXDEV", "EPERM", "EBUSY"}
        unmask(inside.pid, [TOOL])
        assert inside.do(RUN_TOOL) == 0


def test_interpreter_given_a_masked_script_fails_loudly(workspace: Path) -> None:
    """An empty file would run, do nothing, and end well."""
    script = workspace / "suite.sh"
    script.write_text("exit 0\n")
    run = 'result = subprocess.run(["/bin/sh", "/workspace/suite.sh"], capture_output=True).returncode'
    with open_puppet(workspace, interfere=lambda pid: mask(pid, ["/workspace/suite.sh"])) as inside:
        assert inside.do(run) not in {0, None}
        unmask(inside.pid, ["/workspace/suite.sh"])
        assert inside.do(run) == 0


def test_masked_directory_cannot_be_entered(workspace: Path) -> None:
    with open_puppet(workspace, interfere=lambda pid: mask(pid, ["/usr/lib/python3"])) as inside:
        assert inside.do('os.listdir("/usr/lib/python3")') == "EACCES"
        assert inside.do('os.chdir("/usr/lib/python3")') == "EACCES"
        unmask(inside.pid, ["/usr/lib/python3"])
        assert inside.do('result = len(os.listdir("/usr/lib/python3")) >= 0') is True


def test_tool_that_was_opened_before_the_mask_is_reported(inside: Puppet) -> None:
    inside.do(f'held = os.open("{TOOL}", os.O_RDONLY)')
    with raises_code("mask-too-late") as caught:
        mask(inside.pid, [TOOL])
    assert [holder.path for holder in caught.value.details] == [TOOL]
    assert inside.do(RUN_TOOL) == "EACCES"


def test_tool_that_runs_while_it_is_masked_is_reported(inside: Puppet) -> None:
    inside.do('child = subprocess.Popen(["/usr/bin/sleep", "60"])')
    with raises_code("mask-too-late") as caught:
        mask(inside.pid, ["/usr/bin/sleep"])
    assert {holder.how for holder in caught.value.details} == {"program"}
    inside.do("child.kill(); child.wait()")


def test_payload_sees_no_trace_of_the_store_of_masks(workspace: Path) -> None:
    with open_puppet(workspace, interfere=lambda pid: mask(pid, [TOOL])) as inside:
        mounts = inside.do('result = open("/proc/self/mountinfo").read()')
        assert [line.split(" ")[4] for line in mounts.splitlines() if "repotrial-mask" in line] == [TOOL]


def test_flips_from_many_threads_at_once_do_not_mix_answers(inside: Puppet) -> None:
    failures: list[BaseException] = []

    def flip() -> None:
        try:
            for index in range(10):
                set_read_only(inside.pid, WORKSPACE, is_read_only=bool(index % 2))
        except BaseException as error:  # noqa: BLE001 - carried into the test
            failures.append(error)

    threads = [threading.Thread(target=flip) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def _await_file(inside: Puppet, path: str) -> None:
    assert wait_until(lambda: inside.do(f"result = os.path.exists({path!r})"))
