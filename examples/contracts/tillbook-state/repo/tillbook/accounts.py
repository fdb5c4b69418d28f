"""The accounts of the book."""

from tillbook import journal
from tillbook.errors import BookError

KINDS = ("assets", "liabilities", "income", "expenses", "equity")

_accounts = {}


def open_account(name):
    """Make an account known. Its kind is what stands before the first colon."""
    kind = name.partition(":")[0]
    if kind not in KINDS:
        raise BookError(f"unknown kind of account: {kind}")
    if name in _accounts:
        raise BookError(f"account is open already: {name}")
    _accounts[name] = kind


def close_account(name):
    """Only an account without a balance can be closed; it takes no more entries."""
    require_account(name)
    if journal.sum_of(name) != 0:
        raise BookError(f"account is not empty: {name}")
    _accounts[name] = "closed"


def require_account(name):
    if name not in _accounts:
        raise BookError(f"unknown account: {name}")
    if _accounts[name] == "closed":
        raise BookError(f"account is closed: {name}")


def is_known(name):
    return name in _accounts


def names():
    return sorted(_accounts)


def reset():
    _accounts.clear()
