"""Whether two runs may be compared (P30), and what stands against it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from repotrial._core.canonical import canonical_bytes
from repotrial._core.display import neutralize
from repotrial.trace._manifest import COMPARED_FIELDS, Manifest, iter_unbound_fields

_MAX_CHARACTERS = 300
_ABSENT = "(absent)"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Something in which two runs differ that must agree, or that is not known of one of them."""

    field: str
    """Its path in the manifest."""
    one: str
    """What the first run has there."""
    other: str
    """What the second run has there."""


def list_differences(one: Manifest, other: Manifest) -> list[Difference]:
    """Everything that stands against comparing two runs; none for runs of one comparability class.

    What is not known of a run is not equal to anything, not even to something that is not known of the other.
    """
    left, right = _list_compared(one), _list_compared(other)
    found = {difference.field: difference for difference in _iter_differences(left, right, "")}
    for run in (one, other):
        for field, unknown in iter_unbound_fields(run):
            text = _show(f"unknown: {unknown.reason}")
            found.setdefault(field, Difference(field=field, one=text, other=text))
    return [found[field] for field in sorted(found)]


def _list_compared(run: Manifest) -> dict[str, Any]:
    return {name: msgspec.to_builtins(getattr(run, name)) for name in COMPARED_FIELDS}


def _iter_differences(one: Any, other: Any, where: str) -> Iterator[Difference]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            place = f"{where}.{key}" if where else key
            yield from _iter_differences(one.get(key, _ABSENT), other.get(key, _ABSENT), place)
    elif one != other:
        yield Difference(field=where, one=_show(one), other=_show(other))


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else canonical_bytes(value).decode()
    return neutralize(text, max_characters=_MAX_CHARACTERS)
