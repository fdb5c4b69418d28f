"""Several harnesses on one directory of runs."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from repotrial.fleet._claim import RunUnderWayError, claim_run, tidy_claims
from repotrial.run import RunDirectoryError

HOLD = """
import sys, time
from pathlib import Path
from repotrial.fleet._claim import claim_run
with claim_run(Path(sys.argv[1]), "one"):
    print("held", flush=True)
    time.sleep(97)
"""


def test_a_run_is_conducted_by_one_harness_at_a_time(tmp_path: Path) -> None:
    with (
        claim_run(tmp_path, "one"),
        claim_run(tmp_path, "two"),
        pytest.raises(RunUnderWayError, match="one: expected to conduct it"),
        claim_run(tmp_path, "one"),
    ):
        pass
    with claim_run(tmp_path, "one"):
        pass
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [(".claims", 0)]


def test_claims_that_come_and_go_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    def claim(number: int) -> None:
        for _ in range(200):
            with claim_run(tmp_path, str(number)):
                pass

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(claim, range(4))] == [None] * 4


def test_a_file_that_somebody_removes_meanwhile_is_made_anew(tmp_path: Path) -> None:
    def claim(number: int) -> None:
        for _ in range(200):
            with claim_run(tmp_path, str(number)):
                (tmp_path / ".claims").unlink(missing_ok=True)

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(claim, range(4))] == [None] * 4


def test_claims_are_tidied_away_once_nobody_holds_any(tmp_path: Path) -> None:
    with tidy_claims(tmp_path), claim_run(tmp_path, "one"):
        with tidy_claims(tmp_path), claim_run(tmp_path, "two"):
            pass
        assert [path.name for path in tmp_path.iterdir()] == [".claims"], "somebody else has one"
    assert not [*tmp_path.iterdir()]
    with tidy_claims(tmp_path / "nowhere"):
        pass


def test_a_run_is_claimed_once_however_often_claims_are_tidied_away(tmp_path: Path) -> None:
    held = threading.Lock()

    def claim(_: int) -> int:
        taken = 0
        for _ in range(200):
            with suppress(RunUnderWayError), tidy_claims(tmp_path), claim_run(tmp_path, "one"):
                assert held.acquire(blocking=False), "by two at a time"
                taken += 1
                held.release()
        return taken

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(claim, range(4)))


def test_a_link_in_place_of_the_file_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / ".claims").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunDirectoryError), claim_run(tmp_path, "one"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_harness_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(RunUnderWayError), claim_run(tmp_path, "one"):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    with claim_run(tmp_path, "one"):
        pass


def test_a_place_that_takes_no_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match="file: expected"), claim_run(tmp_path / "file", "one"):
        pass
