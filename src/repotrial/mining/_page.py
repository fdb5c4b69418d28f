"""The page of a mine: how far candidates got, why not further, and what is left for a person to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from repotrial._core.absence import NotComputable
from repotrial._core.files import write_atomic
from repotrial.mining._origin import MinedOrigin
from repotrial.mining._rows import MineRow, load_rows
from repotrial.report import ReportDocument, Section, Table, render_document

PAGE_FILE: Final = "mine.html"
_REACHED: Final = {
    "left-out": 0,
    "refused": 1,
    "unproved": 2,
    "proved": 3,
    "not-certified": 3,
    "certified": 4,
}
"""By state: how many steps of the funnel a candidate has behind it."""
_MEANING: Final = {
    "revert": "it takes an earlier change back",
    "reverted": "a later change takes it back",
    "near-duplicate": "the same files change with the same words",
    "too-large": "more files or lines than one task should have",
    "does-not-run": "its tests do not run here",
    "no-test-turns": "no test fails before it and passes after it",
    "needs-network": "its tests want the network",
    "too-many-fail": "many tests fail with the change itself",
    "nothing-stable": "no test turns every time",
    "too-slow": "its tests take longer than the limit",
}


def list_ready(directory: Path, rows: Iterable[MineRow]) -> list[str]:
    """Contracts that are certified and whose statement a person has approved."""
    return [
        row.contract
        for row in rows
        if row.state == "certified"
        and row.contract is not None
        and MinedOrigin.find_doubt(directory / row.contract) is None
    ]


def write_page(directory: Path) -> Path:
    """Write `mine.html` from the rows that are there."""
    rows = list(load_rows(directory).values())
    ready = list_ready(directory, rows)
    path = directory / PAGE_FILE
    write_atomic(path, render_document(build_mine_document(rows, ready), "html"))
    return path


def build_mine_document(rows: Sequence[MineRow], ready: Sequence[str]) -> ReportDocument:
    """What the page says."""
    counts = count_funnel(rows, len(ready))
    certified = f"{counts['certified']} are certified (quick), {len(ready)} ready"
    lead = f"{counts['tried']} candidates were tried; {certified}."
    rule = (
        "A contract is ready when it is certified and a person has approved its statement; a suite takes "
        "full certificates only (`repotrial suite lock --certify`)."
    )
    return ReportDocument(
        title="Contracts from a history",
        lead=(lead, rule),
        sections=(
            _build_funnel(counts),
            _build_reasons(rows),
            _build_queue(rows, ready),
            _build_candidates(rows),
        ),
    )


def count_funnel(rows: Iterable[MineRow], ready: int) -> dict[str, int]:
    """How many candidates got past each step."""
    reached = Counter(_REACHED[row.state] for row in rows)
    return {
        "candidates": reached.total(),
        "tried": sum(count for step, count in reached.items() if step >= 1),
        "runnable": sum(count for step, count in reached.items() if step >= 2),  # noqa: PLR2004
        "turning": sum(count for step, count in reached.items() if step >= 3),  # noqa: PLR2004
        "certified": reached[4],
        "ready": ready,
    }


_STEPS: Final = {
    "candidates": "change code and tests",
    "tried": "not left out: no revert, no duplicate, not too large",
    "runnable": "can become a contract",
    "turning": "tests turn red to green, the same way every time",
    "certified": "certified (quick): reference, cheats, leaks, stability",
    "ready": "a person has approved the statement",
}


def _build_funnel(counts: dict[str, int]) -> Section:
    first = max(counts["candidates"], 1)
    table = Table(
        title="",
        columns=("step", "candidates", "of all", "what it means"),
        rows=tuple(
            (name, counts[name], f"{100 * counts[name] / first:.0f} %", _STEPS[name]) for name in _STEPS
        ),
    )
    return Section(name="funnel", title="Funnel", tables=(table,))


def _build_reasons(rows: Sequence[MineRow]) -> Section:
    counted = Counter((row.state, row.reason) for row in rows if row.reason)
    table = Table(
        title="",
        columns=("state", "reason", "candidates", "what it means"),
        rows=tuple(
            (state, reason, count, _MEANING.get(reason, "see the candidate's own message"))
            for (state, reason), count in counted.most_common()
        ),
    )
    return Section(name="reasons", title="Why the others did not get further", tables=(table,))


def _build_queue(rows: Sequence[MineRow], ready: Sequence[str]) -> Section:
    waiting = [row for row in rows if row.state == "certified" and row.contract not in ready]
    table = Table(
        title="",
        columns=("contract", "draft from", "look at"),
        rows=tuple((row.contract or "", row.statement or "", "; ".join(row.flags)) for row in waiting),
    )
    words = ("`repotrial contract review DIR` opens them in your editor, several at a time.",)
    return Section(name="queue", title="Statements to write and approve", words=words, tables=(table,))


def _build_candidates(rows: Sequence[MineRow]) -> Section:
    table = Table(
        title="",
        columns=("commit", "month", "path", "kind", "size", "state", "reason", "turn", "stay", "message"),
        rows=tuple(
            (
                *(row.commit[:10], row.month, row.path, row.kind, row.size, row.state, row.reason),
                row.turning or NotComputable(reason="not proved"),
                row.staying or NotComputable(reason="none, or not proved"),
                row.message or row.subject,
            )
            for row in rows
        ),
        is_sortable=True,
    )
    return Section(name="candidates", title="All candidates", tables=(table,))
