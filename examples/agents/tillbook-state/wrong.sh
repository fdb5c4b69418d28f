#!/usr/bin/env bash
# Puts a class in front of the modules, which still hold the one book.
# Runs in the root of the workspace.
set -euo pipefail

cat >tillbook/__init__.py <<'END_OF_FILE'
"""Double-entry bookkeeping in plain text."""

from tillbook.book import Book
from tillbook.errors import BookError
from tillbook.reader import read_book

__all__ = ["Book", "BookError", "read_book"]
END_OF_FILE

cat >tillbook/book.py <<'END_OF_FILE'
"""A book as an object, in front of the modules."""

from tillbook import accounts, journal, reports


class Book:
    open_account = staticmethod(accounts.open_account)
    close_account = staticmethod(accounts.close_account)
    post = staticmethod(journal.post)
    entries = staticmethod(journal.entries)
    balances = staticmethod(reports.balances)
    statement = staticmethod(reports.statement)
END_OF_FILE

cat >tillbook/reader.py <<'END_OF_FILE'
"""Reads the book from text."""

import re
from decimal import Decimal

from tillbook import accounts, journal
from tillbook.book import Book
from tillbook.errors import BookError

_HEAD = re.compile(r'(\d{4}-\d{2}-\d{2}) "(.*)"')
_LINE = re.compile(r"\s+(\S+)\s+(-?\d+(?:\.\d+)?)")

_pending = None


def read_book(text):
    """Read a book; what was read before is forgotten."""
    global _pending
    accounts.reset()
    journal.reset()
    _pending = None
    number = 0
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].rstrip()
        try:
            _read_line(line, number)
        except BookError as error:
            raise error if error.line else BookError(str(error), number) from None
    _finish()
    return Book()


def _read_line(line, number):
    global _pending
    if _pending is not None and line[:1] == " ":
        part = _LINE.fullmatch(line)
        if part is None:
            raise BookError("cannot read the line of an entry")
        _pending[3].append((part[1], Decimal(part[2])))
        return
    _finish()
    if not line:
        return
    word, _, rest = line.partition(" ")
    head = _HEAD.fullmatch(line)
    if word == "account":
        accounts.open_account(rest.strip())
    elif word == "close":
        accounts.close_account(rest.strip())
    elif head:
        _pending = (number, head[1], head[2], [])
    else:
        raise BookError("cannot read this")


def _finish():
    global _pending
    if _pending is None:
        return
    number, date, text, lines = _pending
    _pending = None
    try:
        journal.post(date, text, lines)
    except BookError as error:
        raise BookError(str(error), number) from None
END_OF_FILE
