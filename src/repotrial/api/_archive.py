"""Verbs on runs that are kept for years."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from repotrial._core.files import write_atomic
from repotrial._core.private_file import read_private_file
from repotrial.archive import (
    AccessReport,
    AppliedRun,
    OpenedOriginal,
    OriginalsRequest,
    apply_plan,
    approve_plan,
    build_plan,
    load_approved_plan,
    read_access_log,
    write_plan,
)
from repotrial.conduct import verify_no_peek
from repotrial.redaction import AgeIdentity
from repotrial.score import find_run_directories
from repotrial.signing import PublicKey, SigningKey
from repotrial.trace import RunVerification

_MAX_IDENTITY_BYTES = 64 * 1024


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


class WrittenOriginal(msgspec.Struct, frozen=True, kw_only=True):
    """An original that was opened."""

    digest: str
    file: str
    events: tuple[int, ...]
    """Where its digest stands in the trace."""


def open_originals(
    run: Path,
    *,
    vaults: Path,
    identity_file: Path,
    reason: str,
    key_file: Path,
    out: Path,
    digests: Sequence[str] = (),
) -> list[WrittenOriginal]:
    """Put a request on record, then write the originals of redacted texts into a directory.

    Args:
        run: The run directory.
        vaults: The directory that the custody policy names.
        identity_file: Of a recipient, as `age-keygen` writes it.
        reason: Why; it stands in the access log.
        key_file: The key that signs the request.
        out: Where the texts go, readable by their owner alone.
        digests: Of single originals; empty: all of them.

    Raises:
        VAULT_MISSING: the run has no vault there.
        ACCESS_REFUSED: the identity is none of the recipients'.
        ACCESS_LOG_INVALID: the log does not hold, so nothing is opened.
    """
    text = read_private_file(identity_file, max_bytes=_MAX_IDENTITY_BYTES).decode("ascii", "replace")
    request = OriginalsRequest(
        run=run,
        vaults=vaults,
        reason=reason,
        key=SigningKey.load(key_file),
        digests=frozenset(digests),
    )
    opened = request.open(AgeIdentity(text, name=str(identity_file)))
    return [_write_original(original, out) for original in opened]


def _write_original(original: OpenedOriginal, out: Path) -> WrittenOriginal:
    place = out / original.digest.removeprefix("sha256:")
    write_atomic(place, original.data, mode=0o600)
    return WrittenOriginal(digest=original.digest, file=str(place), events=original.events)


def shred_originals(
    places: Sequence[Path], *, vaults: Path, by: str, reason: str, key_file: Path
) -> dict[str, int]:
    """Take the originals of runs away, on record; how many went, by run directory.

    Raises:
        VAULT_MISSING: a run has no vault there.
        ACCESS_LOG_INVALID: a log does not hold.
    """
    key = SigningKey.load(key_file)
    runs = [run for place in places for run in find_run_directories(place)]
    return {
        str(run): OriginalsRequest(run=run, vaults=vaults, reason=reason, key=key).shred(by=by)
        for run in runs
    }


def show_access(run: Path, *, vaults: Path, trusted_keys: Sequence[PublicKey] = ()) -> AccessReport:
    """Who asked for originals of a run, why, and whether the log holds.

    Raises:
        VAULT_MISSING: the run has no vault there.
        ACCESS_LOG_INVALID: the log does not hold, or a key is not believed.
    """
    return read_access_log(run, vaults, trusted_keys or None)


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
