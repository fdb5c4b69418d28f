"""The command: `textkit fill` and `textkit table` read standard input."""

import argparse
import sys
from collections.abc import Sequence
from typing import TextIO

from textkit.columns import table
from textkit.wrap import fill


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="textkit", description="Lay out text from standard input.")
    commands = parser.add_subparsers(dest="command", required=True)
    filling = commands.add_parser("fill", help="wrap paragraphs")
    filling.add_argument("--width", type=int, default=70, metavar="COLUMNS")
    filling.add_argument("--bullet", default="", help="what the first line of each paragraph begins with")
    tabulating = commands.add_parser("table", help="align tab-separated values")
    tabulating.add_argument("--align", default="", help="<, > or ^ for each column")
    tabulating.add_argument("--max-column", type=int, metavar="COLUMNS")
    return parser


def main(
    arguments: Sequence[str] | None = None, stdin: TextIO = sys.stdin, stdout: TextIO = sys.stdout
) -> int:
    options = build_parser().parse_args(arguments)
    text = stdin.read()
    try:
        if options.command == "fill":
            result = fill(
                text, options.width, initial_indent=options.bullet, subsequent_indent=" " * len(options.bullet)
            )
        else:
            rows = [line.split("\t") for line in text.splitlines()]
            result = table(rows, align=options.align, max_column=options.max_column)
    except ValueError as error:
        print(f"textkit: {error}", file=sys.stderr)
        return 2
    if result:
        print(result, file=stdout)
    return 0
