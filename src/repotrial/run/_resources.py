"""What an agent's sandbox uses while it acts, as evidence (P18): peaks as signals, and a bounded series.

Samples come at a stated rate; a run that ends before the first costs nothing and has none. What the kernel or
the meter of the command itself counted stands in the termination's signals in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from repotrial.environment import ContractSandbox
from repotrial.isolation import ResourceLimits, ResourceSample, ResourceUsage, SamplingPlan
from repotrial.trace import MonitorAlert, Signal, TraceWriter

SAMPLES_RULE: Final = "samples"
_INTERVAL_MS: Final = 1000
_KEPT_SAMPLES: Final = 512
_MEGABYTE: Final = 1024**2
_SECOND_US: Final = 1_000_000


class SampleSeries:
    """Samples of a run of any length in bounded room: when it is full, every other one gives way.

    Peaks are those of all samples.
    """

    def __init__(self, kept: int = _KEPT_SAMPLES) -> None:
        self._kept = kept
        self._stride = 1
        self.count = 0
        self.rows: list[ResourceSample] = []
        self.last: ResourceSample | None = None
        self.peak_memory_bytes = 0
        self.peak_processes = 0
        self.peak_disk_bytes: int | None = None

    def take(self, sample: ResourceSample) -> None:
        """Add one."""
        if self.count % self._stride == 0:
            if len(self.rows) == self._kept:
                self.rows = self.rows[::2]
                self._stride *= 2
            if self.count % self._stride == 0:
                self.rows.append(sample)
        self.count += 1
        self.last = sample
        self.peak_memory_bytes = max(self.peak_memory_bytes, sample.memory_bytes)
        self.peak_processes = max(self.peak_processes, sample.processes)
        if sample.disk_bytes is not None:
            self.peak_disk_bytes = max(self.peak_disk_bytes or 0, sample.disk_bytes)

    def build_signals(self, plan: SamplingPlan, limits: ResourceLimits) -> tuple[Signal, ...]:
        """Peaks against the ceilings, and how they were found."""
        assert self.last is not None
        signals = [
            Signal(name="interval_ms", value=plan.interval_ms),
            Signal(name="samples", value=self.count),
            Signal(name="cpu_us", value=self.last.cpu_us, threshold=_scale(limits.cpu_seconds, _SECOND_US)),
            Signal(
                name="peak_memory_bytes",
                value=self.peak_memory_bytes,
                threshold=_scale(limits.memory_mb, _MEGABYTE),
            ),
            Signal(name="peak_processes", value=self.peak_processes, threshold=limits.processes),
        ]
        if self.peak_disk_bytes is not None:
            ceiling = _scale(limits.disk_mb, _MEGABYTE)
            signals.append(Signal(name="peak_disk_bytes", value=self.peak_disk_bytes, threshold=ceiling))
        return tuple(signals)

    def render(self, plan: SamplingPlan) -> bytes:
        """The series as a document: what measured it, then one row for each sample that was kept."""
        return msgspec.json.encode(
            {"plan": plan, "stride": self._stride, "columns": ResourceSample._fields, "rows": self.rows}
        )


@contextmanager
def watch_resources(writer: TraceWriter, sandbox: ContractSandbox, limits: ResourceLimits) -> Iterator[None]:
    """Sample while the block lasts; what was seen becomes one event after it."""
    series = SampleSeries()
    since = writer.last_seq
    sampler = sandbox.sample(series.take, interval_ms=_INTERVAL_MS)
    if sampler is None:  # a level that has no processes of its own to look at
        yield
        return
    try:
        yield
    finally:
        sampler.end()
    if series.count:
        alert = MonitorAlert(
            monitor="resources",
            rule=SAMPLES_RULE,
            severity="info",
            phase="act",
            signals=series.build_signals(sampler.plan, limits),
        )
        writer.alert(alert, series.render(sampler.plan), form="code", event=since)


def build_usage_signals(usage: ResourceUsage, limits: ResourceLimits) -> tuple[Signal, ...]:
    """What the command's own meter found, against the ceilings (B2)."""
    signals = []
    if usage.cpu_us is not None:
        ceiling = _scale(limits.cpu_seconds, _SECOND_US)
        signals.append(Signal(name="cpu_us", value=usage.cpu_us, threshold=ceiling))
    if usage.peak_memory_bytes is not None:
        ceiling = _scale(limits.memory_mb, _MEGABYTE)
        signals.append(Signal(name="peak_memory_bytes", value=usage.peak_memory_bytes, threshold=ceiling))
    return tuple(signals)


def _scale(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor
