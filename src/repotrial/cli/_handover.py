"""A person at a terminal takes over: shown the task and the place, by the clock (B8)."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repotrial.api import Handover, Stopper
    from repotrial.cli._output import Screen

_LOOK_EVERY_SECONDS = 0.2


def build_handover(screen: Screen, stopper: Stopper) -> Handover:
    """What a run calls when it is a person's turn."""

    def hand_over(workspace: Path, briefing: str, seconds: int) -> bool:
        for line in briefing.split("\n"):
            screen.line(line)
        screen.line(("work in: ", "bold"), str(workspace))
        screen.line(
            (
                f"press Enter when you are done; there are {seconds / 60:.0f} minutes, and the clock runs",
                "bold",
            )
        )
        return _wait(seconds, stopper.verify_going)

    return hand_over


def _wait(seconds: int, verify_going: Callable[[], None]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        verify_going()
        ready, _, _ = select.select([sys.stdin], [], [], _LOOK_EVERY_SECONDS)
        if ready:
            sys.stdin.readline()  # an end of input (Ctrl-D) says the same
            return True
    return False
