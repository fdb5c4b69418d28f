"""The command."""

import argparse
import sys
from pathlib import Path

from tillbook import journal
from tillbook.errors import BookError
from tillbook.reader import read_book
from tillbook.reports import balances, statement


def main(arguments=None, stdout=None):
    parser = argparse.ArgumentParser(prog="tillbook")
    parser.add_argument("command", choices=["balance", "statement", "check"])
    parser.add_argument("file", type=Path)
    parser.add_argument("account", nargs="?", default="")
    options = parser.parse_args(arguments)
    stdout = stdout or sys.stdout
    try:
        read_book(options.file.read_text("utf-8"))
        for line in _lines(options):
            print(line, file=stdout)
    except (BookError, OSError) as error:
        print(f"tillbook: {error}", file=sys.stderr)
        return 1
    return 0


def _lines(options):
    if options.command == "balance":
        return [f"{name}\t{balance}" for name, balance in balances()]
    if options.command == "statement":
        return ["\t".join(map(str, row)) for row in statement(options.account)]
    return [f"{len(journal.entries())} entries"]
