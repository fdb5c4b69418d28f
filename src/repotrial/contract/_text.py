"""Bytes to text to values, strictly: UTF-8 without a byte order mark, TOML, JSON without repeated keys."""

from __future__ import annotations

import codecs
import json
import re
import tomllib
from decimal import Decimal, InvalidOperation
from typing import Any

from repotrial.contract._problems import Problem
from repotrial.contract._toml import LineIndex

MAX_KEY_PARTS = 32
"""Most parts of one dotted key. tomllib needs memory in the square of it: 500,000 parts end the process."""

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"(?:\.[ \t]*{_PART}[ \t]*){{{MAX_KEY_PARTS}}}")
_LONG_NUMBER = re.compile(r"[0-9][0-9_]{4000,}")
_POSITION = re.compile(r"\s*\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)\Z")
_DUPLICATE_WORDS = ("Cannot overwrite", "twice", "Cannot mutate", "already")


def decode_text(data: bytes, *, file: str) -> str | Problem:
    """UTF-8, or the problem with its byte offset."""
    if data.startswith(codecs.BOM_UTF8):
        return Problem(
            code="file-not-utf8",
            severity="error",
            file=file,
            line=1,
            message="expected UTF-8 text, found a byte order mark at byte 0",
            hint="save the file as UTF-8 without a byte order mark",
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return Problem(
            code="file-not-utf8",
            severity="error",
            file=file,
            line=data.count(b"\n", 0, error.start) + 1,
            message=f"expected UTF-8 text, found byte 0x{data[error.start]:02x} at byte offset {error.start}",
            hint="save the file as UTF-8",
        )


def parse_toml(text: str, *, file: str) -> dict[str, Any] | Problem:
    """The value of a TOML document; fractions are exact decimals."""
    long_key = _LONG_KEY.search(text)
    if long_key is not None:
        return _syntax(
            "toml-syntax",
            file,
            _line_at(text, long_key.start()),
            f"expected keys of at most {MAX_KEY_PARTS} dotted parts, found a longer one",
        )
    try:
        return tomllib.loads(text, parse_float=_parse_decimal)
    except tomllib.TOMLDecodeError as error:
        return _toml_problem(text, str(error), file)
    except RecursionError:
        return _syntax("toml-syntax", file, None, "expected a flat document, found hundreds of nested levels")
    except ValueError as error:
        # int() refuses thousands of digits; a date such as 2024-02-31 arrives here as well.
        number = _LONG_NUMBER.search(text)
        line = None if number is None else _line_at(text, number.start())
        found = f"{error}" if number is None else "an integer of thousands of digits"
        return _syntax("toml-syntax", file, line, f"expected a TOML value, found: {found}")


def parse_json(text: str, *, file: str) -> object | Problem:
    """The value of a JSON document; a repeated key, `NaN` and `Infinity` are refused."""
    try:
        value: object = json.loads(
            text, parse_float=_parse_decimal, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys
        )
    except json.JSONDecodeError as error:
        return _syntax(
            "json-syntax", file, error.lineno, f"expected JSON, found: {error.msg} (column {error.colno})"
        )
    except RecursionError:
        return _syntax("json-syntax", file, None, "expected JSON, found thousands of levels of nesting")
    except ValueError as error:
        return _syntax("json-syntax", file, None, f"expected strict JSON, found: {error}")
    return value


def _toml_problem(text: str, words: str, file: str) -> Problem:
    position = _POSITION.search(words)
    line = column = None
    if position is not None:
        words = words[: position.start()]
        line = int(position["line"]) if position["line"] else text.count("\n") + 1
        column = position["column"]
    if any(word in words for word in _DUPLICATE_WORDS):
        repeat = LineIndex(text.encode()).first_repeat
        if repeat is not None:
            field, first, second = repeat
            return _syntax(
                "toml-syntax",
                file,
                second,
                f"expected each key and table once, found {field!r} again (first on line {first})",
                field=field,
            )
    where = f" (column {column})" if column else ""
    return _syntax("toml-syntax", file, line, f"expected TOML, found: {_lower_first(words)}{where}")


def _syntax(code: str, file: str, line: int | None, message: str, *, field: str = "") -> Problem:
    return Problem(code=code, severity="error", file=file, line=line, field=field, message=message)


def _lower_first(words: str) -> str:
    return words[:1].lower() + words[1:]


def _line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _parse_decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent that even a decimal cannot hold
        return Decimal("Infinity")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"the number {name}")


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key[:80]!r} twice in one object")
            seen.add(key)
    return value
