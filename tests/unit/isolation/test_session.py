"""Real sandboxes, by a harness that is root and by one that is an ordinary user."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from repotrial._core.remove_tree import remove_tree
from repotrial._core.words import Level
from repotrial.isolation import (
    BubblewrapSandbox,
    CommandSpec,
    DirectoryRoot,
    Missing,
    SandboxSpec,
    find_identity,
    open_sandbox,
)
from repotrial.isolation._launch_server._idle import build_idle_program
from repotrial.isolation._levels._back_ends.bubblewrap import find_engine
from repotrial.isolation._levels._launcher import open_default_launcher
from repotrial.syscalls import find_machine
from repotrial.trace import Exited, NotStarted
from support.accounts import public_directory
from support.harness import (
    HARNESSES,
    VARIABLES,
    HarnessProcess,
    OrderError,
    RemoteSandbox,
    make_workspace,
    require_sandboxes,
    start_harness,
)
from support.waiting import PATIENCE_SECONDS, wait_until

DONE = {"kind": "exited", "code": 0}


@pytest.fixture(scope="module", params=HARNESSES)
def harness(request: pytest.FixtureRequest) -> Iterator[HarnessProcess]:
    with start_harness(request.param) as process:
        yield process


@pytest.fixture
def workspace(harness: HarnessProcess) -> Iterator[Path]:
    with make_workspace(harness, {"a.txt": "old\n"}) as path:
        yield path


@pytest.fixture
def sandbox(harness: HarnessProcess, workspace: Path) -> Iterator[RemoteSandbox]:
    with harness.sandbox(workspace) as opened:
        yield opened


@pytest.fixture
def private(harness: HarnessProcess) -> Iterator[Path]:
    """A directory into which only its owner, the harness, can go."""
    place = Path(tempfile.mkdtemp(prefix="repotrial-test-")).resolve()
    os.chown(place, harness.uid, -1)
    yield place
    remove_tree(place)


def make_overlay(harness: HarnessProcess, private: Path) -> dict[str, Path]:
    place = private / "place"
    overlay = {name: place / name for name in ("lower", "upper", "work", "target")}
    for path in (place, *overlay.values()):
        path.mkdir()
        harness.give(path)
    for name in ("kept", "gone"):
        (overlay["lower"] / name).write_text("base")
        harness.give(overlay["lower"] / name)
    return overlay


def said(result: dict[str, object]) -> str:
    stream = result["stdout"]
    assert isinstance(stream, dict)
    return str(stream["prefix"])


class TestInside:
    def test_everybody_is_the_same_user_on_every_machine(self, sandbox: RemoteSandbox) -> None:
        assert said(sandbox.shell("id -u; id -g; id -un; hostname")) == "1000\n1000\nsandbox\nsandbox\n"

    def test_the_environment_is_what_was_given_and_nothing_else(self, sandbox: RemoteSandbox) -> None:
        given = {**VARIABLES, "MORE": "a=b\nc"}
        result = sandbox.run("/usr/bin/env", "-0", variables={"MORE": given["MORE"]})
        assert dict(pair.split("=", 1) for pair in said(result).split("\0") if pair) == given

    def test_names_that_are_no_text_pass_through(self, sandbox: RemoteSandbox, workspace: Path) -> None:
        assert sandbox.run("touch", "b\udcff\n")["exit"] == DONE
        assert b"b\xff\n" in os.listdir(os.fsencode(workspace))

    def test_the_workspace_is_where_commands_begin(self, sandbox: RemoteSandbox, workspace: Path) -> None:
        assert said(sandbox.shell("pwd; cat a.txt")) == "/workspace\nold\n"
        sandbox.shell("mkdir d; echo new > d/b.txt")
        assert said(sandbox.run("cat", "b.txt", cwd="/workspace/d")) == "new\n"
        assert (workspace / "d" / "b.txt").stat().st_uid == sandbox.harness.owner

    def test_commands_share_scratch_space_and_processes(self, sandbox: RemoteSandbox) -> None:
        sandbox.shell("echo kept > /tmp/file; sleep 97 > /dev/null 2>&1 & echo $! > /tmp/pid")
        assert said(sandbox.shell("cat /tmp/file; kill -0 $(cat /tmp/pid) && echo alive")) == "kept\nalive\n"

    def test_local_names_resolve(self, sandbox: RemoteSandbox) -> None:
        result = sandbox.python("import socket; print(socket.gethostbyname('localhost'))")
        assert said(result) == "127.0.0.1\n"

    def test_a_server_inside_can_be_reached_inside(self, sandbox: RemoteSandbox) -> None:
        code = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"answer")).start()
print(socket.create_connection(server.getsockname()).recv(10).decode())
"""
        assert said(sandbox.python(code)) == "answer\n"

    def test_signals_have_their_defaults(self, sandbox: RemoteSandbox) -> None:
        masks = said(sandbox.shell("grep -E 'SigBlk|SigIgn' /proc/self/status")).split()
        # Two that the C library keeps for itself are ignored in everything that it starts.
        assert [int(mask, 16) & ~0x180000000 for mask in masks[1::2]] == [0, 0]


class TestShowing:
    def test_binds_are_read_only_unless_said_otherwise(
        self, harness: HarnessProcess, workspace: Path
    ) -> None:
        with make_workspace(harness, {"f": "x"}) as shown, make_workspace(harness) as results:
            binds = [
                {"source": str(shown), "target": "/shown/deep"},
                {"source": str(results), "target": "/results", "is_writable": True},
                {"source": str(shown / "f"), "target": "/etc/one-file"},
            ]
            with harness.sandbox(workspace, binds=binds) as sandbox:
                assert said(sandbox.shell("cat /shown/deep/f /etc/one-file")) == "xx"
                assert sandbox.shell("echo > /shown/deep/new")["exit"] != DONE
                assert sandbox.shell("echo > /etc/one-file")["exit"] != DONE
                assert sandbox.shell("echo out > /results/r")["exit"] == DONE
            assert (results / "r").read_text() == "out\n"

    def test_what_lies_in_a_private_directory_can_be_shown(
        self, harness: HarnessProcess, private: Path
    ) -> None:
        """A root harness becomes somebody who could not walk there."""
        tree = private / "tree"
        tree.mkdir()
        (tree / "f").write_text("private\n")
        for path in (tree, tree / "f"):
            harness.give(path)
        with harness.sandbox(tree, tool_roots=[str(tree)]) as sandbox:
            assert said(sandbox.shell(f"cat f {tree}/f")) == "private\nprivate\n"
            assert sandbox.shell(f"ls {private}/.. {private}/tree/../secret")["exit"] != DONE

    def test_an_overlay_keeps_the_base_as_it_is(self, harness: HarnessProcess, private: Path) -> None:
        overlay = make_overlay(harness, private)
        with harness.sandbox(
            overlay["lower"], overlay={name: str(path) for name, path in overlay.items()}
        ) as sandbox:
            assert (
                said(sandbox.shell("cat kept; echo changed > kept; rm gone; echo > new; ls"))
                == "basekept\nnew\n"
            )
        assert (overlay["lower"] / "kept").read_text() == "base"
        assert sorted(os.listdir(overlay["upper"])) == ["gone", "kept", "new"]

    def test_an_overlay_waits_for_no_disk_and_can_be_had_again(
        self, harness: HarnessProcess, private: Path
    ) -> None:
        """The kernel marks the layers of a volatile overlay and refuses them until somebody vouches."""
        overlay = make_overlay(harness, private)
        for number in range(3):
            with harness.sandbox(
                overlay["lower"], overlay={name: str(path) for name, path in overlay.items()}
            ) as sandbox:
                done = sandbox.shell(
                    f"grep ' /workspace ' /proc/self/mountinfo; echo {number} >> log; cat log"
                )
                line, *log = said(done).splitlines()
            assert "volatile" in line.rpartition(" - overlay ")[2]
            assert log == [str(each) for each in range(number + 1)]

    def test_an_image_is_the_root(self, private: Path) -> None:
        require_sandboxes()
        image = private / "image"
        (image / "bin").mkdir(parents=True)
        (image / "etc").mkdir()
        (image / "bin" / "program").write_bytes(build_idle_program(find_machine()))
        (image / "bin" / "program").chmod(0o755)
        for path in (image, image / "bin", image / "etc"):
            path.chmod(0o755)
        tree = private / "tree"
        tree.mkdir()
        if os.geteuid() == 0:
            os.chown(tree, find_identity().uid, find_identity().gid)
        spec = SandboxSpec(workspace=tree, root=DirectoryRoot(path=image))
        with open_sandbox(spec, level=Level.L3) as sandbox:
            result = sandbox.run(CommandSpec(argv=("program",), timeout_seconds=60))
            assert result.stdout.prefix == b"\x01"
            missing = sandbox.run(CommandSpec(argv=("/usr/bin/env",), timeout_seconds=60))
            assert isinstance(missing.exit, NotStarted)


class TestStages:
    def test_each_stage_is_enforced(self, harness: HarnessProcess, workspace: Path) -> None:
        with harness.sandbox(workspace, stage="read", test_tools=["/usr/bin/expr"]) as sandbox:
            assert sandbox.shell("echo > w")["exit"] != DONE
            assert sandbox.run("/usr/bin/expr", "1", "+", "1")["exit"]["kind"] == "not-started"
            sandbox.call("enter_stage", "write")
            assert sandbox.shell("echo > w")["exit"] == DONE
            assert sandbox.run("/usr/bin/expr", "1", "+", "1")["exit"]["kind"] == "not-started"
            sandbox.call("enter_stage", "test")
            assert said(sandbox.run("/usr/bin/expr", "1", "+", "1")) == "2\n"
            sandbox.call("enter_stage", "read")
            assert sandbox.shell("echo > w")["exit"] != DONE
            assert sandbox.run("/usr/bin/expr", "1", "+", "1")["exit"]["kind"] == "not-started"

    def test_a_writer_keeps_the_workspace_writable_and_it_is_said(
        self, harness: HarnessProcess, workspace: Path
    ) -> None:
        with harness.sandbox(workspace) as sandbox:
            sandbox.shell("exec 5> held; sleep 97 > /dev/null 2>&1 &")
            with pytest.raises(OrderError, match="workspace-writers"):
                sandbox.call("enter_stage", "read")
            assert sandbox.shell("echo > w")["exit"] == DONE


class TestPausing:
    def test_everything_stands_until_it_is_resumed(self, sandbox: RemoteSandbox, workspace: Path) -> None:
        sandbox.start("while :; do date +%s%N > tick; sleep .01; done")
        tick = workspace / "tick"
        assert wait_until(tick.exists)
        sandbox.call("freeze")
        before = tick.read_text()
        time.sleep(0.3)
        assert tick.read_text() == before
        sandbox.call("resume")
        assert wait_until(lambda: tick.read_text() != before)

    def test_a_paused_sandbox_can_be_closed(self, harness: HarnessProcess, workspace: Path) -> None:
        sandbox = harness.open(workspace)
        sandbox.start("echo > started; sleep 97")
        assert wait_until((workspace / "started").exists)
        sandbox.call("freeze")
        sandbox.close()
        assert not Path(f"/proc/{sandbox.pid}").exists() or is_zombie(sandbox.pid)


class TestMeasuring:
    def test_processor_time_of_every_descendant_counts(self, sandbox: RemoteSandbox) -> None:
        code = """
import os, signal, time
done, tell = os.pipe()
leave, hold = os.pipe()
def burn():
    os.close(hold)
    end = time.process_time() + .4
    while time.process_time() < end: pass
    os.write(tell, b"x")
    os.read(leave, 1)                         # until everybody has burned, and been seen
    os._exit(0)
if not os.fork(): burn()                      # a child
if not os.fork():                             # a daemon
    os.setsid()
    if not os.fork(): burn()
    os._exit(0)
if not os.fork():                             # a child of somebody who does not want to know
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if not os.fork(): burn()
    os.close(hold)
    os.read(leave, 1)
    os._exit(0)
for _ in range(3):
    os.read(done, 1)
time.sleep(1)
"""
        usage = sandbox.python(code)["usage"]
        assert usage["wall_us"] >= 1_000_000
        # Looking counts in steps of the kernel's clock, some of which another process was charged for.
        floor = 1_000_000 if usage["cpu_meter"] == "sampled" else 1_200_000
        assert floor <= usage["cpu_us"] <= 4_000_000

    def test_the_meters_are_named(self, sandbox: RemoteSandbox, harness: HarnessProcess) -> None:
        found = harness.order("findings")[0]
        usage = sandbox.shell("sleep 1")["usage"]
        assert usage["cpu_meter"] == found["cpu_meter"]
        assert usage["memory_meter"] == found["memory_limit"]
        assert usage["peak_memory_bytes"] > 0

    def test_programs_that_are_started_are_on_record(self, sandbox: RemoteSandbox) -> None:
        sandbox.shell("/usr/bin/env true")
        assert wait_until(lambda: sandbox.seen().count("StartRecord") == 3)
        assert wait_until(lambda: sandbox.seen().count("EndRecord") == 3)


class TestOpening:
    def test_a_workspace_that_is_not_there_is_reported(self, harness: HarnessProcess) -> None:
        with pytest.raises(OrderError, match="sandbox-start"):
            harness.open(Path("/no/such/directory"))

    def test_a_failed_start_leaves_nothing(self, harness: HarnessProcess, workspace: Path) -> None:
        harness.open(workspace).close()
        before = harness.state()
        for _ in range(5):
            with pytest.raises(OrderError):
                harness.open(workspace, binds=[{"source": "/no/such/file", "target": "/x"}])
            with pytest.raises(OrderError):
                harness.open(workspace, test_tools=["/no/such/tool"])
        # A thread of an earlier command may just be ending; nothing may be more than it was.
        assert wait_until(lambda: is_at_most(harness.state(), before)), (before, harness.state())

    def test_closing_twice_is_closing_once(self, harness: HarnessProcess, workspace: Path) -> None:
        require_sandboxes()
        sandbox = harness.open(workspace)
        sandbox.call("close")
        sandbox.close()

    def test_a_closed_sandbox_runs_nothing(self, harness: HarnessProcess, workspace: Path) -> None:
        sandbox = harness.open(workspace)
        sandbox.call("close")
        with pytest.raises(OrderError, match="sandbox-lost"):
            sandbox.shell("true")

    def test_a_parent_takes_one_command_after_the_other(self, sandbox: RemoteSandbox) -> None:
        first, second = (said(sandbox.shell("echo $PPID; cd /tmp")) for _ in range(2))
        assert first == second
        assert said(sandbox.shell("pwd; ls /proc/$PPID/fd 2> /dev/null")) == "/workspace\n"

    def test_a_parent_of_something_that_goes_on_takes_no_other_command(self, sandbox: RemoteSandbox) -> None:
        first = said(sandbox.shell("echo $PPID; sleep 97 > /dev/null 2>&1 &"))
        assert said(sandbox.shell("echo $PPID")) != first

    def test_a_parent_that_was_killed_while_it_waited_is_replaced(
        self, sandbox: RemoteSandbox, workspace: Path
    ) -> None:
        kill = "while [ ! -s victim ]; do :; done; read v < victim; kill -9 $v"
        await_burial = "while [ -e /proc/$v ]; do :; done"
        sandbox.start(f"echo > begun; {kill}; {await_burial}; echo > killed; sleep 97")
        assert wait_until((workspace / "begun").exists)
        spare = said(sandbox.shell("echo $PPID"))
        (workspace / "victim").write_text(spare)
        assert wait_until((workspace / "killed").exists)
        assert said(sandbox.shell("echo $PPID")) not in {"", spare}

    def test_each_command_is_charged_for_itself_alone(self, sandbox: RemoteSandbox) -> None:
        burnt = sandbox.python("import time\nwhile time.process_time() < 0.4: pass")["usage"]
        idle = sandbox.shell("true")["usage"]
        assert isinstance(burnt, dict)
        assert isinstance(idle, dict)
        assert idle["cpu_us"] < burnt["cpu_us"]

    def test_several_commands_run_at_the_same_time(self, sandbox: RemoteSandbox, workspace: Path) -> None:
        for number in range(4):
            sandbox.start(
                f"echo > started{number}; while [ ! -e go ]; do sleep .01; done; echo > done{number}"
            )
        assert wait_until(lambda: len(list(workspace.glob("started*"))) == 4)
        assert sandbox.shell("echo > go")["exit"] == DONE
        assert wait_until(lambda: len(list(workspace.glob("done*"))) == 4)


def test_a_machine_that_gives_namespaces_only_to_bubblewrap_still_has_level_2() -> None:
    require_sandboxes()
    engine = find_engine(Level.L2)
    assert not isinstance(engine, Missing)
    engine = msgspec.structs.replace(engine, is_staged=False)
    with public_directory() as workspace:
        if os.geteuid() == 0:
            os.chown(workspace, find_identity().uid, find_identity().gid)
        spec = SandboxSpec(workspace=workspace, variables=VARIABLES)
        with BubblewrapSandbox(spec, engine, launcher=open_default_launcher()) as sandbox:
            result = sandbox.run(CommandSpec(argv=("sh", "-c", "echo > made; ps -e | wc -l; ls /sys")))
            assert (workspace / "made").exists()
            assert int(result.stdout.prefix) < 10
            sandbox.enter_stage("read")
            assert sandbox.run(CommandSpec(argv=("touch", "late"))).exit != Exited(code=0)


def test_the_harness_serves_a_port_inside(tmp_path: Path) -> None:
    require_sandboxes()
    if os.geteuid() == 0:
        os.chown(tmp_path, find_identity().uid, find_identity().gid)
    spec = SandboxSpec(workspace=tmp_path, listener_port=8099, variables=VARIABLES)
    sandbox = open_sandbox(spec, level=Level.L3)
    assert isinstance(sandbox, BubblewrapSandbox)
    with sandbox:
        assert sandbox.listener is not None
        sandbox.listener.settimeout(PATIENCE_SECONDS)
        # The kernel accepts for us: what was sent waits until somebody looks.
        client = "import socket; c = socket.create_connection(('127.0.0.1', 8099)); c.sendall(b'hello')"
        assert sandbox.run(CommandSpec(argv=("/usr/bin/python3", "-c", client))).cause == "ended"
        connection, _ = sandbox.listener.accept()
        with connection:
            assert connection.recv(10) == b"hello"


def is_at_most(state: dict[str, int], bound: dict[str, int]) -> bool:
    same = ("launcher", "uid")
    counted = ("fds", "threads")
    return all(state[name] == bound[name] for name in same) and all(
        state[name] <= bound[name] for name in counted
    )


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].startswith(b"Z")
    except OSError:
        return True
