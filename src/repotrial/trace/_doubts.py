"""Which runs of a suite with wrong expectations say nothing: those beside a plain run that does not pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from repotrial._core.errors import EvidenceError
from repotrial.trace._event import Event
from repotrial.trace._payloads.checks import AcceptanceExecution, Passed

_MAX_WAITING: Final = 10_000
"""Nothing is between two runs of a suite but other checks: only a forged trace has more."""

_Key: TypeAlias = tuple[str, str, int]


def iter_with_moot(events: Iterable[Event]) -> Iterator[tuple[Event, bool]]:
    """Every event in its order, and whether it is a twin run that is moot.

    A plain run comes after its twin run (ADR 0019): events in between wait for it.

    Raises:
        EvidenceError: as the events do, after those that were read.
    """
    waiting: list[Event] = []
    unsettled: set[_Key] = set()
    passed: dict[_Key, bool] = {}
    try:
        for event in events:
            waiting.append(event)
            if isinstance(event.payload, AcceptanceExecution):
                key = _build_key(event.payload)
                if event.payload.variant == "plain":
                    passed[key] = isinstance(event.payload.outcome, Passed)
                    unsettled.discard(key)
                elif key not in passed:
                    unsettled.add(key)
            if not unsettled or len(waiting) >= _MAX_WAITING:
                yield from _settle(waiting, passed)
                waiting.clear()
    except EvidenceError:
        yield from _settle(waiting, passed)
        raise
    yield from _settle(waiting, passed)


def _settle(waiting: Iterable[Event], passed: dict[_Key, bool]) -> Iterator[tuple[Event, bool]]:
    for event in waiting:
        match event.payload:
            case AcceptanceExecution(variant="twins") as doubt:
                yield event, not passed.get(_build_key(doubt), True)
            case _:
                yield event, False


def _build_key(check: AcceptanceExecution) -> _Key:
    return check.check_id, check.subject, check.attempt
