"""The command."""

import argparse
import sys

from lapse import backoff, parse, render
from lapse.config import load
from lapse.duration import DurationError


def build_parser():
    parser = argparse.ArgumentParser(prog="lapse")
    parser.add_argument("--config", default=None, help="file with settings")
    commands = parser.add_subparsers(dest="command", required=True)
    seconds = commands.add_parser("seconds")
    seconds.add_argument("duration")
    seconds.add_argument("--unit", default=None, help="unit of a bare number")
    show = commands.add_parser("show")
    show.add_argument("duration")
    show.add_argument("--parts", type=int, default=None)
    pauses = commands.add_parser("backoff")
    pauses.add_argument("first")
    pauses.add_argument("--factor", type=int, default=2)
    pauses.add_argument("--count", type=int, default=5)
    return parser


def main(arguments=None, stdout=None):
    """0: done; 3: not a duration; 4: the settings cannot be used; argparse itself ends with 2."""
    options = build_parser().parse_args(arguments)
    stdout = stdout or sys.stdout
    try:
        settings = load(open(options.config, encoding="utf-8").read() if options.config else "")
    except (OSError, ValueError, TypeError) as error:
        print(f"lapse: {error}", file=sys.stderr)
        return 4
    try:
        for line in _lines(options, settings):
            print(line, file=stdout)
    except DurationError as error:
        print(f"lapse: {error}", file=sys.stderr)
        return 3
    return 0


def _lines(options, settings):
    if options.command == "seconds":
        return [f"{parse(options.duration, default_unit=options.unit or settings.default_unit):g}"]
    if options.command == "show":
        seconds = parse(options.duration, default_unit=settings.default_unit)
        return [render(seconds, parts=settings.parts if options.parts is None else options.parts)]
    return [render(pause) for pause in backoff(options.first, factor=options.factor, limit=settings.limit, count=options.count)]
