"""Reading and writing durations."""

import re

from lapse.units import UNITS

_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)")


class DurationError(ValueError):
    """A text that is no duration."""


def parse(text, *, default_unit=None):
    """Seconds; parts must come from the largest unit to the smallest, each at most once."""
    text = text.strip()
    if default_unit is not None and re.fullmatch(r"\d+(\.\d+)?", text):
        text += default_unit
    order = list(UNITS)
    seconds, position, last = 0.0, 0, -1
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise DurationError(f"cannot read {text!r} at {position}")
        number, unit = part.groups()
        if unit not in UNITS:
            raise DurationError(f"unknown unit {unit!r}")
        if order.index(unit) <= last:
            raise DurationError(f"{unit!r} is out of order")
        last = order.index(unit)
        seconds += float(number) * UNITS[unit]
        position = part.end()
    if last < 0:
        raise DurationError("empty duration")
    return round(seconds, 3)


def render(seconds, *, parts=2):
    """The duration as text, of at most so many parts; what is smaller is cut off, not rounded."""
    if seconds < 0:
        raise DurationError("durations are not negative")
    left = round(seconds * 1000)
    words = []
    for unit, size in UNITS.items():
        count, rest = divmod(left, round(size * 1000))
        if count and len(words) < parts:
            words.append(f"{count}{unit}")
            left = rest
        elif words:
            break
    return " ".join(words) or "0s"
