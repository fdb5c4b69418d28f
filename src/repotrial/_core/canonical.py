"""Canonical bytes: one value, one serialization (RFC 8785 on a restricted set of values; ADR 0002).

Allowed are null, booleans, strings that UTF-8 can hold, integers that a double can hold exactly, lists, and
objects with ASCII keys. Fractions travel as decimal strings. On this set orjson with sorted keys writes the
very bytes that RFC 8785 asks for (property-tested against the `rfc8785` library); everything else is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Any, TypeAlias

import msgspec
import orjson

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, UsageError

MAX_SAFE_INTEGER = 2**53 - 1

_MAX_LEVELS = 200
"""Of nesting: the serializer ends at 254, and no document of ours comes near."""

_DOUBTFUL_LEVELS = 2
"""So near the end of them it is counted exactly."""

_MAX_DECIMAL_EXPONENT = 1000
"""`1e999999999` is short in a document and a gigabyte when it is written out."""

SafeInt = Annotated[int, msgspec.Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]
"""An integer that every JSON reader reads exactly."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_SAFE_INTEGER)]
"""A quantity: a safe integer that is not negative."""

AsciiKey = Annotated[str, msgspec.Meta(pattern=r"^[\x20-\x7e]*$(?!\n)")]
"""An object key whose sort order is the same by bytes and by UTF-16 units."""

DecimalText = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(0|-?([1-9][0-9]*(\.[0-9]*[1-9])?|0\.[0-9]*[1-9]))(?!\n)$",
        description="a decimal in its one canonical spelling",
    ),
]
"""A fraction; JSON numbers have no exact one."""

JsonValue: TypeAlias = "bool | int | str | list[JsonValue] | dict[str, JsonValue] | None"


NOT_CANONICAL = ErrorCode(
    "not-canonical",
    UsageError,
    "A value has no canonical form.\n\nIt holds a fraction, an integer beyond 2^53-1, a key that is not "
    "ASCII, or text that UTF-8 cannot hold, or it is nested too deep.",
    hint="store foreign JSON as bytes; write fractions as decimal strings",
)


def canonical_bytes(value: JsonValue) -> bytes:
    """Check `value` and serialize it.

    Raises:
        NOT_CANONICAL: the value is outside the allowed set; the message names the place.
    """
    if not _is_plain(value, _MAX_LEVELS):
        _check(value, "$", levels=_MAX_LEVELS)
    return dump_checked(value)


def canonical_digest(value: JsonValue) -> Digest:
    return digest_bytes(canonical_bytes(value))


def dump_checked(value: object) -> bytes:
    """Serialize a value whose types have been checked already (by a schema, or by `canonical_bytes`)."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:  # orjson.JSONEncodeError is a TypeError: lone surrogates, huge integers
        raise NOT_CANONICAL.error(f"expected a canonical JSON value, found: {error}") from error


def decimal_text(value: Decimal) -> str:
    """One spelling for a decimal: `5`, `5.0` and `5.00` are the same number and the same bytes."""
    if not value.is_finite() or abs(value.adjusted()) > _MAX_DECIMAL_EXPONENT:
        raise NOT_CANONICAL.error(f"expected a finite decimal of a sensible size, found {value}")
    text = format(value, "f")  # `normalize` would round to the context's precision
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return "0" if text == "-0" else text


def _is_plain(value: object, levels: int) -> bool:
    """Whether a value is allowed beyond doubt; `_check` decides the rest, and says where it is wrong.

    Most of what a harness computes: one call for each container, none for what is in it.
    """
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str or not key.isascii():
                return False
        items: Iterable[Any] = value.values()
    else:
        items = value if isinstance(value, list | tuple) else (value,)
    for item in items:
        kind = type(item)
        if kind is str:
            is_plain = item.isascii()
        elif kind is int:
            is_plain = -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER
        elif kind is dict or kind is list or kind is tuple:
            is_plain = levels > _DOUBTFUL_LEVELS and _is_plain(item, levels - 1)
        else:
            is_plain = item is None or kind is bool
        if not is_plain:
            return False
    return True


def _check(value: object, where: str, *, levels: int) -> None:
    if not levels:
        raise NOT_CANONICAL.error(f"expected at most {_MAX_LEVELS} levels of nesting, found more")
    match value:
        case None | bool():
            return
        case str():
            _check_text(value, where)
        case int():
            if abs(value) > MAX_SAFE_INTEGER:
                raise NOT_CANONICAL.error(f"{where}: expected an integer within ±(2^53-1), found {value}")
        case list() | tuple():
            for index, item in enumerate(value):
                _check(item, f"{where}[{index}]", levels=levels - 1)
        case dict():
            for key, item in value.items():
                _check_key(key, where)
                _check(item, f"{where}.{key}", levels=levels - 1)
        case _:
            raise NOT_CANONICAL.error(
                f"{where}: expected a JSON value without fractions, found {type(value).__name__}"
            )


def _check_key(key: object, where: str) -> None:
    if not isinstance(key, str) or not key.isascii():
        raise NOT_CANONICAL.error(f"{where}: expected ASCII keys, found {key!r}")


def _check_text(value: str, where: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise NOT_CANONICAL.error(
            f"{where}: expected text that UTF-8 can hold, found {error.reason}"
        ) from error
