"""Reads the book from text."""

import re
from decimal import Decimal

from tillbook import accounts, journal
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
