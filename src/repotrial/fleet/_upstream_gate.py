"""Runs on an upstream that does not answer are held back before all of them are spent on it."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

from repotrial._core.errors import ErrorCode, MachineError
from repotrial.run import ModelAccess
from repotrial.score import Cause

_IN_A_ROW: Final = 3

UPSTREAM_PAUSED = ErrorCode(
    "upstream-paused",
    MachineError,
    "Runs on a model source are not started any more: it does not answer, or refuses every request.",
    hint="look at the key, the model's name, the provider's limits and its state; then give the same command "
    "again, and it goes on",
)


class UpstreamGate:
    """For all upstreams of one command; safe from every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: set[tuple[str, str]] = set()
        self._in_a_row: Counter[str] = Counter()
        self._why: dict[str, str] = {}

    def verify_open(self, models: ModelAccess | None) -> None:
        """Let a run begin.

        Raises:
            UPSTREAM_PAUSED: its upstream was found not to answer.
        """
        with self._lock:
            if models is not None and models.description in self._why:
                raise UPSTREAM_PAUSED.error(self._why[models.description])

    def take(self, agent: str, models: ModelAccess | None, cause: Cause | None) -> None:
        """Note how a run ended; `cause` is what excuses it."""
        if models is None:
            return
        upstream = models.description
        with self._lock:
            is_first = (agent, upstream) not in self._known
            self._known.add((agent, upstream))
            is_trouble = cause in {"provider", "configuration"}
            self._in_a_row[upstream] = self._in_a_row[upstream] + 1 if is_trouble else 0
            if is_first and cause == "configuration":
                self._why[upstream] = (
                    f"{upstream}: expected the first run of {agent} to be answered, found that none was"
                )
            elif self._in_a_row[upstream] >= _IN_A_ROW:
                self._why[upstream] = (
                    f"{upstream}: expected answers, found {_IN_A_ROW} runs in a row without: {cause}"
                )
