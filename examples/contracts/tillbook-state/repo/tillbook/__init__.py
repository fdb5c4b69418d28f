"""Double-entry bookkeeping in plain text."""

from tillbook.errors import BookError
from tillbook.reader import read_book
from tillbook.reports import balances, statement

__all__ = ["BookError", "balances", "read_book", "statement"]
