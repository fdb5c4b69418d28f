"""A finding: something wrong at a place of a document, before it is known which line that is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from repotrial._core.display import escape_unprintable

MAX_FINDINGS = 200
"""Most findings of one kind of look at a document; nobody reads more, and making them takes time."""

Place: TypeAlias = tuple[str | int, ...]
"""Keys and positions from the root of a document."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LAST_STEP = re.compile(r'(?:\[[0-9]+\]|\.?(?:"(?:[^"\\]|\\.)*"|[^."\[\]]+))\Z', re.DOTALL)
_LONGEST_STEP = 120


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing wrong with a document."""

    code: str
    place: Place
    message: str
    """What was expected and what was found."""
    hint: str = ""


def take_findings(findings: Iterable[Finding]) -> list[Finding]:
    """The first findings, and a word where there are more; what is not taken is not looked for."""
    taken = list(islice(findings, MAX_FINDINGS + 1))
    if len(taken) > MAX_FINDINGS:
        taken[-1] = Finding(code="more-problems", place=(), message="and more, not listed here")
    return taken


def render_field(place: Place) -> str:
    """A place as people write it: `checks[0].timeout_seconds`."""
    steps: list[str] = []
    for step in place:
        if isinstance(step, int):
            steps.append(f"[{step}]")
        else:
            steps.append(f".{_render_key(step)}" if steps else _render_key(step))
    return "".join(steps)


def enclosing_field(field: str) -> str:
    """The field around a field; the root is the empty string."""
    shorter = _LAST_STEP.sub("", field)
    return shorter if len(shorter) < len(field) else ""


def _render_key(key: str) -> str:
    if len(key) > _LONGEST_STEP:
        key = key[:_LONGEST_STEP] + "…"
    if _BARE_KEY.fullmatch(key):
        return key
    return escape_unprintable(json.dumps(key, ensure_ascii=False))
