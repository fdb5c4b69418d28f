"""C_human in the pilot's ledger: time of reviewers, and of the authors of baselines (B1, B8)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Final

from repotrial.analysis import Pilot
from repotrial.cost import Amount, EnvelopeLimits, Ledger, PriceBook

LEDGER_FILE: Final = "ledger.jsonl"
_PRICE: Final = "human:minute"
_MINUTE_US: Final = 60_000_000


def build_usd(value: Decimal) -> Amount:
    """An amount of a pilot's envelopes."""
    return Amount.build(value, "usd", methods=("envelope",), basis="bound")


def build_limits(pilot: Pilot) -> EnvelopeLimits:
    """B_task and B_total of a pilot."""
    return EnvelopeLimits(
        task=build_usd(pilot.envelopes.task_usd), total=build_usd(pilot.envelopes.total_usd)
    )


def price_minutes(book: PriceBook, minutes: int) -> Decimal | None:
    """People's time in dollars; None if the price book has no price for it."""
    price = book.actions.get(_PRICE)
    return None if price is None else price.apply(minutes * _MINUTE_US)


class PeopleLedger:
    """Books people's time once: a name that has an envelope with money in it was booked."""

    def __init__(self, directory: Path, pilot: Pilot, book: PriceBook) -> None:
        self._path = directory / LEDGER_FILE
        self._pilot = pilot
        self._book = book

    def book(self, name: str, minutes: int, *, task: str | None = None) -> Decimal | None:
        """Book minutes under a name, in B_total and, if it is about a task, in its B_task.

        The time is spent: an envelope that does not have it any more is passed, and says so.

        Returns:
            What was booked, now or before; None if people have no price.
        """
        usd = price_minutes(self._book, minutes)
        if not usd:
            return usd
        with Ledger(self._path) as ledger:
            booked = {each.name for each in ledger.read().envelopes if Decimal(each.spent)}
            if f"run/{name}" not in booked:
                limits = build_limits(self._pilot)
                own = EnvelopeLimits(
                    run=build_usd(usd), task=limits.task if task is not None else None, total=limits.total
                )
                ledger.open_envelopes(own, run=name, task=task or "").book(build_usd(usd))
        return usd
