"""Waiting for what must happen sooner or later: patient with a slow machine, and never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

Value = TypeVar("Value")

PATIENCE_SECONDS: Final = 90.0
"""Long enough for a machine with other things to do; shorter than the lives of programs that tests leave."""
_PAUSE_SECONDS: Final = 0.01


def wait_until(condition: Callable[[], Value], *, seconds: float = PATIENCE_SECONDS) -> Value:
    """The first answer that is true, or the last one that was asked for."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
    return answer
