"""What a source of ground truth says, and what was looked at on the way to it."""

from __future__ import annotations

from typing import Literal

import msgspec

from repotrial.retrieval._documents import Chunk, Confidence, Symbol


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What one file says about what matters; it may say nothing of use."""

    files: tuple[str, ...]
    """Without repeats, as spelled; `repo::path` where several repositories are meant."""
    source: str
    """Which form of which file."""
    confidence: Confidence
    chunks: tuple[Chunk, ...] = ()
    names_edits: bool = False
    """Whether the files are those that a right change edits (R6)."""
    edits: tuple[str, ...] = ()
    """Those that a right change edits, where they are stated apart."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the chain, for `--explain`."""

    path: str
    """Relative to the task's directory."""
    outcome: Literal["absent", "unreadable", "nothing", "taken", "not-reached"]
    detail: str = ""


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """What won, and why."""

    claim: Claim | None
    """Null where no source says anything."""
    symbols: tuple[Symbol, ...]
    attempts: tuple[Attempt, ...]
    """All steps, in order."""
