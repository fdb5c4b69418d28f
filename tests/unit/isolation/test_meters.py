"""Measuring by looking, where no control group counts: each thing once, and only what was seen."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from repotrial.isolation import ResourceLimits
from repotrial.isolation._launch_server._processes import ProcessRow, ProcessTable
from repotrial.isolation._resources._meters import ResourceMeter

SECOND = 1_000_000


class ScriptedTable(ProcessTable):
    """Shows the processes that a test says there are."""

    def __init__(self) -> None:
        super().__init__(os.open("/proc", os.O_RDONLY | os.O_DIRECTORY))
        self.rows: dict[int, ProcessRow] = {}

    def list_processes(self) -> dict[int, ProcessRow]:
        return dict(self.rows)

    def show(self, pid: int, *, seconds: float, megabytes: int = 1) -> None:
        self.rows[pid] = ProcessRow(
            pid=pid,
            parent=2,
            state="R",
            cpu_us=round(seconds * SECOND),
            threads=1,
            started_ticks=pid * 10,
            resident_bytes=megabytes * 1024**2,
        )


@pytest.fixture
def table() -> Iterator[ScriptedTable]:
    made = ScriptedTable()
    yield made
    made.close()


def test_commands_that_run_at_the_same_time_are_not_counted_twice(table: ScriptedTable) -> None:
    meter = ResourceMeter(table, ResourceLimits(cpu_seconds=10), None)
    long = meter.begin()
    for round_number in range(6):
        short = meter.begin()
        table.show(7, seconds=round_number + 0.5)
        assert short.find_excess() is None
        table.show(7, seconds=round_number + 1)
        assert long.find_excess() is None
        assert short.finish(0).cpu_us == SECOND
    assert meter.load_spent_us() == 6 * SECOND
    table.show(7, seconds=10.5)
    assert long.find_excess() == "cpu"
    assert long.finish(0).cpu_us == 10.5 * SECOND


def test_what_ends_between_looks_counts_when_it_was_waited_for(table: ScriptedTable) -> None:
    meter = ResourceMeter(table, ResourceLimits(cpu_seconds=10), None)
    first = meter.begin()
    table.show(7, seconds=2)
    first.find_excess()
    table.rows.clear()
    assert first.finish(5 * SECOND).cpu_us == 5 * SECOND
    assert meter.spent_us == 5 * SECOND
    second = meter.begin()
    assert second.explain_end(6 * SECOND, has_failed=True) == "cpu"
    assert second.finish(6 * SECOND).cpu_us == 6 * SECOND


def test_memory_that_nobody_saw_is_not_zero(table: ScriptedTable) -> None:
    meter = ResourceMeter(table, ResourceLimits(), None)
    unseen = meter.begin()
    unseen.find_excess()
    assert unseen.finish(0).peak_memory_bytes is None
    seen = meter.begin()
    table.show(7, seconds=0, megabytes=3)
    seen.find_excess()
    table.rows.clear()
    seen.explain_end(0, has_failed=False)
    assert seen.finish(0).peak_memory_bytes == 3 * 1024**2
