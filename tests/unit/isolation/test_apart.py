"""What one sandbox holds, counts or fills is nothing to another; each means by itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial.isolation import find_identity
from support.harness import HARNESSES, HarnessProcess, make_workspace, start_harness
from support.waiting import wait_until

LOCK = "import fcntl, sys; file = open('/usr/bin/env'); fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)"
KEEP = "; open('ready', 'x'); import time; time.sleep(300)"
NAMELESS = """
import os, sys
if sys.argv[1] == "unlinked":
    file = os.open("x", os.O_CREAT | os.O_RDWR); os.unlink("x")
else:
    file = os.open(".", os.O_TMPFILE | os.O_RDWR)
for _ in range(64):
    os.write(file, os.urandom(1 << 20))
import time; time.sleep(300)
"""
MANY_FILES = """
import errno, os
for number in range(100_000):
    try:
        os.close(os.open(f"/tmp/{number}", os.O_CREAT | os.O_WRONLY))
    except OSError as error:
        raise SystemExit(0 if error.errno == errno.ENOSPC else 2)
raise SystemExit(1)
"""


@pytest.fixture(scope="module", params=HARNESSES)
def harness(request: pytest.FixtureRequest) -> Iterator[HarnessProcess]:
    with start_harness(request.param) as process:
        yield process


def test_a_lock_on_a_shared_file_is_the_sandboxes_own(harness: HarnessProcess) -> None:
    with (
        make_workspace(harness) as held,
        harness.sandbox(held) as holder,
        make_workspace(harness) as other,
        harness.sandbox(other) as sandbox,
    ):
        holder.start(f'exec /usr/bin/python3 -c "{LOCK}{KEEP}"')
        assert wait_until((held / "ready").exists)
        assert holder.python(LOCK)["exit"] != {"kind": "exited", "code": 0}, (
            "the lock does not even hold inside"
        )
        assert sandbox.python(LOCK)["exit"] == {"kind": "exited", "code": 0}


@pytest.mark.parametrize("kind", ["unlinked", "never-named"])
def test_space_of_files_without_a_name_is_seen(harness: HarnessProcess, kind: str) -> None:
    with make_workspace(harness) as path, harness.sandbox(path, limits={"disk_mb": 8}) as sandbox:
        ended = sandbox.run("/usr/bin/python3", "-c", NAMELESS, kind)
    assert ended["cause"] == "disk"


def test_files_in_memory_have_a_bound_on_their_number(harness: HarnessProcess) -> None:
    with make_workspace(harness) as path, harness.sandbox(path, limits={"tmp_mb": 64}) as sandbox:
        assert sandbox.python(MANY_FILES)["exit"] == {"kind": "exited", "code": 0}


def test_each_sandbox_of_root_has_a_user_of_its_own_and_its_files_stay_stored_as_one() -> None:
    if os.geteuid():
        pytest.skip("only root has accounts to give away")
    with start_harness("root") as harness, make_workspace(harness) as path:
        with (
            harness.sandbox(path) as one,
            make_workspace(harness) as beside,
            harness.sandbox(beside) as other,
        ):
            users = {
                Path(f"/proc/{each.pid}/status").read_text().split("Uid:")[1].split()[0]
                for each in (one, other)
            }
            assert len(users) == 2
            assert not users & {"0", str(find_identity().uid)}
            assert one.shell("id -u; : > made; stat -c %u made")["stdout"]["prefix"] == "1000\n1000\n"
        assert (path / "made").stat().st_uid == find_identity().uid
