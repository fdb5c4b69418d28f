"""Sampling a sandbox: by root, where control groups count, and by an ordinary user, where they do not."""

from __future__ import annotations

import itertools
import os
import threading
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
from repotrial.isolation._launch_server._processes import ProcessTable
from repotrial.isolation._resources._limits import measure_tree
from repotrial.isolation._resources._meters import ResourceMeter
from support.accounts import public_directory
from support.harness import VARIABLES, require_sandboxes
from support.waiting import wait_until


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
