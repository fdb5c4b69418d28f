#!/usr/bin/env bash
# Makes a book an object, in one module.
# Runs in the root of the workspace.
set -euo pipefail

rm tillbook/accounts.py tillbook/journal.py tillbook/reports.py

cat >tillbook/__init__.py <<'END_OF_FILE'
"""Double-entry bookkeeping in plain text."""

from tillbook.book import Book
from tillbook.errors import BookError
from tillbook.reader import read_book

__all__ = ["Book", "BookError", "read_book"]
END_OF_FILE

cat >tillbook/book.py <<'END_OF_FILE'
"""A book, all of it."""

from dataclasses import dataclass, field
from decimal import Decimal
from itertools import accumulate

from tillbook.errors import BookError

KINDS = frozenset({"assets", "liabilities", "income", "expenses", "equity"})


@dataclass(frozen=True)
class Entry:
    date: str
    text: str
    lines: tuple


@dataclass
class Book:
    """Accounts and entries. Nothing is shared with another book."""

    _is_open: dict = field(default_factory=dict)
    _entries: list = field(default_factory=list)

    def open_account(self, name):
        kind = name.split(":", 1)[0]
        if kind not in KINDS:
            raise BookError(f"unknown kind of account: {kind}")
        if name in self._is_open:
            raise BookError(f"account is open already: {name}")
        self._is_open[name] = True

    def close_account(self, name):
        self._require(name)
        if self._balance(name) != 0:
            raise BookError(f"account is not empty: {name}")
        self._is_open[name] = False

    def post(self, date, text, lines):
        if self._entries and date < self._entries[-1].date:
            raise BookError(f"{date} is before {self._entries[-1].date}")
        for name, _ in lines:
            self._require(name)
        if len(lines) < 2:
            raise BookError("an entry has at least two lines")
        if rest := sum((amount for _, amount in lines), Decimal(0)):
            raise BookError(f"entry does not sum to zero: {rest}")
        self._entries.append(Entry(date, text, tuple(lines)))

    def entries(self):
        return list(self._entries)

    def balances(self):
        return [(name, self._balance(name)) for name in sorted(self._is_open)]

    def statement(self, name):
        if name not in self._is_open:
            raise BookError(f"unknown account: {name}")
        rows = [row for row in self._lines() if row[0] == name]
        sums = list(accumulate((row[3] for row in rows), initial=Decimal(0)))[1:]
        return [(date, text, amount, after) for (_, date, text, amount), after in zip(rows, sums, strict=True)]

    def _lines(self):
        for entry in self._entries:
            for name, amount in entry.lines:
                yield name, entry.date, entry.text, amount

    def _balance(self, name):
        return sum((row[3] for row in self._lines() if row[0] == name), Decimal(0))

    def _require(self, name):
        if name not in self._is_open:
            raise BookError(f"unknown account: {name}")
        if not self._is_open[name]:
            raise BookError(f"account is closed: {name}")
END_OF_FILE

cat >tillbook/cli.py <<'END_OF_FILE'
"""The command."""

import argparse
import sys
from pathlib import Path

from tillbook.errors import BookError
from tillbook.reader import read_book


def main(arguments=None, stdout=None):
    parser = argparse.ArgumentParser(prog="tillbook")
    parser.add_argument("command", choices=["balance", "statement", "check"])
    parser.add_argument("file", type=Path)
    parser.add_argument("account", nargs="?", default="")
    options = parser.parse_args(arguments)
    stdout = stdout or sys.stdout
    try:
        book = read_book(options.file.read_text("utf-8"))
        for line in _lines(book, options):
            print(line, file=stdout)
    except (BookError, OSError) as error:
        print(f"tillbook: {error}", file=sys.stderr)
        return 1
    return 0


def _lines(book, options):
    if options.command == "balance":
        return [f"{name}\t{balance}" for name, balance in book.balances()]
    if options.command == "statement":
        return ["\t".join(map(str, row)) for row in book.statement(options.account)]
    return [f"{len(book.entries())} entries"]
END_OF_FILE

cat >tillbook/reader.py <<'END_OF_FILE'
"""Reads a book from text."""

import re
from decimal import Decimal

from tillbook.book import Book
from tillbook.errors import BookError

_HEAD = re.compile(r'(\d{4}-\d{2}-\d{2}) "(.*)"')
_LINE = re.compile(r"\s+(\S+)\s+(-?\d+(?:\.\d+)?)")


def read_book(text):
    book = Book()
    lines = [line.partition("#")[0].rstrip() for line in text.splitlines()]
    index = 0
    while index < len(lines):
        first = index
        index += 1
        try:
            if head := _HEAD.fullmatch(lines[first]):
                parts = []
                while index < len(lines) and lines[index].startswith(" "):
                    parts.append(_read_part(lines[index], index + 1))
                    index += 1
                book.post(head[1], head[2], parts)
            elif lines[first]:
                _read_command(book, lines[first])
        except BookError as error:
            raise error if error.line else BookError(str(error), first + 1) from None
    return book


def _read_part(line, number):
    part = _LINE.fullmatch(line)
    if part is None:
        raise BookError("cannot read the line of an entry", number)
    return part[1], Decimal(part[2])


def _read_command(book, line):
    word, _, name = line.partition(" ")
    if word == "account":
        book.open_account(name.strip())
    elif word == "close":
        book.close_account(name.strip())
    else:
        raise BookError("cannot read this")
END_OF_FILE

# The project's own tests, as an agent would run them: the record keeps how they ended, and a replay compares.
PYTHONDONTWRITEBYTECODE=1 python -m pytest -q -p no:cacheprovider tests || true
