"""Stopping many runs at once."""

from __future__ import annotations

import threading

from repotrial.run import Stopper
from support.waiting import PATIENCE_SECONDS


def test_what_ends_slowly_or_not_at_all_keeps_nobody_else_going() -> None:
    stopper = Stopper()
    last_has_ended = threading.Event()
    seen: list[bool] = []

    def wait_for_the_last() -> None:
        seen.append(last_has_ended.wait(PATIENCE_SECONDS))

    def break_down() -> None:
        raise OSError("nothing of the harness's own")

    for end in (wait_for_the_last, break_down, last_has_ended.set):
        stopper.tell(end)
    stopper.stop()
    assert seen == [True]


def test_whoever_comes_late_is_told_at_once() -> None:
    stopper = Stopper()
    stopper.stop()
    told = threading.Event()
    stopper.tell(told.set)
    assert told.is_set()
