"""What is to be taken out of which runs, and who approved it."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial import __version__
from repotrial._core.canonical import Count, canonical_bytes
from repotrial._core.clock import Clock, SystemClock
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError, MachineError, UsageError
from repotrial._core.files import describe_refusal, write_atomic
from repotrial.signing import PublicKey, SigningKey, StatementKind, TrustedSigner
from repotrial.trace import (
    Holds,
    KeptFile,
    RunOpened,
    RunPaths,
    check_run,
    iter_events,
    iter_withdrawn_lines,
    list_sealed,
)

Tier: TypeAlias = Literal["minimal"]
_MOST_BYTES: Final = 256 * 1024**2
_VERSION: Final = "repotrial/trace@2"
_KEPT: Final = frozenset({"manifest.json", "contract.json", "spec.json", "trace.jsonl"})
"""What the minimal tier keeps of the sealed files; the trace without its texts."""

ARCHIVE_REFUSED = ErrorCode(
    "archive-refused",
    UsageError,
    "Runs cannot be moved to another tier. Each is listed with its reason; nothing was changed.",
    hint="leave those runs out; `repotrial run verify RUN_DIR` says more about each",
)
PLAN_INVALID = ErrorCode(
    "archive-plan-invalid",
    UsageError,
    "A file is no plan of an archive.",
    hint="name the file that `repotrial archive plan --out` wrote",
)
PLAN_NOT_APPROVED = ErrorCode(
    "archive-not-approved",
    EvidenceError,
    "A plan was not approved as it is, or by no key that is believed here.",
    hint="`repotrial archive approve PLAN --by NAME --why TEXT`; after a change, approve it again",
)
ARCHIVE_WRITE = ErrorCode(
    "archive-write",
    MachineError,
    "A file of an archive cannot be written or taken away.",
    hint="make room or fix the permissions, and give the same command again: it goes on where it was",
)


class PlannedRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one run has, and what it will have."""

    directory: str
    """Where it is, from the directory of the plan."""
    run_id: str
    seal_digest: Digest
    before: tuple[KeptFile, ...]
    after: tuple[KeptFile, ...]
    not_shown: tuple[str, ...]
    """What it cannot show any more, in words."""


class ArchivePlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan; nothing is changed by making one."""

    schema: Literal["repotrial/archive-plan@1"] = "repotrial/archive-plan@1"
    tier: Tier
    runs: tuple[PlannedRun, ...]

    @property
    def gone_bytes(self) -> int:
        """How much the directories lose."""
        before = sum(file.size_bytes for run in self.runs for file in run.before)
        return before - sum(file.size_bytes for run in self.runs for file in run.after)


class Approval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """That a plan may be carried out."""

    approved_by: str
    reason: str
    approved_at_us: Count
    harness_version: str
    public_key: str


_APPROVAL: Final = StatementKind(
    predicate=Approval,
    predicate_type="urn:repotrial:archive-approval:1",
    invalid=PLAN_NOT_APPROVED,
    unknown=PLAN_NOT_APPROVED,
)


def build_plan(runs: Sequence[Path], *, beside: Path, tier: Tier = "minimal") -> ArchivePlan:
    """See what moving runs to a tier would take out of them.

    Args:
        runs: Run directories.
        beside: The directory that the plan will lie in.
        tier: Where they go.

    Raises:
        ARCHIVE_REFUSED: some runs cannot be moved; all of them are named.
    """
    problems = [f"{run}: {problem}" for run in runs if (problem := _find_problem(RunPaths(run))) is not None]
    if problems:
        raise ARCHIVE_REFUSED.error("\n".join(problems), details=problems)
    return ArchivePlan(tier=tier, runs=tuple(_plan_run(RunPaths(run), beside) for run in runs))


def _find_problem(paths: RunPaths) -> str | None:
    found = check_run(paths, trusted_keys=None)
    if not isinstance(found.chain, Holds) or not found.seal_report.is_intact:
        return "expected a sealed run that holds, found one that does not"
    first = next(iter_events(paths.trace))
    if not isinstance(first.payload, RunOpened) or first.payload.schema != _VERSION:
        schema = getattr(first.payload, "schema", "another")
        return f"expected a trace of version 2, whose chain holds without its texts, found {schema}"
    if found.custody.last is not None:
        return f"expected a run in full, found one in the tier {found.custody.last.tier}"
    return None


def _plan_run(paths: RunPaths, beside: Path) -> PlannedRun:
    before = list_sealed(paths)
    trace = b"".join(iter_withdrawn_lines(paths))
    slim = KeptFile(name=paths.trace.name, digest=digest_bytes(trace), size_bytes=len(trace))
    after = tuple(slim if file.name == slim.name else file for file in before if file.name in _KEPT)
    verified = check_run(paths, trusted_keys=None)
    return PlannedRun(
        directory=os.path.relpath(paths.root.resolve(), beside.resolve()),
        run_id=verified.chain_report.run_id or paths.root.name,
        seal_digest=digest_bytes(paths.seal.read_bytes()),
        before=before,
        after=after,
        not_shown=tuple(_list_not_shown(before, trace)),
    )


def _list_not_shown(before: Sequence[KeptFile], trace: bytes) -> list[str]:
    texts = trace.count(b'"stored":"withdrawn"')
    files = [file.name for file in before if file.name not in _KEPT]
    logs = sum(1 for name in files if name.startswith("acceptance/"))
    found = [f"{texts} texts: prompts, answers, arguments and what programs printed"]
    if "change.patch" in files:
        found.append("the change: its digest stays")
    if logs:
        found.append(f"{logs} files that checks left and printed")
    return [*found, "replay, rejudging and recomputing the score card: the card of before counts"]


def write_plan(plan: ArchivePlan, path: Path) -> None:
    """Write a plan for people to read and approve.

    Raises:
        ARCHIVE_WRITE: the machine does not let us write.
    """
    data = msgspec.json.format(canonical_bytes(msgspec.to_builtins(plan)), indent=2) + b"\n"
    _write(path, data)


def load_plan(path: Path) -> tuple[ArchivePlan, Digest]:
    """Read a plan; with the digest of its bytes.

    Raises:
        PLAN_INVALID: it is none.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES)
        return msgspec.json.decode(data, type=ArchivePlan), digest_bytes(data)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PLAN_INVALID.error(f"{path}: expected a plan of an archive, found: {error}") from error


def _name_approval(path: Path) -> Path:
    return path.with_name(f"{path.name}.approval")


def approve_plan(
    path: Path, key: SigningKey, *, approved_by: str, reason: str, clock: Clock | None = None
) -> Path:
    """Sign that a plan may be carried out as it is; the approval lies beside it.

    Raises:
        PLAN_INVALID: there is no plan.
        ARCHIVE_WRITE: the machine does not let us write.
    """
    _, digest = load_plan(path)
    approval = Approval(
        approved_by=approved_by,
        reason=reason,
        approved_at_us=(clock or SystemClock()).now_us(),
        harness_version=__version__,
        public_key=key.public_key.pem,
    )
    place = _name_approval(path)
    _write(place, _APPROVAL.sign(approval, subjects={path.name: digest}, key=key))
    return place


def load_approved_plan(
    path: Path, trusted_keys: Collection[PublicKey]
) -> tuple[ArchivePlan, Approval, Digest]:
    """Read a plan that was approved as it is, by a key that is believed.

    Raises:
        PLAN_INVALID: there is no plan.
        PLAN_NOT_APPROVED: nothing approves it, or not this, or another key does.
    """
    plan, digest = load_plan(path)
    place = _name_approval(path)
    try:
        signed = _APPROVAL.parse(place.read_bytes(), name=place.name)
    except OSError as error:
        raise PLAN_NOT_APPROVED.error(
            f"{place}: expected an approval of the plan, found: {describe_refusal(error)}"
        ) from error
    if signed.subjects != {path.name: digest}:
        raise PLAN_NOT_APPROVED.error(f"{path}: expected the plan that was approved, found another")
    signer = signed.find_signer(signed.predicate.public_key, trusted_keys)
    if not isinstance(signer, TrustedSigner):
        raise PLAN_NOT_APPROVED.error(f"{place}: expected the signature of a trusted key, found another")
    return plan, signed.predicate, digest


def _write(path: Path, data: bytes) -> None:
    try:
        write_atomic(path, data)
    except OSError as error:
        raise ARCHIVE_WRITE.error(
            f"{path}: expected to write it, found: {describe_refusal(error)}"
        ) from error
