"""Verbs on mines: contracts from the history of a repository, and the statements that a person approves."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from repotrial.api._certification import build_proof_settings
from repotrial.api._contracts import verify_usable
from repotrial.api._machine import MachineSettings
from repotrial.mining import (
    Issues,
    Mine,
    MinePlan,
    MineRow,
    MineSettings,
    ReviewOutcome,
    mine_history,
    plan_mine,
)
from repotrial.signing import SigningKey


class MineRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is mined, and how much of it."""

    source: str
    directory: Path
    machine: MachineSettings
    key_file: Path
    """The private key that seals the runs and signs the certificates; made on first use."""
    limit: int
    revision: str = "HEAD"
    history: int = 500
    """How many commits are looked at, newest first."""
    jobs: int = 1
    seconds_per_candidate: int = 900
    is_certified: bool = True
    is_embedded: bool = False
    test_globs: tuple[str, ...] = ()
    issues: Path | None = None
    cutoff: dt.date | None = None


def mine_contracts(
    request: MineRequest, on_plan: Callable[[MinePlan], bool], on_row: Callable[[MineRow, int], None]
) -> Mine:
    """Mine a history.

    Args:
        request: What.
        on_plan: Told what will be done before it is; says whether to go on.
        on_row: Told of every candidate that was decided, and how many are left.

    Raises:
        RepoTrialError: the repository, the issues or the rows of an earlier call cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="repotrial-mine-") as runs:
        settings = MineSettings(
            source=request.source,
            directory=request.directory,
            proving=build_proof_settings(request.machine, lambda _: None),
            key=SigningKey.load(request.key_file),
            runs=Path(runs),
            limit=request.limit,
            revision=request.revision,
            history=request.history,
            jobs=request.jobs,
            seconds_per_candidate=request.seconds_per_candidate,
            is_certified=request.is_certified,
            is_embedded=request.is_embedded,
            test_globs=request.test_globs,
            issues=Issues() if request.issues is None else Issues.load(request.issues),
            cutoff=request.cutoff,
            on_row=on_row,
        )
        plan = plan_mine(settings)
        if on_plan(plan):
            mine_history(plan, settings)
    return Mine(request.directory)


def apply_review(directory: Path, text: str, *, by: str) -> list[ReviewOutcome]:
    """Take what came back from the editor; a yes to a usable contract is recorded with who gave it."""
    return Mine(directory).apply_batch(text, by=by, verify=verify_usable)
