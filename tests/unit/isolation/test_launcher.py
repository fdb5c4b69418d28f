from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from repotrial.isolation._launch_server._messages import StartOrder
from repotrial.isolation._levels._launcher import Launcher, NamespaceHelper, open_default_launcher
from support.errors import raises_code
from support.harness import require_sandboxes
from support.waiting import wait_until

ORDER = StartOrder(
    bubblewrap="/bin/false",
    label="repotrial",
    arguments=[],
    files=[],
    is_staged=False,
    trees=[],
    opened_trees=0,
    overlays=[],
    filter="",
    with_listener=False,
    account=[],
    scratch_bounds=[],
)


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def await_end(pid: int) -> bool:
    return wait_until(lambda: has_ended(pid))


def has_ended(pid: int) -> bool:
    try:
        return status(pid)["State"].startswith("Z")
    except OSError:
        return True


def await_server(launcher: Launcher) -> None:
    """Until it serves, it may still be whoever started it."""
    nothing = os.open("/dev/null", os.O_RDWR)
    os.close(launcher.start_sandbox(ORDER, [nothing] * 6).pidfd)
    os.close(nothing)


@pytest.fixture(autouse=True)
def _capable() -> None:
    require_sandboxes()


def test_the_server_is_nobody_and_shows_nothing() -> None:
    with Launcher() as launcher:
        await_server(launcher)
        found = status(launcher.pid)
        assert found["Uid"].split() == [str(launcher.identity.uid)] * 4
        assert found["Uid"].split()[0] != "0"
        # As root, what it takes to give each sandbox a user of its own: to kill, and to become another.
        assert int(found["CapEff"], 16) == (0 if os.geteuid() else 0xE0)
        assert int(found["CapPrm"], 16) == int(found["CapEff"], 16)
        assert found["NoNewPrivs"] == "1" or os.geteuid()
        assert Path(f"/proc/{launcher.pid}/cmdline").read_bytes().strip(b"\0") == b""
        assert found["Name"] == "repotrial"
        assert found["Threads"] == "1"


def test_the_server_ends_when_it_is_closed() -> None:
    launcher = Launcher()
    launcher.close()
    assert not launcher.is_alive


def test_a_server_that_died_is_noticed() -> None:
    with Launcher() as launcher:
        os.kill(launcher.pid, signal.SIGKILL)
        with raises_code("launcher-lost"):
            launcher.start_sandbox(ORDER, [])


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_between_request_and_answer_does_not_shift_later_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Launcher() as launcher, monkeypatch.context() as patch:
        await_server(launcher)
        patch.setattr("repotrial.isolation._levels._launcher.receive_answer", interrupt)
        with pytest.raises(KeyboardInterrupt):
            await_server(launcher)
        assert await_end(launcher.pid)
        assert not launcher.is_alive


def test_an_interrupt_of_a_request_to_the_helper_does_not_shift_later_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with NamespaceHelper() as helper, monkeypatch.context() as patch:
        patch.setattr("repotrial.isolation._levels._launcher.receive_with_descriptors", interrupt)
        with pytest.raises(KeyboardInterrupt):
            helper.request(operation="nonsense")
        assert wait_until(lambda: not helper.is_alive)


def test_the_server_ends_with_the_harness_even_if_a_stray_copy_of_the_channel_lives() -> None:
    code = """
import os, sys, time
from repotrial.isolation._levels._launcher import Launcher
launcher = Launcher()
stray = os.fork()
if not stray:
    os.closerange(0, 3)  # what we print ends with us
    time.sleep(97)       # inherits the channel
    os._exit(0)
print(launcher.pid, stray, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    server, stray = map(int, done.stdout.split())
    try:
        assert await_end(server)
        assert not has_ended(stray)
    finally:
        os.kill(stray, signal.SIGKILL)


def test_the_server_outlives_the_thread_that_started_it() -> None:
    """A signal at the parent's death would come when the *thread* ends."""
    made: list[Launcher] = []
    thread = threading.Thread(target=lambda: made.append(Launcher()))
    thread.start()
    thread.join()
    with made[0] as launcher:
        await_server(launcher)
        assert launcher.is_alive


def test_the_shared_one_is_replaced_when_it_died() -> None:
    first = open_default_launcher()
    assert open_default_launcher() is first
    os.kill(first.pid, signal.SIGKILL)
    assert await_end(first.pid)
    second = open_default_launcher()
    assert second is not first
    assert second.is_alive
