"""Carrying out an approved plan: recorded before it begins and after it ends; it may be cut at any point."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from repotrial import __version__
from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import AgentError
from repotrial._core.files import describe_refusal, sync_directory, write_atomic
from repotrial.archive._plan import (
    ARCHIVE_REFUSED,
    ARCHIVE_WRITE,
    Approval,
    ArchivePlan,
    PlannedRun,
)
from repotrial.change import read_change
from repotrial.score import judge_run, write_verdict
from repotrial.signing import SigningKey
from repotrial.trace import CUSTODY_KIND, CustodyEntry, RunPaths, check_run, iter_withdrawn_lines, list_sealed

_TRACE: Final = "trace.jsonl"


class AppliedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one run."""

    directory: str
    run_id: str
    tier: str
    removed: int
    """Files that went."""
    was_done: bool
    """Whether an earlier command had done all of it."""


def apply_plan(
    plan: ArchivePlan, approval: Approval, plan_digest: Digest, *, beside: Path, key: SigningKey
) -> list[AppliedRun]:
    """Move every run of an approved plan; what was done before is not done again.

    Raises:
        ARCHIVE_REFUSED: runs are not as they were when the plan was made; nothing was changed.
        ARCHIVE_WRITE: the machine does not let us; the same command goes on where this one ended.
    """
    problems = []
    for run in plan.runs:
        problem = _find_difference(RunPaths(beside / run.directory), run, plan_digest)
        if problem is not None:
            problems.append(f"{run.directory}: {problem}")
    if problems:
        raise ARCHIVE_REFUSED.error("\n".join(problems), details=problems)
    return [_Mover(plan, run, approval, plan_digest, beside, key).move() for run in plan.runs]


def _find_difference(paths: RunPaths, planned: PlannedRun, plan_digest: Digest) -> str | None:
    if not paths.seal.is_file() or digest_bytes(paths.seal.read_bytes()) != planned.seal_digest:
        return "expected the run that was planned, found another or none"
    found = check_run(paths, trusted_keys=None)
    if not found.seal_report.is_intact:
        return "expected a sealed run that holds, found one that does not"
    last = found.custody.last
    if last is not None:
        return None if last.plan_digest == plan_digest else "expected a run in full, found it archived"
    return None if list_sealed(paths) == planned.before else "expected the planned files, found others"


class _Mover:
    """Moves one run."""

    def __init__(
        self,
        plan: ArchivePlan,
        planned: PlannedRun,
        approval: Approval,
        plan_digest: Digest,
        beside: Path,
        key: SigningKey,
    ) -> None:
        self._plan = plan
        self._planned = planned
        self._approval = approval
        self._plan_digest = plan_digest
        self._paths = RunPaths(beside / planned.directory)
        self._key = key

    def move(self) -> AppliedRun:
        entries = check_run(self._paths, trusted_keys=None).custody.entries
        was_done = bool(entries) and entries[-1].action == "done"
        try:
            if not entries:
                self._write_verdict()
                self._record("begun")
            if not was_done:
                self._remove()
                self._write_verdict()  # the report quotes the evidence; now it has what is left to quote
                self._record("done")
        except OSError as error:
            raise ARCHIVE_WRITE.error(f"{self._paths.root}: {describe_refusal(error)}") from error
        kept = {file.name for file in self._planned.after}
        return AppliedRun(
            directory=str(self._paths.root),
            run_id=self._planned.run_id,
            tier=self._plan.tier,
            removed=sum(1 for file in self._planned.before if file.name not in kept),
            was_done=was_done,
        )

    def _write_verdict(self) -> None:
        run = judge_run(self._paths.root)
        write_verdict(run.directory, run.evidence, run.card)

    def _remove(self) -> None:
        wanted = {file.name: file.digest for file in self._planned.after}
        found = {file.name: file.digest for file in list_sealed(self._paths)}
        if found.get(_TRACE) != wanted[_TRACE]:
            write_atomic(self._paths.trace, b"".join(iter_withdrawn_lines(self._paths)))
        folders = set()
        for name in found.keys() - wanted.keys():
            path = self._paths.root / name
            path.unlink()
            folders.add(path.parent)
        for folder in sorted(folders, key=lambda one: len(one.parts), reverse=True):
            sync_directory(folder)
        for root in (self._paths.blobs, self._paths.acceptance):
            _remove_empty(root)
        sync_directory(self._paths.root)

    def _find_changed_paths(self) -> tuple[str, ...] | None:
        if not self._paths.change.is_file():
            last = check_run(self._paths, trusted_keys=None).custody.last
            return None if last is None else last.changed_paths
        try:
            return tuple(file.path for file in read_change(self._paths.change.read_bytes()).files)
        except AgentError:  # `patch-unreadable`: no reader finds paths in it
            return None

    def _record(self, action: Literal["begun", "done"]) -> None:
        paths = self._paths
        old = paths.custody.read_bytes() if paths.custody.exists() else b""
        lines = old.splitlines()
        entry = CustodyEntry(
            run_id=self._planned.run_id,
            number=len(lines),
            previous=digest_bytes(lines[-1]) if lines else self._planned.seal_digest,
            action=action,
            tier=self._plan.tier,
            plan_digest=self._plan_digest,
            approved_by=self._approval.approved_by,
            reason=self._approval.reason,
            approved_at_us=self._approval.approved_at_us,
            at_us=SystemClock().now_us(),
            before=self._planned.before,
            after=self._planned.after if action == "begun" else list_sealed(paths),
            score_digest=digest_bytes(paths.score.read_bytes()),
            not_shown=self._planned.not_shown,
            changed_paths=self._find_changed_paths(),
            harness_version=__version__,
            public_key=self._key.public_key.pem,
        )
        subjects = {paths.seal.name: self._planned.seal_digest}
        # The whole file anew: a cut leaves the old lines or all of them, never half of one.
        write_atomic(paths.custody, old + CUSTODY_KIND.sign(entry, subjects=subjects, key=self._key) + b"\n")


def _remove_empty(root: Path) -> None:
    if root.is_dir():
        for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
            folder.rmdir()
        root.rmdir()
