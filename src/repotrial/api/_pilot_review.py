"""Verbs on the review of a pilot: the queue, one case, a label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from repotrial.analysis import check_pilot
from repotrial.conduct import GivenLabel, LabelWritten, Review, ReviewQueue
from repotrial.cost import PriceBook, load_price_book

if TYPE_CHECKING:
    from repotrial.analysis import ReviewCase

_PILOT = "pilot.toml"


def list_review(directory: Path, *, reviewer: str | None = None) -> ReviewQueue:
    """The runs that people look at, under blind names; `reviewer`: those that this person has still to label.

    Raises:
        PILOT_NOT_FROZEN: there is no registration.
        PILOT_BROKEN: a document is not as it was frozen, or a run is not the one that was conducted.
        LABELS_BROKEN: the labels do not hold.
    """
    return Review.load(directory).list(reviewer)


def show_review(directory: Path, case: str, *, with_verdict: bool = False) -> ReviewCase:
    """One case: task, change and flags, without names of agents and models and without prices.

    Raises:
        LABEL_REFUSED: there is no such case.
    """
    return Review.load(directory).show(case, with_verdict=with_verdict)


def write_label(directory: Path, given: GivenLabel) -> LabelWritten:
    """Add a label to the pilot's; its minutes are booked as C_human.

    Raises:
        LABEL_REFUSED: it does not fit the pilot.
        LABELS_UNDER_WAY: another command writes.
    """
    return Review.load(directory).write(given, _load_book(directory))


def _load_book(directory: Path) -> PriceBook:
    pilot, _ = check_pilot((directory / _PILOT).read_bytes())
    prices = None if pilot is None else pilot.prices
    return load_price_book(None if prices is None else directory / prices)
