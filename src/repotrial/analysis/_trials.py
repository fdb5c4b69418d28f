"""Trials in a flat table, whatever harness they come from: one line for each, all problems at once."""

from __future__ import annotations

import csv
import difflib
import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.display import neutralize
from repotrial._core.errors import ContractError, ErrorCode, UsageError

TrialOutcome: TypeAlias = Literal["success", "failure", "error", "invalid", "indeterminate"]
_OUTCOMES: Final = get_args(TrialOutcome)[:-1]
"""Those of a table: only a plan says what is missing."""
_REQUIRED: Final = ("task", "arm", "repeat", "outcome")
COLUMNS: Final = (*_REQUIRED, "cost_usd", "wall_seconds")
"""Of a table of trials; the cells of the last two may be empty, and the columns may be left out."""
_MOST_BYTES: Final = 256 * 1024**2
_MOST_LISTED: Final = 50
_MOST_REPEAT: Final = 10**9

TABLE_INVALID = ErrorCode(
    "table-invalid",
    ContractError,
    "A table of trials has lines that are none. All of them are listed, with their numbers.",
    hint=f"mend the lines; the first one must be: {','.join(COLUMNS)}",
)
TABLE_UNREADABLE = ErrorCode(
    "table-unreadable",
    UsageError,
    "A table of trials cannot be read.",
    hint="name a CSV file in UTF-8",
)


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of one arm on one task."""

    task: str
    """The sampling unit."""
    arm: str
    """What was tried."""
    repeat: int
    """Which of the arm's trials on the task it is."""
    outcome: TrialOutcome
    """How it ended."""
    cost_usd: float | None = None
    """Null if it is not known."""
    wall_seconds: float | None = None
    """Null if it is not known."""


class TrialTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table as it was read."""

    file: str
    digest: Digest
    trials: tuple[Trial, ...]
    origin: str = "the table"
    """Whose word the trials are."""


def read_trials(path: Path) -> TrialTable:
    """Read a table of trials.

    Raises:
        TABLE_UNREADABLE: it is no file, too large or not UTF-8.
        TABLE_INVALID: lines of it are no trials.
    """
    data = _read(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TABLE_UNREADABLE.error(
            f"{path}:{line}: expected UTF-8, found byte {data[error.start]:#04x}"
        ) from error
    problems: list[str] = []
    trials = tuple(_parse(text, problems))
    if problems:
        shown = [f"  {path.name}:{problem}" for problem in problems[:_MOST_LISTED]]
        if len(problems) > len(shown):
            shown.append(f"  … and {len(problems) - len(shown)} more")
        noun = "problem" if len(problems) == 1 else "problems"
        message = f"{path}: expected a table of trials, found {len(problems)} {noun}:"
        raise TABLE_INVALID.error("\n".join([message, *shown]), details=problems)
    return TrialTable(file=path.name, digest=digest_bytes(data), trials=trials)


def _read(path: Path) -> bytes:
    if not path.is_file():  # never wait on a pipe
        raise TABLE_UNREADABLE.error(f"{path}: expected a CSV file, found none")
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise TABLE_UNREADABLE.error(f"{path}: expected a CSV file, found: {error}") from error
    if len(data) > _MOST_BYTES:
        raise TABLE_UNREADABLE.error(f"{path}: expected at most {_MOST_BYTES} bytes, found more")
    return data


def _parse(text: str, problems: list[str]) -> Iterator[Trial]:
    # A NUL byte ends the reader of some Python versions.
    reader = csv.reader(io.StringIO(text.replace("\0", "\N{REPLACEMENT CHARACTER}"), newline=""), strict=True)
    seen: dict[tuple[str, str, int], int] = {}
    places: dict[str, int] | None = None
    try:
        for cells in reader:
            if places is None:
                places = _place_columns(cells, problems)
                if not places:
                    return
                continue
            if not cells:  # an empty line says nothing
                continue
            trial = _build_trial(cells, places, reader.line_num, problems)
            if trial is None:
                continue
            key = (trial.task, trial.arm, trial.repeat)
            first = seen.setdefault(key, reader.line_num)
            if first != reader.line_num:
                problems.append(
                    f"{reader.line_num}: expected each task, arm and repeat once, found those of line "
                    f"{first} again"
                )
            yield trial
    except csv.Error as error:
        problems.append(f"{reader.line_num}: expected CSV, found: {error}")
    if places is None:
        problems.append(f"1: expected the header {','.join(COLUMNS)}, found an empty file")
    elif not seen and not problems:
        problems.append("2: expected at least one trial, found none")


def _place_columns(cells: Sequence[str], problems: list[str]) -> dict[str, int]:
    names = [cell.strip() for cell in cells]
    before = len(problems)
    problems += [f"1: expected a column {name}, found none" for name in _REQUIRED if name not in names]
    for place, name in enumerate(names):
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(COLUMNS)}"
            problems.append(f"1: expected no column {_show(name)}: {hint}")
        elif names.index(name) != place:
            problems.append(f"1: expected each column once, found {name} again")
    return {} if len(problems) > before else {name: place for place, name in enumerate(names)}


def _build_trial(
    cells: Sequence[str], places: dict[str, int], line: int, problems: list[str]
) -> Trial | None:
    if len(cells) != len(places):
        problems.append(f"{line}: expected {len(places)} cells, found {len(cells)}")
        return None
    found = {name: cells[place].strip() for name, place in places.items()}
    before = len(problems)
    problems += [
        f"{line}: {name}: expected a name, found nothing" for name in ("task", "arm") if not found[name]
    ]
    outcome = next((word for word in _OUTCOMES if word == found["outcome"]), None)
    if outcome is None:
        expected = ", ".join(_OUTCOMES)
        problems.append(f"{line}: outcome: expected one of {expected}, found {_show(found['outcome'])}")
    repeat = _parse_repeat(found["repeat"])
    if repeat is None:
        problems.append(f"{line}: repeat: expected a whole number from 0, found {_show(found['repeat'])}")
    amounts: list[float | None] = []
    for name in ("cost_usd", "wall_seconds"):
        amount = _parse_amount(found.get(name, ""))
        if amount is not None and math.isnan(amount):
            problems.append(
                f"{line}: {name}: expected a number of at least 0 or nothing, found {_show(found[name])}"
            )
        amounts.append(amount)
    if len(problems) > before or outcome is None or repeat is None:
        return None
    return Trial(
        task=found["task"],
        arm=found["arm"],
        repeat=repeat,
        outcome=outcome,
        cost_usd=amounts[0],
        wall_seconds=amounts[1],
    )


def _parse_repeat(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_REPEAT))
    return int(text) if is_number else None


def _parse_amount(text: str) -> float | None:
    """NaN for what is no amount."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if value >= 0 and math.isfinite(value) else math.nan


def _show(text: str) -> str:
    return repr(neutralize(text, max_characters=40))
