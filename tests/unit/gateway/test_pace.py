"""Q12: requests to a model keep to the rate of the contract."""

from __future__ import annotations

from pathlib import Path

from repotrial.gateway import ProviderWatch
from repotrial.trace import MonitorAlert, RunPaths, Signal, iter_events
from support.traces import open_writer


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_filled_minute_makes_the_next_request_wait_and_is_on_record(tmp_path: Path) -> None:
    clock = _Clock()
    with open_writer(tmp_path) as writer:
        watch = ProviderWatch(writer, requests_per_minute=5, clock=clock)
        for second in range(5):
            clock.now = float(second)
            assert watch.find_wait_seconds() == 0.0
            watch.admit()
        assert watch.find_wait_seconds() == 56.0
        watch.note_throttled()
        watch.note_throttled()
        clock.now = 60.0
        assert watch.find_wait_seconds() == 0.0
    (alert,) = [
        e.payload for e in iter_events(RunPaths(tmp_path).trace) if isinstance(e.payload, MonitorAlert)
    ]
    assert alert.rule == "own-rate"
    assert Signal(name="requests_per_minute", value=5, threshold=5) in alert.signals
