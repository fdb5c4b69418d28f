"""Shared set-up of all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Helpers of the tests are imported as `support.…` and `fakes.…`, from wherever pytest was started.
sys.path.insert(0, str(Path(__file__).parent))

# A suite that was started in the background ignores Ctrl-C, and so would every program that it starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Two shared cores: a slow example is the machine's fault, so there is no deadline; the same examples each
# time, so that a red build can be repeated.
settings.register_profile(
    "bounded",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=1000 if os.environ.get("REPOTRIAL_EXHAUSTIVE") == "1" else 50,
)
settings.load_profile("bounded")


def pytest_configure(config: pytest.Config) -> None:
    """Before the workers start, which inherit it."""
    if not hasattr(config, "workerinput"):
        from support.caches import make_shared_cache

        make_shared_cache()


def pytest_collection_finish() -> None:
    """What was collected stays: looking through it for garbage took 3 % of the suite's time."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        from support.caches import remove_shared_cache

        remove_shared_cache()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the time of the suite goes, so that nobody has to guess what to make cheaper."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = Path(report.nodeid.partition("::")[0]).parts[1:2]
                seconds.update({"".join(folder): round(report.duration * 1000)})
    if not seconds:
        return
    shown = ", ".join(f"{folder} {total // 1000}" for folder, total in seconds.most_common())
    terminalreporter.write_line(f"seconds of the tests, over all workers: {shown}")
