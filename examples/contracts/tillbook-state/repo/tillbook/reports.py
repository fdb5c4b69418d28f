"""What people want to know of the book."""

from decimal import Decimal

from tillbook import accounts, journal
from tillbook.errors import BookError


def balances():
    """(account, balance) of all accounts, by name."""
    return [(name, journal.sum_of(name)) for name in accounts.names()]


def statement(name):
    """(date, text, amount, balance after) of one account."""
    if not accounts.is_known(name):
        raise BookError(f"unknown account: {name}")
    rows, balance = [], Decimal(0)
    for entry in journal.entries():
        for account, amount in entry.lines:
            if account == name:
                balance += amount
                rows.append((entry.date, entry.text, amount, balance))
    return rows
