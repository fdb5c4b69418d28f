"""The entries of the book."""

from dataclasses import dataclass
from decimal import Decimal

from tillbook import accounts
from tillbook.errors import BookError

_entries = []
_sums = {}
_last_date = ""


@dataclass(frozen=True)
class Entry:
    date: str
    text: str
    lines: tuple


def post(date, text, lines):
    """Add an entry. Dates never go back, and the lines sum to zero."""
    global _last_date
    if date < _last_date:
        raise BookError(f"{date} is before {_last_date}")
    for name, _ in lines:
        accounts.require_account(name)
    if len(lines) < 2:
        raise BookError("an entry has at least two lines")
    rest = sum((amount for _, amount in lines), Decimal(0))
    if rest != 0:
        raise BookError(f"entry does not sum to zero: {rest}")
    _entries.append(Entry(date, text, tuple(lines)))
    for name, amount in lines:
        _sums[name] = sum_of(name) + amount
    _last_date = date


def sum_of(name):
    return _sums.get(name, Decimal(0))


def entries():
    return list(_entries)


def reset():
    global _last_date
    _entries.clear()
    _sums.clear()
    _last_date = ""
