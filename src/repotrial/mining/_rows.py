"""`mine.jsonl`: a row for every candidate, appended as it is decided; the last row of a commit counts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.contract import TaskKind
from repotrial.mining._candidates import SizeClass

ROWS_FILE: Final = "mine.jsonl"

RowState: TypeAlias = Literal["left-out", "refused", "unproved", "proved", "certified", "not-certified"]
"""`refused`: it cannot become a contract; `unproved`: its tests do not turn here; `proved`: they do."""
StatementSource: TypeAlias = Literal["issue", "message", "changelog", "person"]

MINE_ROWS_INVALID = ErrorCode(
    "mine-rows-invalid",
    UsageError,
    "The rows of an earlier `contract mine` cannot be read.",
    hint="mine into another directory, or take the line out that is named",
)


class MineRow(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one candidate."""

    commit: str
    subject: str
    month: str
    path: str
    kind: TaskKind
    size: SizeClass
    lines: int
    state: RowState
    reason: str = ""
    """A stable word: why it got no further; empty if nothing stands against it."""
    message: str = ""
    """The same in a sentence."""
    contract: str | None = None
    """Its directory below the output directory."""
    turning: int = 0
    staying: int = 0
    left_out_tests: dict[str, int] = {}
    """By reason: tests that the inventory does not name."""
    flags: tuple[str, ...] = ()
    """What a reader should look at; each is `code: what was found`."""
    statement: StatementSource | None = None
    """Where the draft of its statement is from."""
    seconds: float = 0.0
    executions: int = 0


def load_rows(directory: Path) -> dict[str, MineRow]:
    """By commit: its last row.

    Raises:
        MINE_ROWS_INVALID: a line is none.
    """
    path = directory / ROWS_FILE
    if not path.is_file():
        return {}
    rows: dict[str, MineRow] = {}
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line, type=MineRow)
        except msgspec.DecodeError as error:
            if number == len(lines):
                continue  # the last line was being written when the command was ended
            raise MINE_ROWS_INVALID.error(f"{path}: line {number}: expected a row, found: {error}") from error
        rows[row.commit] = row
    return rows


def append_row(directory: Path, row: MineRow) -> None:
    """Add a row; a half-written line before it, left by a command that was ended, is closed first."""
    path = directory / ROWS_FILE
    data = path.read_bytes()[-1:] if path.is_file() else b"\n"
    with path.open("ab") as stream:
        stream.write((b"" if data in (b"", b"\n") else b"\n") + msgspec.json.encode(row) + b"\n")


def count_states(rows: Iterable[MineRow]) -> dict[str, int]:
    """How many rows are in each state."""
    counted: dict[str, int] = {}
    for row in rows:
        counted[row.state] = counted.get(row.state, 0) + 1
    return counted
