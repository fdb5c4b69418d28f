"""Values of foreign objects (one of an unexpected type is not there), JSON text, and token counts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NoReturn, TypeAlias

import msgspec

from repotrial._core.canonical import MAX_SAFE_INTEGER, decimal_text
from repotrial._core.errors import UsageError
from repotrial.trace import ResponseUsage

_ANY = msgspec.json.Decoder()


def repair_json(data: bytes) -> bytes | None:
    """The same JSON without bad UTF-8, half surrogates and a byte order mark; None if it is no JSON.

    Agents cut outputs in the middle of a character; one such character must not cost the whole entry.
    """
    try:
        text = data.decode("utf-8", "replace").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
        value = json.loads(text, parse_constant=_refuse)
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return None


def decode_leniently(data: bytes) -> object:
    """The value of a JSON text, repaired if need be; the text itself where it is no JSON."""
    try:
        return _ANY.decode(data)
    except (ValueError, RecursionError):
        pass
    repaired = repair_json(data)
    try:
        return _ANY.decode(repaired or b"")
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")


def parse_object(text: str) -> dict[str, object] | None:
    """The JSON object that a text holds, if it holds one."""
    if not text.lstrip().startswith("{"):
        return None
    value = decode_leniently(text.encode("utf-8", "replace"))
    return value if isinstance(value, dict) else None


def encode_value(value: object) -> bytes:
    """A decoded value as JSON again; one nested too deep for that becomes null."""
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        return b"null"


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"expected JSON, found {word}")


Fields: TypeAlias = Mapping[str, object]
"""An object of a transcript, decoded."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MILLISECONDS_FROM = 100_000_000_000
"""Seconds stay below for three thousand years, milliseconds are above it since 1973."""

_NOTHING: dict[str, object] = {}


def as_text(value: object) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value else None


def as_object(value: object) -> Fields:
    """An object; an empty one in place of anything else."""
    return value if isinstance(value, dict) else _NOTHING


def iter_objects(value: object) -> Iterator[Fields]:
    """The objects in a list; nothing of anything else."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def read_path(value: object, *keys: str) -> object:
    """What stands below a row of keys; None as soon as one is missing."""
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


def build_inclusive(
    *,
    total_input: object,
    cache_read: object = None,
    cache_write: object = None,
    output: object = None,
    reasoning: object = None,
) -> ResponseUsage:
    """Where the input figure contains what caches served and stored (OpenAI, Gemini, litellm)."""
    whole, read, write = as_count(total_input), as_count(cache_read), as_count(cache_write)
    fresh = None if whole is None or read is None else whole - read - (write or 0)
    return ResponseUsage(
        input_uncached_tokens=None if fresh is None or fresh < 0 else fresh,
        cache_read_tokens=read,
        cache_write_5m_tokens=write,
        output_tokens=as_count(output),
        reasoning_tokens=as_count(reasoning),
        request_input_tokens=whole,
    )


def build_exclusive(
    *,
    fresh_input: object,
    cache_read: object = None,
    cache_write_5m: object = None,
    cache_write_1h: object = None,
    output: object = None,
    reasoning: object = None,
) -> ResponseUsage:
    """Where the input figure leaves out what caches served and stored (Anthropic, opencode, pi)."""
    fresh, read = as_count(fresh_input), as_count(cache_read)
    short, long = as_count(cache_write_5m), as_count(cache_write_1h)
    return ResponseUsage(
        input_uncached_tokens=fresh,
        cache_read_tokens=read,
        cache_write_5m_tokens=short,
        cache_write_1h_tokens=long,
        output_tokens=None if output is None else as_count(output),
        reasoning_tokens=None if reasoning is None else as_count(reasoning),
        request_input_tokens=None if fresh is None else fresh + (read or 0) + (short or 0) + (long or 0),
    )


def build_undeclared(usage: Fields) -> ResponseUsage:
    """Cline and Copilot CLI do not say whether the input contains the caches: it counts if those are zero."""
    read, written = as_count(usage.get("cacheReadTokens")), as_count(usage.get("cacheWriteTokens"))
    output = usage.get("outputTokens")
    if read or written:
        return ResponseUsage(
            cache_read_tokens=read, cache_write_5m_tokens=written, output_tokens=as_count(output)
        )
    return build_inclusive(
        total_input=usage.get("inputTokens"), cache_read=read, cache_write=written, output=output
    )


def read_openai(value: object) -> ResponseUsage:
    """The usage object of Chat Completions, as litellm writes it too."""
    usage = as_object(value)
    cached = read_path(usage, "prompt_tokens_details", "cached_tokens")
    return build_inclusive(
        total_input=usage.get("prompt_tokens"),
        cache_read=usage.get("cache_read_input_tokens") if cached is None else cached,
        cache_write=usage.get("cache_creation_input_tokens"),
        output=usage.get("completion_tokens"),
        reasoning=read_path(usage, "completion_tokens_details", "reasoning_tokens"),
    )
