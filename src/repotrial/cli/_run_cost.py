"""`repotrial run cost`: what runs cost, in four terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from repotrial import api
from repotrial._core.display import mark_cap, shorten_digests
from repotrial.cli._batch import BatchVerdict, expand_runs, work_through
from repotrial.cli._options import JsonFlag, PricesOption, RunDirectories
from repotrial.cli._output import Screen, counted, print_table

_HINT = (
    "for what nothing prices, name a book that does with --prices: rows exec:wall, human:minute, "
    "overhead:wall, storage:byte (docs/how-to/price-a-study.md)"
)
_TERMS = (("lm", "models"), ("exec", "execution"), ("human", "people"), ("overhead", "overhead"))


def cost(
    directories: RunDirectories,
    *,
    prices: PricesOption = None,
    json: JsonFlag = False,
) -> None:
    """State what runs cost: models, execution, people and overhead, from what the record metered."""
    book = api.load_prices(prices)  # once: a book that is none is wrong for all runs alike
    priced: list[api.RunCost] = []
    try:
        work_through(
            expand_runs(directories),
            lambda directory: api.price_run(directory, book),
            judge=lambda _: BatchVerdict("priced", holds=True),
            show=lambda _, result: priced.append(result),
            noun=None,
            json=json,
        )
    finally:
        _print(priced)


def _print(priced: Sequence[api.RunCost]) -> None:
    screen = Screen()
    if len(priced) == 1:
        _print_one(screen, priced[0])
    elif priced:
        _print_many(screen, priced)
    # A book may price what another one does not.
    if any(not _has_amount(result.statement.total) for result in priced):
        screen.line(("fix: ", "bold"), _HINT)


def _print_one(screen: Screen, result: api.RunCost) -> None:
    who = "" if result.upstream is None else f", answered by {shorten_digests(result.upstream)}"
    screen.line((result.directory, "bold"), f": {counted(result.exchanges, 'exchange')} with models{who}")
    for name, word in (*_TERMS, ("total", "total")):
        term = getattr(result.statement, name)
        text = f"{term.value} {term.unit}" if _has_amount(term) else f"unknown: {term.reason}"
        screen.line(f"  {word:<10}{text}")
    for note in _iter_notes(result):
        screen.line((f"  {note}", "yellow"))


def _print_many(screen: Screen, priced: Sequence[api.RunCost]) -> None:
    names = [name for name, _ in _TERMS]
    rows = []
    for result in priced:
        amounts = [_describe([getattr(result.statement, name)]) for name in (*names, "total")]
        notes = "; ".join(_iter_notes(result)) or "-"
        who = "-" if result.upstream is None else shorten_digests(result.upstream)
        rows.append([Path(result.directory).name, who, str(result.exchanges), *amounts, notes])
    sums = [_describe([getattr(result.statement, name) for result in priced]) for name in (*names, "total")]
    note = "; ".join(_iter_common_notes(priced)) or "-"
    rows.append(["in all", "-", str(sum(result.exchanges for result in priced)), *sums, note])
    print_table(
        screen, ("run", "answered by", "exchanges", *(word for _, word in _TERMS), "total", "notes"), rows
    )


def _iter_common_notes(priced: Sequence[api.RunCost]) -> Iterator[str]:
    partial = sum(result.partial_because is not None for result in priced)
    if partial:
        yield f"partial record of {partial} of {len(priced)} runs"
    notional = sum(result.is_notional for result in priced)
    if notional:
        yield f"models: notional in {notional} of {len(priced)} runs"


def _has_amount(term: object) -> bool:
    return hasattr(term, "value")


def _describe(terms: Sequence[Any]) -> str:
    """The sum in each unit; unknown where one of them is."""
    if not all(map(_has_amount, terms)):
        return "unknown"
    sums: dict[str, Decimal] = {}
    for term in terms:
        sums[term.unit] = sums.get(term.unit, Decimal(0)) + Decimal(term.value)
    stated = {unit: value for unit, value in sums.items() if value} or dict(list(sums.items())[:1])
    return " + ".join(f"{value:f} {unit}" for unit, value in stated.items())


def _iter_notes(result: api.RunCost) -> Iterator[str]:
    if result.partial_because is not None:
        yield f"partial record, the amounts are those of what is left: {result.partial_because}"
    if result.is_notional:
        yield "models: notional, nobody was paid"
    for name, value in result.overspend.items():
        if Decimal(value):
            yield mark_cap(f"{name}: the cap was passed by {value}")
    if result.exchanges and not result.is_booked:
        yield "priced by another book than the one that was in force"
