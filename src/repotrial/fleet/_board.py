"""What the names in a store say: which runs are open, held or done, and what they cost. No body is read.

    run/<place>-<run id>/claim.<epoch>                        created: this epoch's worker holds the run
    run/<place>-<run id>/beat.<epoch>                         replaced: it still does
    run/<place>-<run id>/back.<epoch>                         created: it gave the run back, nothing was spent
    run/<place>-<run id>/record.<epoch>.<micro usd>.<word>    the attempt, packed; what it cost, how it counts
    run/<place>-<run id>/done                                 created: which attempt is the run

Nothing is ever deleted, so that a request that arrives late can do no harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from repotrial.fleet._shared_plan import SharedPlan, SharedRun
from repotrial.store import Store, StoredObject

RUNS: Final = "run"
STOP_KEY: Final = f"{RUNS}/stop"
"""Behind all runs, so that every listing shows it."""
RecordWord: TypeAlias = Literal["valid", "invalid", "excused", "superseded"]
_RECORD_WORDS: Final[dict[str, RecordWord]] = {word: word for word in get_args(RecordWord)}
_KEY: Final = re.compile(
    rf"{RUNS}/(\d{{6}})-[^/]+/(?:(done)|(claim|beat|back)\.(\d+)|record\.(\d+)\.(\d+)\.([a-z]+))"
)


def build_folder(place: int, run: SharedRun) -> str:
    """Where the objects of a run are; listings are in plan order."""
    return f"{RUNS}/{place:06d}-{run.run_id}"


@dataclass(kw_only=True)
class Attempt:
    """One claim on a run, and what came of it."""

    epoch: int
    renewed_us: int = 0
    """When it was claimed or renewed last, by the store's clock."""
    is_back: bool = False
    record: str | None = None
    """The key of its record."""
    word: RecordWord | None = None
    cost_micro_usd: int = 0

    @property
    def is_open_ended(self) -> bool:
        """Whether it was claimed and nothing is known of its end: at work, or dead."""
        return not self.is_back and self.record is None


@dataclass(kw_only=True)
class SharedRunState:
    """All that is known of one planned run."""

    place: int
    run: SharedRun
    attempts: dict[int, Attempt] = field(default_factory=dict)
    is_done: bool = False

    @property
    def folder(self) -> str:
        return build_folder(self.place, self.run)

    @property
    def last(self) -> Attempt | None:
        """The attempt of the highest epoch."""
        return self.attempts[max(self.attempts)] if self.attempts else None

    @property
    def next_epoch(self) -> int:
        return max(self.attempts, default=0) + 1

    @property
    def is_open(self) -> bool:
        """Whether the next worker may claim it at once."""
        last = self.last
        if self.is_done:
            return False
        return last is None or last.is_back or last.word in {"excused", "superseded"}

    @property
    def finished(self) -> Attempt | None:
        """An attempt that counts, and whose worker may not have come to say so."""
        found = (each for each in self.attempts.values() if each.word in {"valid", "invalid"})
        return next(found, None)

    @property
    def committed_micro_usd(self) -> int:
        """What attempts cost; those of which nothing is known, at most that."""
        return sum(
            self.run.reserved_micro_usd if each.is_open_ended else each.cost_micro_usd
            for each in self.attempts.values()
        )

    def is_stale(self, now_us: int, ttl_us: int) -> bool:
        """Whether its holder has not been heard of for a whole TTL."""
        last = self.last
        if self.is_done or self.is_open or last is None:
            return False
        return now_us - last.renewed_us > ttl_us


class Board:
    """The state of all runs, brought up to date by one listing."""

    def __init__(self, plan: SharedPlan, store: Store) -> None:
        self._store = store
        self.plan = plan
        self.is_stopped = False
        self.states = [SharedRunState(place=place, run=run) for place, run in enumerate(plan.runs)]
        self._closed = 0
        """Runs before this one are done: nothing about them changes any more."""

    def look(self) -> None:
        """List what may have changed."""
        self._take(self._store.iter_objects(RUNS, after=f"{RUNS}/{self._closed:06d}"))
        while self._closed < len(self.states) and self.states[self._closed].is_done:
            self._closed += 1

    def _take(self, objects: Iterable[StoredObject]) -> None:
        for found in objects:
            if found.key == STOP_KEY:
                self.is_stopped = True
                continue
            match = _KEY.fullmatch(found.key)
            place = -1 if match is None else int(match.group(1))
            if match is None or place >= len(self.states):
                continue
            state = self.states[place]
            if not found.key.startswith(f"{state.folder}/"):
                continue
            _note(state, match, found)

    @property
    def is_over(self) -> bool:
        """Whether every run has a record that counts."""
        return self._closed == len(self.states)

    def iter_claimable(self, now_us: int) -> Iterator[SharedRunState]:
        """Runs that may be claimed, in the order of the plan: open ones, and those whose holder is gone."""
        ttl_us = int(self.plan.ttl_seconds * 1_000_000) + self._store.clock_us
        for state in self.states[self._closed :]:
            if state.is_open or state.is_stale(now_us, ttl_us):
                yield state

    def find_excess(self, run: SharedRun) -> str | None:
        """The envelope of this run that is overdrawn by what is claimed and spent; None: none is."""
        envelopes = self.plan.envelopes
        if envelopes.total_micro_usd is not None and self.sum_committed() > envelopes.total_micro_usd:
            return "total"
        task = self.sum_committed(run.task)
        return "task" if envelopes.task_micro_usd is not None and task > envelopes.task_micro_usd else None

    def sum_committed(self, task: str | None = None) -> int:
        """Micro dollars of all attempts, or of those on one task."""
        return sum(
            state.committed_micro_usd for state in self.states if task is None or state.run.task == task
        )

    @property
    def held(self) -> int:
        """Runs under way, as far as is known: they may give something back."""
        return sum(
            1
            for state in self.states[self._closed :]
            if not state.is_done and state.last is not None and state.last.is_open_ended
        )


def _note(state: SharedRunState, match: re.Match[str], found: StoredObject) -> None:
    _, done, word, epoch, recorded, cost, kind = match.groups()
    if done is not None:
        state.is_done = True
        return
    number = int(epoch or recorded)
    attempt = state.attempts.setdefault(number, Attempt(epoch=number))
    if word == "back":
        attempt.is_back = True
    elif word is not None:
        attempt.renewed_us = max(attempt.renewed_us, found.modified_us)
    elif kind in _RECORD_WORDS:
        attempt.record, attempt.word, attempt.cost_micro_usd = found.key, _RECORD_WORDS[kind], int(cost)
