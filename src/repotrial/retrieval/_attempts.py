"""Attempts that enter no figure: they were broken off, and the same run was conducted again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

_MOST_NAMES: Final = 10


class LeftOutAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A run directory that does not count."""

    run: str
    """Its name."""
    config_name: str
    """The configuration; `unknown` where nothing says it."""
    task: str
    """The task; `unknown` where nothing says it."""
    reason: str
    """Why it does not count."""


FindLeftOut: TypeAlias = Callable[[Sequence[Path]], Mapping[Path, LeftOutAttempt]]
"""Of these directories those that do not count."""


def leave_none_out(_runs: Sequence[Path]) -> Mapping[Path, LeftOutAttempt]:
    """Whatever is there counts."""
    return {}


def describe_left_out(attempts: Iterable[LeftOutAttempt]) -> Iterator[str]:
    """A sentence for each reason: how many, why, and which."""
    by_reason: dict[str, list[str]] = {}
    for attempt in attempts:
        by_reason.setdefault(attempt.reason, []).append(attempt.run)
    for reason, names in sorted(by_reason.items()):
        more = len(names) - _MOST_NAMES
        shown = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        yield f"Attempts left out, as by repotrial run summary: {len(names)} {reason} ({shown})."
