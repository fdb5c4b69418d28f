from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from repotrial.isolation._resources._counters import CounterFiles


def count_open() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_what_is_read_is_what_stands_there_now(tmp_path: Path) -> None:
    file = tmp_path / "events"
    file.write_text("max 1\nkills 2\n")
    counters = CounterFiles()
    assert counters.load_fields(str(file)) == {"max": 1, "kills": 2}
    file.write_text("max 10\n")
    assert counters.load_fields(str(file)) == {"max": 10}
    counters.close()


def test_a_file_is_opened_once_however_many_ask_and_closed_with_the_others(tmp_path: Path) -> None:
    file = tmp_path / "usage"
    file.write_text("7\n")
    before = count_open()
    counters = CounterFiles()
    with ThreadPoolExecutor(4) as pool:
        assert {*pool.map(lambda _: counters.read(str(file)), range(200))} == {"7\n"}
    assert count_open() == before + 1
    counters.close()
    counters.close()
    assert count_open() == before


def test_what_is_not_there_is_said_each_time(tmp_path: Path) -> None:
    counters = CounterFiles()
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            counters.read(str(tmp_path / "peak"))
    counters.close()


def test_whoever_reads_after_the_end_is_told_and_gets_nobody_elses_file(tmp_path: Path) -> None:
    file = tmp_path / "usage"
    file.write_text("7\n")
    counters = CounterFiles()
    counters.read(str(file))
    counters.close()
    with (tmp_path / "other").open("w+") as other:
        other.write("999\n")
        other.flush()
        with pytest.raises(FileNotFoundError):
            counters.read(str(file))
