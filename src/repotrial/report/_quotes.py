"""The very lines that gates and tags point at (S5), each shown once on a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from repotrial._core.errors import EvidenceError
from repotrial.score import EvidencePointer, QuotedLines, ScoreCard, StreamPointer, read_lines
from repotrial.trace import RunPaths


class Quote(msgspec.Struct, frozen=True, kw_only=True):
    """Lines with a place on the page."""

    anchor: str
    lines: QuotedLines

    @property
    def place(self) -> str:
        """Where they stand, in words."""
        pointer = self.lines.pointer
        end = pointer.offset_bytes + pointer.length_bytes
        which = f" of command {pointer.runner}" if pointer.runner > 1 else ""
        line = f", line {self.lines.line:,}" if self.lines.line else ""
        return f"{pointer.stream}{which}{line}, bytes {pointer.offset_bytes:,} to {end:,}"


class QuotesPage(msgspec.Struct, frozen=True, kw_only=True):
    """All quotes of a page."""

    anchors: dict[StreamPointer, str]
    """Where a pointer leads."""
    gates: tuple[tuple[Quote, ...], ...]
    """Shown with each gate, in order: those that no gate before it has."""
    tags: tuple[tuple[Quote, ...], ...]
    """Shown with each tag: those that neither a gate nor a tag before it has."""


def build_quotes(paths: RunPaths, card: ScoreCard) -> QuotesPage:
    """Open all lines; none where the trace cannot be read, which the verdict says."""
    evidence = (*(gate.evidence for gate in card.gates), *(tag.evidence for tag in card.tags))
    groups = [[*_iter_lines(pointers)] for pointers in evidence]
    try:
        opened = read_lines(paths, [pointer for group in groups for pointer in group])
    except EvidenceError:
        opened = ()
    quotes = {
        lines.pointer: Quote(anchor=f"l{number}", lines=_hide_place(lines, paths))
        for number, lines in enumerate(opened)
    }
    shown: set[StreamPointer] = set()
    parts = []
    for group in groups:
        new = [pointer for pointer in group if pointer in quotes and pointer not in shown]
        shown.update(new)
        parts.append(tuple(quotes[pointer] for pointer in new))
    return QuotesPage(
        anchors={pointer: quote.anchor for pointer, quote in quotes.items()},
        gates=tuple(parts[: len(card.gates)]),
        tags=tuple(parts[len(card.gates) :]),
    )


def _iter_lines(evidence: Iterable[EvidencePointer]) -> Iterator[StreamPointer]:
    return (pointer for pointer in evidence if isinstance(pointer, StreamPointer))


def _hide_place(lines: QuotedLines, paths: RunPaths) -> QuotedLines:
    """The same wherever the run directory lies."""
    return msgspec.structs.replace(lines, lost=lines.lost.replace(f"{paths.root}/", ""))
