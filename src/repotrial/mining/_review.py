"""Statements in batches: one text file to edit, a yes for each that may count, and the yes on record (C9)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.errors import ErrorCode, RepoTrialError, UsageError
from repotrial._core.files import write_atomic
from repotrial.authoring import lock_contract
from repotrial.contract import CONTRACT_FILE, STATEMENT_FILE, LoadedContract, load_contract
from repotrial.mining._origin import MinedOrigin
from repotrial.mining._rows import MineRow, load_rows

_HEAD: Final = re.compile(r"^=== (?P<contract>\S+)$", re.MULTILINE)
_FIELD: Final = re.compile(r"(?P<name>approve|title|draft from|look at): ?(?P<value>.*)")
_YES: Final = frozenset({"yes", "y"})
_TITLE: Final = re.compile(r'^title = (?:"(?:[^"\\]|\\.)*"|\'[^\']*\')', re.MULTILINE)
_GUIDE: Final = """\
Edit title and statement of each contract below. Say what is wrong or wanted and how to see it; do not say
how the change is made. Names and messages under "look at" must be told, or no agent can know them.
Write yes after "approve:" where the statement may be handed to agents. What has no yes stays in the queue.
Lines that begin with "===" and the fields below them stay as they are.
"""

REVIEW_INVALID = ErrorCode(
    "review-invalid",
    UsageError,
    "A file of statements does not have the form that `contract review` writes.",
    hint="write it again with --write, and keep the lines that begin with `===` and the fields below them",
)


class ReviewedStatement(msgspec.Struct, frozen=True, kw_only=True):
    """One contract of a batch, as it came back."""

    contract: str
    title: str
    text: str
    is_approved: bool


class ReviewOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one contract of a batch."""

    contract: str
    state: str
    """`approved`, `edited`, `unchanged` or `refused`."""
    message: str = ""


def list_queue(directory: Path) -> list[MineRow]:
    """Proved contracts without a person's yes; certified ones first."""
    rows = [row for row in load_rows(directory).values() if row.contract and row.state in _WAITING]
    waiting = [row for row in rows if MinedOrigin.find_doubt(directory / str(row.contract)) is not None]
    return sorted(waiting, key=lambda row: (_WAITING.index(row.state), row.contract or ""))


_WAITING: Final = ("certified", "proved")


def render_batch(directory: Path, rows: Sequence[MineRow]) -> str:
    """The text to edit."""
    parts = [_GUIDE]
    for row in rows:
        loaded = load_contract(directory / str(row.contract))
        parts.append(
            f"=== {row.contract}\n"
            f"approve: no\n"
            f"title: {loaded.contract.title}\n"
            f"draft from: {row.statement}\n"
            f"look at: {'; '.join(row.flags) or 'nothing'}\n\n"
            f"{loaded.statement.strip()}\n"
        )
    return "\n".join(parts)


def parse_batch(text: str) -> list[ReviewedStatement]:
    """What came back from the editor.

    Raises:
        REVIEW_INVALID: a contract's fields are not as they were written.
    """
    parts = _HEAD.split(text)
    found = []
    for contract, part in zip(parts[1::2], parts[2::2], strict=True):
        head, _, body = part.lstrip("\n").partition("\n\n")
        matches = [_FIELD.fullmatch(line) for line in head.splitlines()]
        fields = {match["name"]: match["value"].strip() for match in matches if match is not None}
        if None in matches or not {"approve", "title"} <= fields.keys():
            raise REVIEW_INVALID.error(
                f"{contract}: expected `approve:` and `title:` below its name, found {head!r}"
            )
        found.append(
            ReviewedStatement(
                contract=contract,
                title=fields["title"],
                text=body.strip() + "\n",
                is_approved=fields["approve"].lower() in _YES,
            )
        )
    return found


def apply_batch(
    directory: Path,
    batch: Sequence[ReviewedStatement],
    *,
    by: str,
    verify: Callable[[LoadedContract], None],
) -> list[ReviewOutcome]:
    """Write titles and statements; record each yes, and lock what has one.

    Args:
        directory: Of the mine.
        batch: As it came back.
        by: Who reviewed.
        verify: Raises if a contract is not usable; one that is not gets no approval.

    Raises:
        REVIEW_INVALID: a contract is not one of this mine.
    """
    known = {row.contract for row in load_rows(directory).values()}
    for each in batch:
        if each.contract not in known:
            raise REVIEW_INVALID.error(f"expected a contract of {directory}, found {each.contract!r}")
    return [_apply(directory / each.contract, each, by=by, verify=verify) for each in batch]


def _apply(
    place: Path, reviewed: ReviewedStatement, *, by: str, verify: Callable[[LoadedContract], None]
) -> ReviewOutcome:
    before = ((place / CONTRACT_FILE).read_bytes(), (place / STATEMENT_FILE).read_bytes())
    _put_title(place / CONTRACT_FILE, reviewed.title)
    write_atomic(place / STATEMENT_FILE, reviewed.text.encode())
    is_same = before == ((place / CONTRACT_FILE).read_bytes(), (place / STATEMENT_FILE).read_bytes())
    if not reviewed.is_approved:
        return ReviewOutcome(contract=reviewed.contract, state="unchanged" if is_same else "edited")
    try:
        lock_contract(place, verify)
    except RepoTrialError as error:
        details = [str(each.message) for each in error.details if hasattr(each, "message")]
        why = details[0] if details else error.message
        return ReviewOutcome(contract=reviewed.contract, state="refused", message=why)
    origin = MinedOrigin.load(place) or MinedOrigin(commit="", statement_source="person")
    origin.approve(place, by=by)
    return ReviewOutcome(contract=reviewed.contract, state="approved")


def _put_title(path: Path, title: str) -> None:
    text = path.read_text(encoding="utf-8")
    quoted = msgspec.json.encode(title).decode()  # a JSON string is a TOML string
    write_atomic(path, _TITLE.sub(lambda _: f"title = {quoted}", text, count=1).encode())
