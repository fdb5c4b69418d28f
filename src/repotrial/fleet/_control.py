"""What people ask of a fleet: how far it is, what workers said, that it stop. The store alone answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Final

import msgspec

from repotrial._core.clock import SystemClock
from repotrial._core.errors import EvidenceError
from repotrial.fleet._board import STOP_KEY, Board
from repotrial.fleet._shared_plan import SharedPlan
from repotrial.fleet._worker import WorkerEvent
from repotrial.store import Store

_WORKERS: Final = "worker"
_MICRO: Final = Decimal(1_000_000)


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far the runs of a plan are."""

    store: str
    planned: int
    claimed: int
    """Under way, as far as is known."""
    silent: int
    """Of those: not heard of for a whole TTL; the next worker takes them over."""
    done: int
    """With a record that counts."""
    invalid: int
    """Of those: records that are not scorable."""
    attempts: int
    """Claims that led to work: also those that were cut off, excused or superseded."""
    spent_usd: Decimal
    """By all attempts that handed in a record."""
    reserved_usd: Decimal
    """Held by attempts of which nothing more is known: at work, or dead."""
    total_usd: Decimal | None
    """The envelope of all runs; null if there is none."""
    is_stopped: bool
    """Whether workers were told to end."""
    is_over: bool


def build_status(board: Board, plan: SharedPlan, store: Store) -> FleetStatus:
    """The state of a board in figures."""
    attempts = [each for state in board.states for each in state.attempts.values() if not each.is_back]
    now_us = max((each.renewed_us for each in attempts), default=0)
    ttl_us = int(plan.ttl_seconds * 1_000_000) + store.clock_us
    held = [state for state in board.states if not state.is_done and state.attempts and not state.is_open]
    words = Counter(
        state.finished.word for state in board.states if state.is_done and state.finished is not None
    )
    reserved = sum(
        state.run.reserved_micro_usd
        for state in board.states
        for each in state.attempts.values()
        if each.is_open_ended
    )
    total = plan.envelopes.total_micro_usd
    return FleetStatus(
        store=store.url,
        planned=len(plan.runs),
        claimed=len(held),
        silent=sum(state.is_stale(now_us, ttl_us) for state in held),
        done=sum(state.is_done for state in board.states),
        invalid=words["invalid"],
        attempts=len(attempts),
        spent_usd=sum(each.cost_micro_usd for each in attempts) / _MICRO,
        reserved_usd=reserved / _MICRO,
        total_usd=None if total is None else total / _MICRO,
        is_stopped=board.is_stopped,
        is_over=all(state.is_done for state in board.states),
    )


def iter_log(store: Store) -> Iterator[WorkerEvent]:
    """What all workers said."""
    for found in store.iter_objects(_WORKERS):
        if not found.key.endswith("/log.jsonl"):
            continue
        with suppress(EvidenceError):  # replaced at this moment
            for line in store.read(found.key).splitlines():
                yield msgspec.json.decode(line, type=WorkerEvent)


def tell_stop(store: Store) -> bool:
    """Tell all workers to end; what is under way is sealed as it stands. False: they were told before."""
    if store.find(STOP_KEY) is not None:
        return False
    store.replace(STOP_KEY, msgspec.json.encode({"at_us": SystemClock().now_us()}))
    return True
