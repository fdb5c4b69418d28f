"""One model of a report, whatever it is about: pages, Markdown and JSON are written from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from repotrial.report.figures.canvas import Cell, Figure


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under columns."""

    title: str
    """What it shows; may be empty."""
    columns: tuple[str, ...]
    """Their names."""
    rows: tuple[tuple[Cell, ...], ...]
    """One cell for each column; what is absent says why."""
    note: str = ""
    """What must be known to read it."""
    name: str = ""
    """For anchors: each cell has one; empty if cells need none."""
    sources: tuple[str, ...] = ()
    """For each row the name of what it was computed from (X5); empty if the section says it."""
    column_sources: tuple[str, ...] = ()
    """For each column instead; empty where none."""
    anchors: tuple[str, ...] = ()
    """For each row where it leads to on the page; empty if nowhere."""
    is_sortable: bool = False
    """Whether readers may sort and filter it."""
    is_folded: bool = False
    """Whether it is opened on request."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the report."""

    name: str
    """For anchors."""
    title: str
    """Its heading."""
    words: tuple[str, ...] = ()
    """Paragraphs before its tables."""
    tables: tuple[Table, ...] = ()
    """In order."""
    figures: tuple[Figure, ...] = ()
    """Before the tables."""
    is_list: bool = False
    """Whether the paragraphs are points of a list."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Something that numbers were computed from."""

    name: str
    """How rows refer to it."""
    file: str
    """Where it is, as the command was told."""
    digest: str
    """Of what it held when the report was made."""
    words: str = ""
    """What the digest is of."""


class GateView(msgspec.Struct, frozen=True, kw_only=True):
    """One gate of one run."""

    gate: str
    name: str
    outcome: str
    why: tuple[str, ...]


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One run among many."""

    anchor: str
    title: str
    status: str
    gates: tuple[GateView, ...]
    facts: tuple[tuple[str, Cell], ...]
    """Names and values."""
    changed: tuple[str, ...]
    """Files, with added and removed lines."""
    left_out: int = 0
    """So many more files are changed."""
    page: str = ""
    """The run's own page beside this one; empty if there is none."""


class ReportPart(msgspec.Struct, frozen=True, kw_only=True):
    """What a report says of one kind of thing; a report has one or several."""

    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]
    runs: tuple[RunView, ...] = ()
    sources: tuple[Source, ...]


class ReportDocument(msgspec.Struct, frozen=True, kw_only=True):
    """All that a report says."""

    schema: Literal["repotrial/document@1"] = "repotrial/document@1"
    title: str
    lead: tuple[str, ...]
    """The finding in a sentence with its uncertainty, and what it does not show."""
    sections: tuple[Section, ...]
    runs: tuple[RunView, ...] = ()
    """Each of them, after the sections."""
    sources: tuple[Source, ...] = ()
    """All that numbers were computed from."""
    left_out: str = ""
    """What a shared report does not have; empty if nothing was left out."""


def join_parts(parts: Sequence[ReportPart], *, is_shared: bool) -> ReportDocument:
    """One report of all parts, in their order."""
    return ReportDocument(
        title="; ".join(part.title for part in parts),
        lead=tuple(words for part in parts for words in part.lead),
        sections=tuple(section for part in parts for section in part.sections),
        runs=tuple(run for part in parts for run in part.runs),
        sources=tuple(source for part in parts for source in part.sources),
        left_out=SHARED if is_shared else "",
    )


SHARED = (
    "This report was made to be shared: source code, prompts, outputs of programs and models, and reasons "
    "that may quote them are left out. The run directories give the whole report, without --share."
)
