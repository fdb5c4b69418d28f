from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial.isolation import open_listener
from repotrial.isolation._levels._launcher import NamespaceHelper, open_default_helper
from repotrial.isolation._levels._stages import mask, set_read_only, unmask
from support.bubblewrap import Puppet, make_directory, open_puppet, require_bubblewrap
from support.errors import raises_code
from support.waiting import PATIENCE_SECONDS, wait_until

PORT = 8123


@pytest.fixture
def workspace() -> Iterator[Path]:
    require_bubblewrap()
    with make_directory() as path:
        yield path


@pytest.fixture
def inside(workspace: Path) -> Iterator[Puppet]:
    with open_puppet(workspace) as puppet:
        yield puppet


def test_a_program_inside_reaches_the_harness(inside: Puppet) -> None:
    with open_listener(inside.pid, PORT) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        inside.tell(
            f's = socket.create_connection(("127.0.0.1", {PORT}), 60)\n'
            's.sendall(b"question"); result = s.recv(64).decode()'
        )
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(64) == b"question"
            connection.sendall(b"answer")
            assert inside.answer() == "answer"


def test_the_host_does_not_see_the_port(inside: Puppet) -> None:
    with open_listener(inside.pid, 0) as listener:
        port = listener.getsockname()[1]
        assert f":{port:04X} " not in Path("/proc/self/net/tcp").read_text()
        assert not listener.get_inheritable()


def test_a_port_that_a_program_took_is_reported(inside: Puppet) -> None:
    inside.do(f'taken = socket.create_server(("127.0.0.1", {PORT}))')
    with raises_code("sandbox-entry", match="in use"):
        open_listener(inside.pid, PORT)


def test_a_sandbox_that_ended_is_reported(workspace: Path) -> None:
    with open_puppet(workspace) as inside:
        pid = inside.pid
    for attempt in (
        lambda: open_listener(pid, PORT),
        lambda: set_read_only(pid, "/workspace", is_read_only=True),
        lambda: mask(pid, ["/usr/bin/env"]),
    ):
        with raises_code("sandbox-entry", match=str(pid)):
            attempt()


def test_a_path_that_is_no_mount_is_reported(inside: Puppet) -> None:
    with raises_code("sandbox-entry", match="/usr/bin"):
        set_read_only(inside.pid, "/usr/bin", is_read_only=True)


def test_a_tool_that_does_not_exist_is_reported_and_nothing_is_masked(inside: Puppet) -> None:
    with raises_code("sandbox-entry", match="/usr/bin/no-such-tool"):
        mask(inside.pid, ["/usr/bin/env", "/usr/bin/no-such-tool"])
    assert inside.do('result = subprocess.run(["/usr/bin/env"], capture_output=True).returncode') == 0


def test_only_masks_can_be_taken_off(inside: Puppet) -> None:
    with raises_code("sandbox-entry", match="not masked"):
        unmask(inside.pid, ["/workspace"])
    assert inside.do('result = os.path.ismount("/workspace")') is True


def test_masking_twice_needs_one_unmasking(inside: Puppet) -> None:
    run = 'result = subprocess.run(["/usr/bin/env"], capture_output=True).returncode'
    mask(inside.pid, ["/usr/bin/env", "/bin/env"])
    mask(inside.pid, ["/usr/bin/env"])
    assert inside.do(run) == "EACCES"
    unmask(inside.pid, ["/usr/bin/env"])
    assert inside.do(run) == 0


def test_a_helper_that_died_is_replaced(inside: Puppet) -> None:
    helper = open_default_helper()
    helper._process.kill()
    helper._process.wait()
    set_read_only(inside.pid, "/workspace", is_read_only=True)
    assert open_default_helper() is not helper


def test_a_helper_that_died_says_so() -> None:
    with NamespaceHelper() as helper:
        helper._process.kill()
        helper._process.wait()
        with raises_code("helper-lost"):
            helper.request(operation="listen", pid=1, port=1)


def test_a_request_that_makes_no_sense_is_refused() -> None:
    with NamespaceHelper() as helper:
        with pytest.raises(OSError, match="unknown request"):
            helper.request(operation="dance")
        with pytest.raises(OSError, match="bytes"):
            helper.request(operation="cover", pid=1, paths=["x" * 70_000])
        assert helper.is_alive


def test_the_helper_leaves_nothing_behind() -> None:
    with NamespaceHelper() as helper:
        pid = helper._process.pid
        with pytest.raises(OSError, match="unknown"):
            helper.request(operation="dance")
    assert not Path(f"/proc/{pid}").exists()
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    assert children.stdout.strip() == ""


def test_the_helper_ends_with_a_harness_that_is_killed() -> None:
    code = (
        "import os, sys\nfrom repotrial.isolation._levels._launcher import open_default_helper\n"
        "print(open_default_helper()._process.pid, flush=True)\nos.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
        check=False,
    )
    pid = int(done.stdout)
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists()), f"helper {pid} still runs"
