"""Token counts of every vendor in one record; what a vendor leaves open stays null."""

from __future__ import annotations

from collections.abc import Mapping

from repotrial.trace import ResponseUsage
from repotrial.transcripts._values import as_count, as_object


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


def build_undeclared(
    *, some_input: object, cache_read: object = None, cache_write: object = None, output: object = None
) -> ResponseUsage:
    """Where nothing says whether the input figure contains the caches: known only when those are zero."""
    if as_count(cache_read) or as_count(cache_write):
        return ResponseUsage(
            cache_read_tokens=as_count(cache_read),
            cache_write_5m_tokens=as_count(cache_write),
            output_tokens=as_count(output),
        )
    return build_inclusive(
        total_input=some_input, cache_read=cache_read, cache_write=cache_write, output=output
    )


def read_openai(value: object) -> ResponseUsage:
    """The usage object of Chat Completions, as litellm writes it too."""
    usage = as_object(value)
    details = as_object(usage.get("prompt_tokens_details"))
    return build_inclusive(
        total_input=usage.get("prompt_tokens"),
        cache_read=_first(details, "cached_tokens", fallback=usage.get("cache_read_input_tokens")),
        cache_write=usage.get("cache_creation_input_tokens"),
        output=usage.get("completion_tokens"),
        reasoning=as_object(usage.get("completion_tokens_details")).get("reasoning_tokens"),
    )


def _first(values: Mapping[str, object], key: str, *, fallback: object) -> object:
    found = values.get(key)
    return fallback if found is None else found
