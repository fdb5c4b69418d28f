"""Requests without what differs between two runs of the same agent, for replays that match by meaning.

What is taken out is data: `VOLATILE_MEMBERS` (removed), `IDENTIFIER_MEMBERS` (numbered in the order in which
they appear, so that a result still belongs to its call) and `VOLATILE_TEXTS` (replaced by their name).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from repotrial.wire._common import MALFORMED_MODEL_REQUEST
from repotrial.wire._model import Dialect


class _VolatileText(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of text that says when or where, not what."""

    name: str
    """Stands in its place, in angle brackets."""
    pattern: str
    why: str
    """Who writes such a thing."""


_OPENAI_MEMBERS: Final = frozenset(
    {"user", "metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier"}
)

VOLATILE_MEMBERS: Final[Mapping[Dialect, frozenset[str]]] = {
    "openai-chat": _OPENAI_MEMBERS,
    "openai-responses": _OPENAI_MEMBERS | {"previous_response_id", "client_metadata"},
    "anthropic-messages": frozenset({"metadata"}),
    "gemini": frozenset({"labels", "session_id"}),
}
"""Members of the body itself that name the user, the session or the cache."""

IDENTIFIER_MEMBERS: Final = frozenset(
    {"id", "call_id", "tool_call_id", "tool_use_id", "item_id", "session_id", "thread_id", "turn_id"}
)
"""Members at any depth whose text only ties things together."""

_MONTHS: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAYS: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"

VOLATILE_TEXTS: Final = (
    _VolatileText(
        name="uuid",
        pattern=r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
        why="sessions, threads, files of a session",
    ),
    _VolatileText(
        name="time",
        pattern=r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\b ?[+-]\d\d:?\d\d)?",
        why="environment blocks, logs, listings with full times",
    ),
    _VolatileText(name="date", pattern=r"\b\d{4}-\d\d-\d\d\b", why="`Today's date` in prompts"),
    _VolatileText(name="date_slashed", pattern=r"\b\d{1,4}/\d{1,2}/\d{1,4}\b", why="dates of the locale"),
    _VolatileText(
        name="date_long",
        pattern=rf"\b(?:{_DAYS},? )?{_MONTHS} {{1,2}}\d{{1,2}}"
        r"(?:,? \d{4}| \d\d:\d\d(?::\d\d)?(?: \d{4})?)",
        why="prompts in words, `ls -l`, `date`",
    ),
    _VolatileText(name="clock", pattern=r"\b\d{1,2}:\d\d:\d\d(?:\.\d+)?(?: ?[AP]M)?", why="logs of tools"),
    _VolatileText(
        name="temporary",
        pattern=r"/(?:tmp|var/tmp|var/folders|private/tmp|run/user/\d+)/[\w.@+-]+(?:/[\w.@+-]+)*",
        why="files that agents and tools make for a moment",
    ),
    _VolatileText(
        name="duration",
        pattern=r"\b\d+(?:\.\d+)? ?(?:µs|us|ms|s|sec|secs|seconds?|minutes?)\b"
        r"|(?:(?<=duration_ms: )|(?<=duration_ms )|(?<=time: ))\d+(?:\.\d+)?",
        why="test runners, wall times of commands",
    ),
    _VolatileText(name="address", pattern=r"\b0x[0-9a-fA-F]{6,}\b", why="representations of objects"),
    _VolatileText(
        name="port", pattern=r"(?<=127\.0\.0\.1:)\d+|(?<=localhost:)\d+", why="servers that tests start"
    ),
    _VolatileText(
        name="process",
        pattern=r"(?i:(?<=pid )|(?<=pid: )|(?<=pgid: )|(?<=pid=)|(?<=session id ))\d+",
        why="process numbers",
    ),
    _VolatileText(name="chunk", pattern=r"(?<=Chunk ID: )\w+", why="pieces of a command's output"),
    _VolatileText(name="epoch", pattern=r"\b1[5-9]\d{8}(?:\d{3})?\b", why="Unix times"),
    _VolatileText(name="build", pattern=r"(?<=cch=)[0-9a-f]+", why="a checksum in a prompt"),
)
"""Pieces of text at any depth; at one place the first of them counts."""

_VOLATILE: Final = re.compile("|".join(f"(?P<{text.name}>{text.pattern})" for text in VOLATILE_TEXTS))

_KEPT_MEMBERS: Final = frozenset({"model"})
"""Names with a date in them that means something."""


def normalize_request(dialect: Dialect, body: bytes) -> bytes:
    """The request in one spelling, without what differs between two runs of the same agent.

    Raises:
        MALFORMED_MODEL_REQUEST: it is no JSON object, or nested too deep.
    """
    try:
        value = json.loads(body)
        if not isinstance(value, dict):
            raise MALFORMED_MODEL_REQUEST.error(f"body: expected a JSON object, found {type(value).__name__}")
        kept = {name: item for name, item in value.items() if name not in VOLATILE_MEMBERS[dialect]}
        normalized = _Normalizer().normalize(kept)
        return json.dumps(normalized, sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError) as error:
        raise MALFORMED_MODEL_REQUEST.error(f"body: expected a JSON object, found: {error}") from error


def normalize_value(value: Any) -> Any:
    """A part of a request, in the same way."""
    return _Normalizer().normalize(value)


class _Normalizer:
    def __init__(self) -> None:
        self._identifiers: dict[str, str] = {}

    def normalize(self, value: Any) -> Any:
        match value:
            case str():
                return _VOLATILE.sub(_replace, value)
            case list():
                return [self.normalize(item) for item in value]
            case dict():
                return {name: self._normalize_member(name, item) for name, item in value.items()}
            case _:
                return value

    def _normalize_member(self, name: str, value: Any) -> Any:
        if name in _KEPT_MEMBERS and isinstance(value, str):
            return value
        if name in IDENTIFIER_MEMBERS and isinstance(value, str):
            return self._identifiers.setdefault(value, f"id-{len(self._identifiers) + 1}")
        return self.normalize(value)


def _replace(match: re.Match[str]) -> str:
    return f"<{match.lastgroup}>"
