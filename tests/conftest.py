"""Shared set-up of all tests."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

# Helpers of the tests are imported as `support.…` and `fakes.…`, from wherever pytest was started.
sys.path.insert(0, str(Path(__file__).parent))

# A suite that was started in the background ignores Ctrl-C, and so would every program that it starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Two shared cores: a slow example is the machine's fault, so there is no deadline; the same examples each
# time, so that a red build can be repeated.
settings.register_profile(
    "bounded", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=100
)
settings.load_profile("bounded")
