"""Single values held against their type."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal

from msgspec import inspect as mi

from repotrial._core.schema import strip_metadata
from repotrial.contract._problems import describe, expected_words

MAX_DECIMAL_DIGITS = 28
"""Most digits of a decimal, before and after the point: what canonical text writes without rounding."""

_PLAIN_DECIMAL = re.compile(r"-?[0-9]{1,28}(\.[0-9]{1,28})?", re.ASCII)
_TRAVERSAL = re.compile(r"(?:\A|/)\.\.(?:/|\Z)")
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Why a value is not what its type expects."""

    message: str
    hint: str = ""


def check_leaf(value: object, info: mi.Type) -> Fault | None:
    """None for a sound value."""
    match strip_metadata(info):
        case mi.StrType() as text_type:
            return _check_text(value, text_type, info)
        case mi.IntType() as int_type:
            return _check_int(value, int_type, info)
        case mi.DecimalType():
            return _check_decimal(value, info)
        case mi.BoolType() if not isinstance(value, bool):
            return _fault(value, info, "write it without quotes" if value in ("true", "false") else "")
        case _:
            return None


def _fault(value: object, info: mi.Type, hint: str = "", *, because: str = "") -> Fault:
    note = f" ({because})" if because else ""
    return Fault(message=f"expected {expected_words(info)}, found {describe(value)}{note}", hint=hint)


def _check_text(value: object, text_type: mi.StrType, info: mi.Type) -> Fault | None:
    if not isinstance(value, str):
        is_scalar = isinstance(value, (bool, int, Decimal, datetime, date, time))
        return _fault(value, info, "write it in quotes" if is_scalar else "")
    reason = _unusable(value)
    if reason:
        return _fault(value, info, because=reason)
    length = len(value)
    if text_type.max_length is not None and length > text_type.max_length:
        return _fault(value, info, because=f"{length} characters; at most {text_type.max_length} are allowed")
    if text_type.min_length is not None and length < text_type.min_length:
        return _fault(value, info)
    if text_type.pattern is not None and re.search(text_type.pattern, value) is None:
        return _fault(value, info, because=_path_reason(value, info))
    return None


def _unusable(text: str) -> str:
    """Neither a program's arguments nor its environment can hold these."""
    if "\0" in text:
        return "it contains a NUL character"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "it contains half of a surrogate pair, which UTF-8 cannot hold"
    return ""


_PATH_REASONS: tuple[tuple[Callable[[str], object], str], ...] = (
    (lambda path: not path, ""),
    (lambda path: any(character < " " for character in path), "it contains a control character"),
    (lambda path: "\\" in path, "a backslash; paths are written with /"),
    (_TRAVERSAL.search, "it climbs out with '..'"),
    (_DRIVE.match, "it starts with a drive letter"),
    (lambda path: path.startswith("/"), "it is absolute"),
)


def _path_reason(value: str, info: mi.Type) -> str:
    tree = (info.extra or {}).get("tree") if isinstance(info, mi.Metadata) else None
    if tree is None:
        return "it ends with a newline" if value.endswith("\n") else ""
    reason = next((words for is_so, words in _PATH_REASONS if is_so(value)), "")
    return "it is relative" if tree == "sandbox" and not reason and value else reason


def _check_int(value: object, int_type: mi.IntType, info: mi.Type) -> Fault | None:
    if isinstance(value, bool) or not isinstance(value, int):
        if isinstance(value, str) and value.isdecimal():
            return _fault(value, info, "write it without quotes")
        is_whole = isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value()
        return _fault(value, info, "write it without a decimal point" if is_whole else "")
    low, high = int_type.ge, int_type.le
    if (low is not None and value < low) or (high is not None and value > high):
        return _fault(value, info)
    return None


def _check_decimal(value: object, info: mi.Type) -> Fault | None:
    match value:
        case bool():
            return _fault(value, info)
        case int():
            number = Decimal(value) if abs(value) < 10**MAX_DECIMAL_DIGITS else Decimal("Infinity")
        case Decimal():
            number = value
        case str() if _PLAIN_DECIMAL.fullmatch(value):
            number = Decimal(value)
        case _:
            return _fault(value, info)
    if not number.is_finite() and isinstance(value, Decimal):
        return _fault(value, info, because="it is not a finite number")
    if not number.is_finite() or not _is_short(number):
        return _fault(value, info, because=f"at most {MAX_DECIMAL_DIGITS} digits are allowed")
    return None


def _is_short(number: Decimal) -> bool:
    _, digits, exponent = number.as_tuple()
    return (
        isinstance(exponent, int)
        and len(digits) <= MAX_DECIMAL_DIGITS
        and exponent >= -MAX_DECIMAL_DIGITS
        and number.adjusted() < MAX_DECIMAL_DIGITS
    )
