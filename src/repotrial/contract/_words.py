"""Words for messages: what a type expects, what was found, and what was probably meant."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal

from msgspec import inspect as mi

from repotrial._core.display import escape_unprintable
from repotrial._core.schema import strip_metadata

_LONGEST_VALUE = 80
_MOST_DIGITS = 40
_LONGEST_KEY_TO_COMPARE = 100
_MOST_COMPARED = 200
_ALMOST = 0.6


def quote(text: str) -> str:
    """Text in double quotes, cut to a readable length; nothing in it can break the line or the terminal."""
    shown = text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
    return json.dumps(escape_unprintable(shown), ensure_ascii=False).replace("\\\\", "\\")


def describe(value: object) -> str:
    """What was found, in a few words, whatever it is."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {quote(value)}" if value else "empty text"
        case int():
            # str() of a huge integer is refused or slow.
            many = value.bit_length() > _MOST_DIGITS * 3
            return (
                f"an integer of about {value.bit_length() * 30103 // 100000 + 1} digits"
                if many
                else f"{value}"
            )
        case Decimal():
            text = str(value)
            return text if len(text) <= _MOST_DIGITS else f"{text[:_MOST_DIGITS]}…"
        case datetime() | date() | time():
            return f"a TOML date or time ({value.isoformat()})"
        case dict():
            return "a table" if value else "an empty table"
        case list() | tuple():
            return f"an array of {len(value)}" if value else "an empty array"
        case _:
            return f"a value of type {type(value).__name__}"


def expected_words(info: mi.Type) -> str:
    """What a type accepts, in a few words."""
    match info:
        case mi.Metadata(type=inner, extra=extra, extra_json_schema=schema):
            words = (extra or {}).get("expected") or (schema or {}).get("description")
            return str(words) if words else expected_words(inner)
        case mi.StrType():
            return _expected_text(info)
        case mi.IntType(ge=ge, le=le):
            return "a whole number" + _bounds(ge, le)
        case mi.BoolType():
            return "true or false"
        case mi.DecimalType():
            return "a decimal number such as 0.5"
        case mi.LiteralType(values=values):
            return join_choices(quote(str(value)) for value in values)
        case mi.VarTupleType(item_type=item) | mi.ListType(item_type=item):
            is_table = isinstance(strip_metadata(item), mi.StructType)
            return "an array of tables" if is_table else f"an array, each item {expected_words(item)}"
        case mi.UnionType():
            return _expected_union(info)
        case _:
            return "a table"


def join_choices(choices: Iterable[str]) -> str:
    """`a, b or c`."""
    listed = list(choices)
    return " or ".join([", ".join(listed[:-1]), listed[-1]]) if len(listed) > 1 else "".join(listed)


def nearest(word: str, known: Sequence[str], *, at_least: float = _ALMOST) -> str | None:
    """The known word that the given one is most like, if it is like any; the first few hundred are tried."""
    if len(word) > _LONGEST_KEY_TO_COMPARE:
        return None
    tried = [candidate for candidate in known[:_MOST_COMPARED] if len(candidate) <= _LONGEST_KEY_TO_COMPARE]
    folded = {candidate.casefold().replace("-", "_"): candidate for candidate in reversed(tried)}
    matches = difflib.get_close_matches(word.casefold().replace("-", "_"), list(folded), n=1, cutoff=at_least)
    return folded[matches[0]] if matches else None


def _expected_text(info: mi.StrType) -> str:
    low, high = info.min_length, info.max_length
    if low and high:
        return f"text of {low} to {high} characters"
    if low:
        return "text that is not empty"
    return f"text of at most {high} characters" if high else "text"


def _expected_union(info: mi.UnionType) -> str:
    options = [option for option in info.types if not isinstance(option, mi.NoneType)]
    structs = [option for option in options if isinstance(option, mi.StructType)]
    words = [expected_words(option) for option in options if not isinstance(option, mi.StructType)]
    tags = [quote(str(struct.tag)) for struct in structs if struct.tag is not None]
    if tags:
        words.append(f"a table with {structs[0].tag_field} = {join_choices(tags)}")
    elif structs:
        words.append("a table")
    return ", or ".join(words)


def _bounds(low: float | None, high: float | None) -> str:
    if low is not None and high is not None and high < 2**31:
        return f" from {low} to {high}"
    return "" if low is None else f", at least {low}"
