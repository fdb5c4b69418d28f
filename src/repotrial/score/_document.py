"""What every document of this package is made of."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count, canonical_bytes
from repotrial._core.display import neutralize

GateId: TypeAlias = Literal["G1", "G2", "G3", "G4"]
"""Patch validity, build and static checks, functional acceptance, safety and policy (S2)."""

GATES: tuple[GateId, ...] = ("G1", "G2", "G3", "G4")

Verdict: TypeAlias = Literal["passed", "failed", "errored"]
"""pass, fail or error, after reruns (P3, S4)."""

Line = Annotated[str, msgspec.Meta(min_length=1)]
"""A sentence for people; no verdict reads one (S5)."""

_MAX_LINE_CHARACTERS = 500


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every part of a document: immutable, and strict about its keys."""


class EventPointer(Document, frozen=True, kw_only=True, tag_field="kind", tag="event"):
    """An event of the trace."""

    seq: Count
    """Its position in the trace."""
    type: Line
    """Its type."""
    check: str | None = None
    """The contract's check that it executed; null where it is no execution of a check."""
    command: tuple[str, ...] = ()
    """Program and arguments that it records; empty where it records none."""


class ChangePointer(Document, frozen=True, kw_only=True, tag_field="kind", tag="change"):
    """A place in `change.patch`."""

    path: str
    """The file that is changed there."""


EvidencePointer: TypeAlias = EventPointer | ChangePointer
"""Where to look."""


def build_line(text: str) -> str:
    """Names of files and tests may be an agent's invention: what a line shows is safe to print."""
    return neutralize(text, max_characters=_MAX_LINE_CHARACTERS) or "…"


def render_document(document: Document) -> bytes:
    """A document as a file: the same content gives the same bytes."""
    return msgspec.json.format(canonical_bytes(msgspec.to_builtins(document)), indent=1) + b"\n"
