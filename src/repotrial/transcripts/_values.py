"""Fields of foreign objects: what has another type than expected is not there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from repotrial._core.canonical import MAX_SAFE_INTEGER, decimal_text
from repotrial._core.errors import UsageError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MILLISECONDS_FROM = 100_000_000_000
"""Seconds stay below for three thousand years, milliseconds are above it since 1973."""

_NOTHING: dict[str, object] = {}


def as_text(value: object) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value else None


def as_object(value: object) -> Mapping[str, object]:
    """An object; an empty one in place of anything else."""
    return value if isinstance(value, dict) else _NOTHING


def iter_objects(value: object) -> Iterator[Mapping[str, object]]:
    """The objects in a list; nothing of anything else."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def read_path(value: object, *keys: str) -> object:
    """What stands below a row of keys; null as soon as one is missing."""
    for key in keys:
        value = as_object(value).get(key)
    return value


def as_count(value: object) -> int | None:
    """A quantity: an integer that is not negative; a fraction without a fractional part counts as one."""
    if type(value) is int:  # not `isinstance`: a boolean is no quantity
        return value if 0 <= value <= MAX_SAFE_INTEGER else None
    return as_count(int(value)) if isinstance(value, float) and value.is_integer() else None


def as_decimal(value: object) -> str | None:
    """An amount of money as a decimal."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    try:
        return decimal_text(Decimal(str(value)))
    except (UsageError, ValueError):  # ValueError: an integer of thousands of digits
        return None


def as_micros(value: object, *, per_unit: int) -> int | None:
    """A duration in microseconds from a number of units."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_SAFE_INTEGER:
        return None
    return round(value * per_unit)


def as_moment(value: object) -> str | None:
    """A time as it is written: a text that is not empty, or a number as a text."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(value) if abs(value) <= MAX_SAFE_INTEGER else None


def parse_moment(text: str | None) -> int | None:
    """Microseconds since the epoch, where a time can be read.

    Texts are ISO 8601, without a zone UTC; numbers are seconds or milliseconds, whichever makes sense.
    """
    if text is None:
        return None
    try:
        if text[:2].isdigit() and text.replace(".", "", 1).isdigit():
            value = Decimal(text)
            return int(value * (1_000 if value >= _MILLISECONDS_FROM else 1_000_000))
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // _MICROSECOND
    except (ArithmeticError, ValueError):  # ArithmeticError: beyond the calendar
        return None


def join_texts(value: object, key: str = "text") -> str:
    """A text, or the texts of a list of parts joined by newlines."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        value = [value]
    parts: Iterable[object] = value if isinstance(value, list) else ()
    texts = (part if isinstance(part, str) else as_text(as_object(part).get(key)) for part in parts)
    return "\n".join(text for text in texts if text)
