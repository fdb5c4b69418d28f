"""Samples of what a sandbox uses: bounded, evenly spaced, with the peaks of all of them."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from repotrial.isolation import ResourceLimits, ResourceSample, ResourceUsage, SamplingPlan
from repotrial.run._resources import SampleSeries, build_usage_signals

PLAN = SamplingPlan(interval_ms=1000, cpu_meter="cgroup-v2", memory_meter="polled", with_disk=True)


def _build(number: int, *, memory: int = 1, disk: int | None = None) -> ResourceSample:
    return ResourceSample(
        t_us=number, cpu_us=number * 10, memory_bytes=memory, processes=number % 7, disk_bytes=disk
    )


@given(count=st.integers(1, 300), half=st.integers(1, 8))
def test_a_series_of_any_length_stays_bounded_and_even(count: int, half: int) -> None:
    series = SampleSeries(2 * half)
    for number in range(count):
        series.take(_build(number))
    times = [row.t_us for row in series.rows]
    stride = msgspec.json.decode(series.render(PLAN))["stride"]
    assert 1 <= len(times) <= 2 * half
    assert times == list(range(0, count, stride))
    assert series.count == count


def test_a_peak_between_two_kept_samples_is_not_lost() -> None:
    series = SampleSeries(2)
    for number, memory in enumerate((1, 2, 99, 4, 5)):
        series.take(_build(number, memory=memory, disk=7 if number == 3 else None))
    limits = ResourceLimits(memory_mb=16, processes=8, disk_mb=1, cpu_seconds=2)
    signals = {signal.name: (signal.value, signal.threshold) for signal in series.build_signals(PLAN, limits)}
    assert signals == {
        "interval_ms": (1000, None),
        "samples": (5, None),
        "cpu_us": (40, 2_000_000),
        "peak_memory_bytes": (99, 16 * 1024**2),
        "peak_processes": (4, 8),
        "peak_disk_bytes": (7, 1024**2),
    }


def test_what_nobody_measured_is_no_signal() -> None:
    assert build_usage_signals(ResourceUsage(wall_us=1), ResourceLimits()) == ()
    series = SampleSeries()
    series.take(_build(0))
    assert "peak_disk_bytes" not in {signal.name for signal in series.build_signals(PLAN, ResourceLimits())}
