"""Several harnesses on one directory of runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from repotrial.fleet._claim import _open, _try_lock, claim_run, tidy_claims
from support.errors import raises_code

HOLD = """
import sys, time
from pathlib import Path
from repotrial.fleet._claim import claim_run
with claim_run(Path(sys.argv[1]), "one"):
    print("held", flush=True)
    time.sleep(97)
"""


RACE = """
import os, sys, time
from pathlib import Path
from repotrial._core.errors import UsageError
from repotrial.fleet._claim import claim_run, tidy_claims
runs, own, held = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[1]) / "held"
taken = doubled = refused = 0
deadline = time.monotonic() + 1.5
while time.monotonic() < deadline:
    try:
        with tidy_claims(runs), claim_run(runs, "shared"):
            taken += 1
            try:
                os.close(os.open(held, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                doubled += 1
            else:
                time.sleep(0.001)
                held.unlink()
    except UsageError as error:
        assert error.code == 'run-under-way', error
    try:
        with tidy_claims(runs), claim_run(runs, own):
            pass
    except UsageError as error:
        refused += error.code == 'run-under-way'
print(taken, doubled, refused)
"""


def test_a_run_is_conducted_by_one_harness_at_a_time(tmp_path: Path) -> None:
    with tidy_claims(tmp_path):
        with (
            claim_run(tmp_path, "one"),
            claim_run(tmp_path, "two"),
            raises_code("run-under-way", match="one: expected to conduct it"),
            claim_run(tmp_path, "one"),
        ):
            pass
        with claim_run(tmp_path, "one"):
            pass
    assert not [*tmp_path.iterdir()]


def test_claims_that_come_and_go_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    def claim(number: int) -> None:
        for _ in range(200):
            with tidy_claims(tmp_path), claim_run(tmp_path, str(number)):
                pass

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(claim, range(4))] == [None] * 4
    assert not [*tmp_path.iterdir()]


def test_claims_that_somebody_holds_are_not_tidied_away(tmp_path: Path) -> None:
    with tidy_claims(tmp_path), claim_run(tmp_path, "one"):
        with tidy_claims(tmp_path), claim_run(tmp_path, "two"):
            pass
        assert [path.name for path in (tmp_path / ".under-way").iterdir()] == ["one"]
        with raises_code("run-under-way"), claim_run(tmp_path, "one"):
            pass
    assert not [*tmp_path.iterdir()]
    with tidy_claims(tmp_path / "nowhere"):
        pass


def test_harnesses_that_claim_and_tidy_at_once_neither_share_a_run_nor_refuse_one(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", RACE, str(tmp_path), str(number)], stdout=subprocess.PIPE)
        for number in range(3)
    ]
    counts = [[*map(int, process.communicate()[0].split())] for process in processes]
    taken, doubled, refused = map(sum, zip(*counts, strict=True))
    assert taken
    assert (doubled, refused) == (0, 0)


def test_a_file_that_is_removed_after_it_was_opened_is_nobodys_claim(tmp_path: Path) -> None:
    path = tmp_path / ".under-way" / "one"
    handle = _open(path)
    path.unlink()
    assert not _try_lock(path, handle), "nobody else finds it"
    path.touch()
    assert not _try_lock(path, handle), "others find another"
    os.close(handle)


def test_what_a_killed_harness_left_is_tidied_away_by_the_next(tmp_path: Path) -> None:
    with claim_run(tmp_path, "killed"):
        pass
    with tidy_claims(tmp_path), claim_run(tmp_path, "next"):
        pass
    assert not [*tmp_path.iterdir()]


def test_a_harness_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with raises_code("run-under-way"), claim_run(tmp_path, "one"):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    with claim_run(tmp_path, "one"):
        pass


def test_a_place_that_takes_no_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with raises_code("run-directory", match="file: expected"), claim_run(tmp_path / "file", "one"):
        pass
