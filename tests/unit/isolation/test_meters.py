"""Measuring by looking, where no control group counts: each thing once, and only what was seen."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial._core.words import Level
from repotrial.isolation import (
    BubblewrapSandbox,
    CommandSpec,
    ResourceLimits,
    ResourceSample,
    Sampler,
    SandboxSpec,
    find_identity,
    open_sandbox,
)
from repotrial.isolation._launch_server._processes import ProcessRow, ProcessTable
from repotrial.isolation._resources._limits import measure_tree
from repotrial.isolation._resources._meters import ResourceMeter
from support.accounts import public_directory
from support.harness import VARIABLES, require_sandboxes
from support.waiting import wait_until

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


@pytest.fixture
def meter() -> Iterator[ResourceMeter]:
    """Of everything on this machine, by looking."""
    table = ProcessTable(os.open("/proc", os.O_RDONLY | os.O_DIRECTORY))
    yield ResourceMeter(table, ResourceLimits(), None)
    table.close()


def test_samples_come_until_it_is_closed_and_the_rate_is_stated(meter: ResourceMeter, tmp_path: Path) -> None:
    samples: list[ResourceSample] = []
    with Sampler(meter, samples.append, interval_ms=5, directory=tmp_path) as sampler:
        assert sampler.plan.interval_ms == 5
        assert (sampler.plan.cpu_meter, sampler.plan.memory_meter) == ("sampled", "polled")
        assert sampler.plan.with_disk
        assert wait_until(lambda: len(samples) >= 3)
    count = len(samples)
    sampler.close()
    assert len(samples) == count
    times = [sample.t_us for sample in samples]
    assert times == sorted(set(times))
    # Never sooner than stated, but for rounding.
    assert all(later - earlier >= 4_900 for earlier, later in itertools.pairwise(times))
    assert all(sample.processes >= 1 and sample.memory_bytes > 0 for sample in samples)
    assert samples[0].disk_bytes == measure_tree(tmp_path)


def test_it_runs_in_a_thread_of_its_own_that_ends_with_it(meter: ResourceMeter) -> None:
    names: list[str] = []
    with Sampler(meter, lambda _: names.append(threading.current_thread().name), interval_ms=1):
        assert wait_until(lambda: names)
    assert set(names) == {"repotrial-sampler"}
    assert "repotrial-sampler" not in {thread.name for thread in threading.enumerate()}


def test_without_a_directory_disk_space_is_unknown_and_not_zero(meter: ResourceMeter) -> None:
    samples: list[ResourceSample] = []
    with Sampler(meter, samples.append, interval_ms=1) as sampler:
        assert wait_until(lambda: samples)
    assert not sampler.plan.with_disk
    assert samples[0].disk_bytes is None


def test_what_the_receiver_raises_ends_it_and_is_not_lost(meter: ResourceMeter) -> None:
    def refuse(_: ResourceSample) -> None:
        raise RuntimeError("no room for evidence")

    sampler = Sampler(meter, refuse, interval_ms=1)
    with pytest.raises(RuntimeError, match="no room for evidence"):
        sampler.close()
    sampler.close()


def test_a_sandbox_is_sampled_while_a_command_runs() -> None:
    require_sandboxes()
    samples: list[ResourceSample] = []
    with public_directory() as workspace:
        if os.geteuid() == 0:
            os.chown(workspace, find_identity().uid, find_identity().gid)
        spec = SandboxSpec(workspace=workspace, variables=VARIABLES)
        with open_sandbox(spec, level=Level.L3) as sandbox:
            assert isinstance(sandbox, BubblewrapSandbox)
            eat = "head -c 3000000 /dev/urandom > big; while [ ! -e seen ]; do :; done"
            command = CommandSpec(argv=("/bin/sh", "-c", eat), timeout_seconds=300)
            with sandbox.sample(samples.append, interval_ms=10) as sampler:
                thread = threading.Thread(target=sandbox.run, args=(command,))
                thread.start()
                seen = wait_until(lambda: any((sample.disk_bytes or 0) > 2_000_000 for sample in samples))
                busy = wait_until(lambda: samples[-1].cpu_us >= 100_000)
                (workspace / "seen").touch()
                thread.join()
            assert seen
            assert busy
            assert sampler.plan.cpu_meter == sandbox.capabilities.cpu_meter
            assert max(sample.processes for sample in samples) >= 2
            assert all(sample.memory_bytes > 0 for sample in samples)


def test_without_a_group_waiting_is_seen_by_looking(table: ScriptedTable) -> None:
    """Of this very process, which is busy meanwhile."""
    table.show(os.getpid(), seconds=0)
    command = ResourceMeter(table, ResourceLimits(), None).begin()
    end = time.monotonic() + 1.2  # looks are half a second apart
    while time.monotonic() < end:
        assert command.find_excess() is None
    pressure = command.finish(0).pressure
    assert pressure is not None
    assert pressure.stalled_us is None
    assert pressure.waited_us is not None
    assert pressure.others_us > 0
    assert pressure.sandboxes == 1
