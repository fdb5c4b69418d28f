"""A claim that is kept: renewed in time, or given up before any other worker may take its run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from repotrial._core.errors import RepoTrialError
from repotrial.store import Store

_BEATS: Final = 4
"""Renewals in a TTL."""
_PATIENCE: Final = 2
"""A holder gives up after a TTL divided by this; the rest is for what it started to end."""
_LOOKS: Final = 40
"""Looks at the own clock in a TTL."""


def read_own_clock() -> float:
    """Seconds that never go back and that go on while the machine sleeps; of no other machine's business."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class StoreClock:
    """What time it is for the store, at least: read once in a while, carried on by the own clock."""

    store: Store
    key: str
    every_seconds: float
    _read_us: int = 0
    _read_at: float = field(default=-1e18)

    def now_us(self) -> int:
        """Never later than it is: a claim must not look older than it is."""
        if read_own_clock() - self._read_at > self.every_seconds:
            found = self.store.read_clock_us(self.key)
            # Afterwards: the store took the time before it answered.
            self._read_us, self._read_at = found, read_own_clock()
        return self._read_us + int((read_own_clock() - self._read_at) * 1_000_000)


class Lease:
    """One claim at work. `lost` says why it is no longer ours; what it started is ended first."""

    def __init__(self, store: Store, folder: str, epoch: int, *, ttl_seconds: float, sent_at: float) -> None:
        """Keep a claim.

        Args:
            store: Where it is.
            folder: Of the run.
            epoch: Of the claim.
            ttl_seconds: Others may take the run after that.
            sent_at: When the request that claimed it was sent, by the own clock.
        """
        self._store = store
        self._folder = folder
        self._epoch = epoch
        self._ttl = ttl_seconds
        self._renewed_at = sent_at
        self._lock = threading.Lock()
        self._on_lost: list[Callable[[], None]] = []
        self._over = threading.Event()
        self._why: str | None = None

    @property
    def lost(self) -> str | None:
        """Why it was given up; None: it is ours."""
        self._judge()
        with self._lock:
            return self._why

    def keep(self, on_lost: Callable[[], None], is_wanted: Callable[[], str | None]) -> None:
        """Renew it from now on.

        Args:
            on_lost: Ends what the claim started; called once, as soon as it is lost.
            is_wanted: Asked with every renewal: why the run is to end, or None.
        """
        with self._lock:
            self._on_lost.append(on_lost)
        threading.Thread(target=self._renew, args=(is_wanted,), name="beat", daemon=True).start()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def close(self) -> None:
        """Renew it no longer."""
        self._over.set()

    def lose(self, why: str) -> None:
        """Give it up, and end what it started."""
        with self._lock:
            if self._why is not None:
                return
            self._why = why
            told = tuple(self._on_lost)
        for each in told:
            each()

    def _watch(self) -> None:
        # In a thread of its own: a request that hangs must not keep the run alive.
        while not self._over.wait(self._ttl / _LOOKS) and self._why is None:
            self._judge()

    def _judge(self) -> None:
        if not self._over.is_set() and read_own_clock() - self._renewed_at >= self._ttl / _PATIENCE:
            self.lose("the claim could not be renewed for half its time")

    def _renew(self, is_wanted: Callable[[], str | None]) -> None:
        while not self._over.wait(self._ttl / _BEATS) and self._why is None:
            sent_at = read_own_clock()
            try:
                self._store.replace(f"{self._folder}/beat.{self._epoch:04d}", b"")
                why = self._find_successor() or is_wanted()
            except RepoTrialError:
                continue  # the watch decides when it is too late
            with self._lock:
                self._renewed_at = sent_at
            if why is not None:
                self.lose(why)

    def _find_successor(self) -> str | None:
        """Whether another worker has taken the run."""
        mark = f"{self._folder}/claim.{self._epoch + 1:04d}"
        found = self._store.iter_objects(self._folder, after=f"{self._folder}/claim.{self._epoch:04d}")
        is_taken = any(each.key >= mark and "/claim." in each.key for each in found)
        return "another worker has taken the run" if is_taken else None
