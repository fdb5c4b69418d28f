"""Verbs on runs that are kept for years."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from repotrial.archive import AppliedRun, apply_plan, approve_plan, build_plan, load_approved_plan, write_plan
from repotrial.conduct import verify_no_peek
from repotrial.score import find_run_directories
from repotrial.signing import PublicKey, SigningKey
from repotrial.trace import RunVerification


class PlannedArchive(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that was written, in short."""

    plan: str
    tier: str
    runs: int
    gone_files: int
    gone_bytes: int
    not_shown: dict[str, tuple[str, ...]]
    """By run directory: what it could not show any more."""


class ArchivedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What the custody log of a run accounts for."""

    tier: str
    approved_by: str
    reason: str
    gone_files: int
    is_finished: bool
    """False if the move was cut in the middle; the same command finishes it."""
    not_shown: tuple[str, ...]


def plan_archive(places: Sequence[Path], out: Path) -> PlannedArchive:
    """Write a plan that moves runs to the minimal tier; nothing else is changed.

    Raises:
        ARCHIVE_REFUSED: some runs cannot be moved; all of them are named.
        ARCHIVE_WRITE: the plan cannot be written.
    """
    for place in places:
        verify_no_peek(place)
    runs = [run for place in places for run in find_run_directories(place)]
    plan = build_plan(runs, beside=out.parent)
    write_plan(plan, out)
    gone = sum(len(run.before) - len(run.after) for run in plan.runs)
    return PlannedArchive(
        plan=str(out),
        tier=plan.tier,
        runs=len(plan.runs),
        gone_files=gone,
        gone_bytes=plan.gone_bytes,
        not_shown={run.directory: run.not_shown for run in plan.runs},
    )


def approve_archive(plan: Path, *, approved_by: str, reason: str, key_file: Path) -> str:
    """Sign that a plan may be carried out; the approval's file.

    Raises:
        PLAN_INVALID: there is no plan.
    """
    return str(approve_plan(plan, SigningKey.load(key_file), approved_by=approved_by, reason=reason))


def apply_archive(plan: Path, *, key_file: Path, trusted_keys: Sequence[PublicKey] = ()) -> list[AppliedRun]:
    """Carry out an approved plan; where it was cut, the same again goes on.

    Args:
        plan: The plan; its approval lies beside it.
        key_file: The key that signs the receipts.
        trusted_keys: Whose approval is believed, beside that of `key_file`.

    Raises:
        PLAN_NOT_APPROVED: no trusted key approved exactly this plan.
        ARCHIVE_REFUSED: runs are not as they were when the plan was made.
        ARCHIVE_WRITE: the machine does not let us.
    """
    key = SigningKey.load(key_file)
    found, approval, digest = load_approved_plan(plan, [key.public_key, *trusted_keys])
    return apply_plan(found, approval, digest, beside=plan.parent, key=key)


def describe_archived(found: RunVerification) -> ArchivedRun | None:
    """What was taken out of a run after it was sealed, as its custody log says; None if nothing was."""
    last = found.custody.last
    if last is None:
        return None
    return ArchivedRun(
        tier=last.tier,
        approved_by=last.approved_by,
        reason=last.reason,
        gone_files=len(found.custody.gone),
        is_finished=last.action == "done",
        not_shown=last.not_shown,
    )
