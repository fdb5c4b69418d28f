"""Programs that do not want to end, want too much, or lie about how they ended: by a harness that is root and
by one that is an ordinary user.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.harness import (
    HARNESSES,
    HEADLESS,
    HarnessProcess,
    OrderError,
    RemoteSandbox,
    make_workspace,
    start_harness,
)
from support.waiting import wait_until

MEGABYTE: Final = 1024**2
KILLED: Final = {"kind": "signaled", "signal": 9}
# Long enough to be noticed if it is waited for, short enough to go away if a test fails.
FOREVER: Final = "sleep 97"
LESS_THAN_FOREVER_US: Final = 95_000_000
LONG: Final = 90
"""Seconds that are never needed where the machine does what it should, however slow it is."""


@pytest.fixture(scope="module", params=HARNESSES)
def harness(request: pytest.FixtureRequest) -> Iterator[HarnessProcess]:
    with start_harness(request.param) as process:
        yield process


@pytest.fixture
def workspace(harness: HarnessProcess) -> Iterator[Path]:
    with make_workspace(harness) as path:
        yield path


@pytest.fixture
def sandbox(harness: HarnessProcess, workspace: Path) -> Iterator[RemoteSandbox]:
    with harness.sandbox(workspace) as opened:
        yield opened


def list_programs(sandbox: RemoteSandbox) -> list[str]:
    """What runs inside, besides our own processes and this one."""
    listed = sandbox.shell("for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2> /dev/null")
    lines = [line.strip() for line in listed["stdout"]["prefix"].splitlines()]
    return [line for line in lines if line and "cmdline" not in line and "/proc/self/fd" not in line]


def is_empty(pid: int) -> bool:
    """Whether a sandbox is gone, or will be as soon as somebody looks again."""
    return wait_until(lambda: count_inside(pid) == 0)


def count_inside(pid: int) -> int:
    """Processes in the PID namespace of a sandbox, seen from the host; as root or as their owner."""
    try:
        namespace = os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return 0
    count = 0
    for name in os.listdir("/proc"):
        try:
            count += name.isdecimal() and os.readlink(f"/proc/{name}/ns/pid") == namespace
        except OSError:
            continue
    return count


class TestEndings:
    def test_exit_code_is_the_kernels(self, sandbox: RemoteSandbox) -> None:
        assert sandbox.shell("exit 7")["exit"] == {"kind": "exited", "code": 7}
        assert sandbox.shell("kill -SEGV $$")["exit"] == {"kind": "signaled", "signal": 11}

    def test_exit_status_cannot_be_forged_through_descriptors(self, sandbox: RemoteSandbox) -> None:
        code = """
import json, os
for number in range(3, 1100):
    for forged in (b'{"ended": 0, "cpu_us": 0}', b'{ "exit-code": 0 }\\n'):
        try:
            os.write(number, forged)
        except OSError:
            pass
print('{"ended": 0, "cpu_us": 0}', flush=True)
os._exit(9)
"""
        assert sandbox.python(code)["exit"] == {"kind": "exited", "code": 9}

    def test_killing_pid_1_has_no_effect(self, sandbox: RemoteSandbox) -> None:
        for number in ("KILL", "STOP", "TERM", "SEGV"):
            sandbox.shell(f"kill -{number} 1")
        assert sandbox.shell("echo still here")["stdout"]["prefix"] == "still here\n"

    def test_killing_everything_ends_the_sandbox_and_is_said(self, sandbox: RemoteSandbox) -> None:
        result = sandbox.shell("kill -9 -1; sleep 1; echo unreachable")
        assert result["cause"] == "sandbox-lost"
        assert result["exit"]["kind"] == "unknown"
        with pytest.raises(OrderError, match="sandbox-lost"):
            sandbox.shell("true")

    def test_killing_its_parent_does_not_set_a_program_free(self, sandbox: RemoteSandbox) -> None:
        result = sandbox.shell(f"kill -9 $PPID; {FOREVER}")
        assert result["cause"] == "sandbox-lost"
        assert is_empty(sandbox.pid)

    def test_stopping_its_parent_does_not_outlast_the_timeout(self, sandbox: RemoteSandbox) -> None:
        result = sandbox.shell(f"kill -STOP $PPID; {FOREVER}", timeout_seconds=1)
        assert result["cause"] == "timeout"
        assert list_programs(sandbox) == []

    def test_a_stopped_spare_parent_is_noticed(self, sandbox: RemoteSandbox, workspace: Path) -> None:
        stop = "for p in /proc/[0-9]*; do grep -q 'PPid:.0$' $p/status && kill -STOP ${p#/proc/}; done"
        # A parent that is stopped before it has told of its command would be woken to end that.
        sandbox.start(f"echo > begun; while [ ! -e kept ]; do :; done; {stop}; echo > stopped")
        assert wait_until((workspace / "begun").exists)
        sandbox.shell("true")  # whoever has kept a command waits for another
        (workspace / "kept").touch()
        assert wait_until((workspace / "stopped").exists)
        result = sandbox.shell("true", timeout_seconds=1)
        assert result["cause"] in {"timeout", "sandbox-lost"}

    def test_ignoring_every_signal_does_not_help(self, sandbox: RemoteSandbox) -> None:
        result = sandbox.shell(f"trap '' TERM INT HUP QUIT; {FOREVER}; {FOREVER}", timeout_seconds=1)
        observed_us = result["exit"].pop("observed_us")
        assert result["exit"] == {"kind": "timed-out", "ceiling_us": 1_000_000}
        assert 1_000_000 <= observed_us < LESS_THAN_FOREVER_US
        assert result["usage"]["wall_us"] < LESS_THAN_FOREVER_US
        assert list_programs(sandbox) == []

    def test_a_timeout_finds_every_descendant(self, sandbox: RemoteSandbox) -> None:
        tree = f"setsid {FOREVER} & (setsid nohup {FOREVER} > /dev/null 2>&1 &); (({FOREVER} &) &); {FOREVER}"
        assert sandbox.shell(tree, timeout_seconds=1)["cause"] == "timeout"
        assert list_programs(sandbox) == []

    def test_ending_its_first_thread_does_not_make_a_program_immortal(
        self, sandbox: RemoteSandbox, workspace: Path
    ) -> None:
        """The kernel shows such a process as dead, and its other threads go on."""
        result = sandbox.python(HEADLESS, timeout_seconds=5)
        assert (workspace / "headless").exists()
        assert result["cause"] == "timeout"
        assert list_programs(sandbox) == []

    def test_a_timeout_spares_what_another_command_left(self, sandbox: RemoteSandbox) -> None:
        sandbox.shell("sleep 96 > /dev/null 2>&1 &")
        assert wait_until(lambda: list_programs(sandbox) == ["sleep 96"])
        late = sandbox.shell(FOREVER, timeout_seconds=1)
        assert late["cause"] == "timeout"
        assert late["exit"]["ceiling_us"] == 1_000_000 <= late["exit"]["observed_us"]
        assert list_programs(sandbox) == ["sleep 96"]

    def test_a_program_that_always_forks_and_ends_is_caught(self, sandbox: RemoteSandbox) -> None:
        """At any instant there is another process; no list of them is ever right."""
        code = "import os\nwhile True:\n    if os.fork():\n        os._exit(0)"
        result = sandbox.python(
            f"import os\nif os.fork():\n    os.wait()\n    import time; time.sleep(97)\n{code}",
            timeout_seconds=1,
        )
        assert result["cause"] in {"timeout", "sandbox-lost", "processes"}
        if result["cause"] == "sandbox-lost":
            assert is_empty(sandbox.pid)
        else:
            assert list_programs(sandbox) == []

    def test_a_daemon_that_holds_the_pipes_is_not_waited_for(self, sandbox: RemoteSandbox) -> None:
        result = sandbox.shell(f"echo before; {FOREVER} &")
        assert result["exit"] == {"kind": "exited", "code": 0}
        assert result["stdout"]["prefix"] == "before\n"
        assert result["usage"]["wall_us"] < LESS_THAN_FOREVER_US

    def test_a_daemon_does_not_outlive_the_sandbox(self, harness: HarnessProcess, workspace: Path) -> None:
        sandbox = harness.open(workspace)
        sandbox.shell(f"setsid nohup {FOREVER} > /dev/null 2>&1 &")
        assert count_inside(sandbox.pid) > 1
        sandbox.close()
        assert is_empty(sandbox.pid)

    def test_closing_ends_a_command_that_runs(self, harness: HarnessProcess, workspace: Path) -> None:
        sandbox = harness.open(workspace)
        sandbox.start(f"echo > started; {FOREVER}")
        assert wait_until((workspace / "started").exists)
        sandbox.close()
        assert is_empty(sandbox.pid)
        assert sandbox.finished()["usage"]["wall_us"] < LESS_THAN_FOREVER_US

    def test_the_time_of_the_whole_sandbox_ends_too(self, harness: HarnessProcess, workspace: Path) -> None:
        with harness.sandbox(workspace, limits={"wall_seconds": 1}) as sandbox:
            assert sandbox.shell(FOREVER)["cause"] == "timeout"
            assert sandbox.shell(FOREVER)["cause"] == "timeout"

    def test_a_program_that_is_not_there_never_started(self, sandbox: RemoteSandbox) -> None:
        assert sandbox.run("no-such-program")["exit"]["kind"] == "not-started"
        assert sandbox.run("true", cwd="/nowhere")["exit"]["kind"] == "not-started"
        assert sandbox.run("/etc/passwd")["exit"]["kind"] == "not-started"
        assert sandbox.run("tr\0ue")["exit"]["kind"] == "not-started"
        assert sandbox.run("true")["exit"] == {"kind": "exited", "code": 0}

    def test_arguments_beyond_the_kernels_limit_are_refused(self, sandbox: RemoteSandbox) -> None:
        assert sandbox.run("true", "x" * (3 * MEGABYTE))["exit"]["kind"] == "not-started"
        assert sandbox.run("true", "x" * 100_000)["exit"] == {"kind": "exited", "code": 0}


class TestOutput:
    def test_a_flood_is_ended_at_the_limit(self, sandbox: RemoteSandbox) -> None:
        result = sandbox.run("yes", output_bytes=MEGABYTE, prefix_bytes=10)
        assert result["cause"] == "output"
        assert result["stdout"]["prefix"] == "y\ny\ny\ny\ny\n"
        assert result["stdout"]["length_bytes"] == MEGABYTE
        digest = hashlib.sha256(b"y\n" * (MEGABYTE // 2)).hexdigest()
        assert result["stdout"]["digest"] == f"sha256:{digest}"

    def test_a_flood_on_both_streams_counts_together(self, sandbox: RemoteSandbox) -> None:
        result = sandbox.shell("yes >&2 & yes", output_bytes=MEGABYTE)
        assert result["cause"] == "output"
        assert result["stdout"]["length_bytes"] + result["stderr"]["length_bytes"] == MEGABYTE

    def test_everything_is_digested_beyond_the_prefix(self, sandbox: RemoteSandbox) -> None:
        result = sandbox.shell("head -c 3000000 /dev/zero", prefix_bytes=5)
        digest = hashlib.sha256(bytes(3_000_000)).hexdigest()
        assert result["stdout"] == {
            "prefix": "\0" * 5,
            "digest": f"sha256:{digest}",
            "length_bytes": 3_000_000,
        }

    def test_terminal_sequences_are_only_bytes(self, sandbox: RemoteSandbox) -> None:
        attack = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b5n\r\n\x00\xff"
        code = f"import sys; sys.stdout.buffer.write({attack.encode('latin-1')!r})"
        assert sandbox.python(code)["stdout"]["prefix"] == attack


class TestAppetite:
    def test_a_fork_bomb_is_ended_as_one(self, harness: HarnessProcess, workspace: Path) -> None:
        with harness.sandbox(workspace, limits={"processes": 60}) as sandbox:
            bomb = """
import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(.01)
"""
            result = sandbox.python(bomb, timeout_seconds=LONG)
            assert result["cause"] == "processes"
            assert list_programs(sandbox) == []

    def test_a_program_that_dies_of_refused_forks_says_so(
        self, harness: HarnessProcess, workspace: Path
    ) -> None:
        with harness.sandbox(workspace, limits={"processes": 30}) as sandbox:
            code = "import os, time\nfor _ in range(100):\n    if not os.fork():\n        time.sleep(97)\n"
            result = sandbox.python(code, timeout_seconds=LONG)
            assert result["cause"] == "processes"

    def test_a_memory_bomb_is_ended_as_one(self, harness: HarnessProcess, workspace: Path) -> None:
        with harness.sandbox(workspace, limits={"memory_mb": 128}) as sandbox:
            bomb = "import time\nkept = []\nwhile True:\n    kept.append(b'x' * 1048576); time.sleep(.01)"
            result = sandbox.python(bomb, timeout_seconds=LONG)
            assert result["cause"] == "memory"
            assert result["exit"] == KILLED
            # A control group is exact; looking may be late.
            is_exact = result["usage"]["memory_meter"] != "polled"
            assert result["usage"]["peak_memory_bytes"] <= (128 if is_exact else 400) * MEGABYTE
            assert sandbox.shell("true")["exit"] == {"kind": "exited", "code": 0}

    def test_many_small_eaters_are_too_much_together(self, harness: HarnessProcess, workspace: Path) -> None:
        with harness.sandbox(workspace, limits={"memory_mb": 128}) as sandbox:
            code = """
import os, time
for _ in range(12):
    if not os.fork():
        kept = bytearray(os.urandom(1048576)) * 20
        time.sleep(97)
for _ in range(12):
    os.wait()
raise SystemExit(3)
"""
            assert sandbox.python(code, timeout_seconds=LONG)["cause"] == "memory"

    def test_burning_the_processor_is_ended_as_such(self, harness: HarnessProcess, workspace: Path) -> None:
        with harness.sandbox(workspace, limits={"cpu_seconds": 1}) as sandbox:
            # Two halves, so that no single process reaches the kernel's own limit.
            result = sandbox.shell("(while :; do :; done) & while :; do :; done", timeout_seconds=LONG)
            assert result["cause"] == "cpu"

    def test_one_process_that_burns_alone_is_ended_as_such(
        self, harness: HarnessProcess, workspace: Path
    ) -> None:
        """The kernel's own limit ends it, perhaps before anybody looks."""
        with harness.sandbox(workspace, limits={"cpu_seconds": 1}) as sandbox:
            result = sandbox.shell("while :; do :; done", timeout_seconds=LONG)
            assert (result["cause"], result["exit"]) == ("cpu", KILLED)

    def test_scratch_space_is_bounded(self, harness: HarnessProcess, workspace: Path) -> None:
        with harness.sandbox(workspace, limits={"tmp_mb": 8}) as sandbox:
            for place, megabytes in (("/tmp", 8), ("/dev/shm", 16), ("/run", 16), ("/var/tmp", 16)):
                result = sandbox.shell(f"head -c 100M /dev/zero > {place}/full")
                assert result["exit"] != {"kind": "exited", "code": 0}
                size = sandbox.shell(f"stat -c %s {place}/full; rm {place}/full")["stdout"]["prefix"]
                assert int(size) == megabytes * MEGABYTE

    def test_filling_the_disk_is_ended_as_such(self, harness: HarnessProcess, workspace: Path) -> None:
        (workspace / "before").write_bytes(os.urandom(2 * MEGABYTE))
        with harness.sandbox(workspace, limits={"disk_mb": 8}) as sandbox:
            fill = "for i in 1 2 3 4 5; do head -c 4M /dev/urandom > f$i; sleep .3; done; exit 1"
            assert sandbox.shell(fill, timeout_seconds=LONG)["cause"] == "disk"

    def test_a_file_that_grows_too_large_is_ended(self, harness: HarnessProcess, workspace: Path) -> None:
        with harness.sandbox(workspace, limits={"file_mb": 1}) as sandbox:
            result = sandbox.shell("exec head -c 5M /dev/zero > large")
            assert result["cause"] == "disk"
            assert (workspace / "large").stat().st_size == MEGABYTE

    def test_open_files_are_bounded(self, harness: HarnessProcess, workspace: Path) -> None:
        with harness.sandbox(workspace, limits={"open_files": 40}) as sandbox:
            result = sandbox.python("kept = [open('/dev/null') for _ in range(100)]")
            assert b"Too many open files" in result["stderr"]["prefix"].encode()

    def test_no_core_is_dumped(self, sandbox: RemoteSandbox, workspace: Path) -> None:
        assert sandbox.shell("kill -ABRT $$")["exit"] == {"kind": "signaled", "signal": 6}
        assert list(workspace.iterdir()) == []

    def test_zombies_do_not_pile_up(self, harness: HarnessProcess, workspace: Path) -> None:
        with harness.sandbox(workspace, limits={"processes": 30}) as sandbox:
            for _ in range(3):
                sandbox.shell("for i in $(seq 40); do (true &); done; wait")

            def has_zombies() -> bool:
                listed = sandbox.shell("cat /proc/[0-9]*/stat 2> /dev/null")
                return ") Z " in listed["stdout"]["prefix"]

            # What ended last is still being buried.
            assert wait_until(lambda: not has_zombies())
