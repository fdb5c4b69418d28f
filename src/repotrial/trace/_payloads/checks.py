"""Attempt events (S12): what the harness executed on the change, and what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial._core.pressure import ProcessorPressure
from repotrial._core.words import EndCause, ErrorReason, Gate, JudgedTree
from repotrial.trace._blobs import BlobRef
from repotrial.trace._payloads.common import (
    Alternative,
    ChangedPaths,
    Command,
    EventPayload,
    ExitStatus,
    Instant,
    Name,
    Output,
)


class Passed(Alternative, frozen=True, kw_only=True, tag="pass"):
    """It ran and its predicate holds."""


class Failed(Alternative, frozen=True, kw_only=True, tag="fail"):
    """It ran and its predicate is violated."""

    summary: str
    """What does not hold, in a sentence; never used for scoring."""


class Errored(Alternative, frozen=True, kw_only=True, tag="error"):
    """It did not complete, so it says nothing about the change."""

    reason: ErrorReason
    """The class of the cause."""
    detail: str
    """The cause in a sentence."""


CheckOutcome: TypeAlias = Passed | Failed | Errored
"""pass, fail or error (P3)."""


class LogPointer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A file that an execution left behind."""

    name: Name
    """What it is: `junit.xml`, `build.log`."""
    blob: BlobRef
    """Where it is."""


class TestIds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A list of tests, complete in number and digest, bounded in length."""

    __test__: ClassVar[bool] = False  # not a test class, whatever the name says

    count: Count
    """How many there are."""
    ids: tuple[str, ...]
    """The first of them, in sorted order."""
    digest: Digest
    """Digest over all of them, sorted, each with a newline."""

    @classmethod
    def build(cls, ids: Iterable[str], *, max_bytes: int = 64 * 1024) -> Self:
        """Sort, count and digest test ids; list as many as fit into `max_bytes`.

        A candidate that invents a million failing tests must not be able to make its own acceptance event too
        large to record.
        """
        ordered = sorted(set(ids))
        encoded = [item.encode("utf-8", "surrogatepass") for item in ordered]
        kept = 0
        size = 0
        for raw in encoded:
            size += len(raw)
            if size > max_bytes:
                break
            kept += 1
        joined = b"".join(raw + b"\n" for raw in encoded)
        digest = "sha256:" + hashlib.sha256(joined).hexdigest()
        return cls(count=len(ordered), ids=tuple(ordered[:kept]), digest=digest)


class TwinCount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Wrong-expectation copies of tests: an honest judge fails every one of them."""

    mixed_in: Count
    """How many there were."""
    survived: TestIds
    """Those that passed: the judge was not honest."""
    silent: TestIds
    """Those without a result."""


class _Execution(EventPayload, frozen=True, kw_only=True):
    started_at_us: Instant
    """When it began."""
    ended_at_us: Instant
    """When it ended."""
    cpu_us: Count | None = None
    """Processor time of the whole process tree; null if it was not metered."""
    ceiling_us: Count | None = None
    """The time it was allowed; null if there was no ceiling."""
    command: Command
    """What ran."""
    exit: ExitStatus
    """How it ended."""
    cause: EndCause = "ended"
    """What ended it, where it did not end by itself."""
    peak_memory_bytes: Count | None = None
    """Most memory of the whole process tree; null if it was not metered."""
    outcome: CheckOutcome
    """What it says about the change."""
    stdout: Output
    """What it printed."""
    stderr: Output
    """What it printed as errors."""
    logs: tuple[LogPointer, ...] = ()
    """Files that it left behind."""


class RunnerExecution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One command of a check (C5)."""

    started_at_us: Instant
    """When it began."""
    ended_at_us: Instant
    """When it ended."""
    cpu_us: Count | None = None
    """Processor time of its process tree; null if it was not metered."""
    peak_memory_bytes: Count | None = None
    """Most memory of its process tree; null if it was not metered."""
    pressure: ProcessorPressure | msgspec.UnsetType = msgspec.UNSET
    """What its sandbox got of the processors meanwhile; absent if it was not metered."""
    ceiling_us: Count
    """The time it was allowed."""
    command: Command
    """What ran."""
    exit: ExitStatus
    """How it ended."""
    cause: EndCause = "ended"
    """What ended it, where it did not end by itself."""
    stdout: Output
    """What it printed."""
    stderr: Output
    """What it printed as errors."""
    changed: ChangedPaths | None = None
    """What of the tree it changed (C5); null where that was not looked at."""


class PatchApplication(_Execution, frozen=True, kw_only=True):
    """The change was applied to a fresh tree (gate 1)."""

    event_type: ClassVar[str] = "patch-application"

    patch_digest: Digest
    """The change as it was submitted."""
    tree_digest: Digest | None = None
    """The tree after it; null if it did not apply."""
    rejected_paths: tuple[str, ...] = ()
    """Paths whose hunks did not apply."""
    conflict_paths: tuple[str, ...] = ()
    """Paths with conflict markers."""
    stripped_paths: tuple[str, ...] = ()
    """Protected paths that were taken out before it was applied."""


class _Check(_Execution, frozen=True, kw_only=True):
    check_id: Name
    """The contract's check."""
    gate: Gate
    """The gate that it serves."""
    attempt: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    """Which repetition, from 1; reruns follow the Oracle's rule (S4)."""
    subject: JudgedTree = "candidate"
    """Whose tree was judged; the others are control executions."""
    collisions: tuple[str, ...] = ()
    """Files of the candidate that an oracle file took the place of."""
    removed: tuple[str, ...] = ()
    """Files of the candidate that were taken away because they would have steered the judge."""
    runners: tuple[RunnerExecution, ...] = ()
    """Every command that it ran, in order; the last one is also told above. Empty in version 1."""


class BuildCheck(_Check, frozen=True, kw_only=True):
    """The tree was built after the change (gate 2)."""

    event_type: ClassVar[str] = "build-check"


class StaticCheck(_Check, frozen=True, kw_only=True):
    """A type checker, linter or formatter looked at the tree (gate 2)."""

    event_type: ClassVar[str] = "static-check"

    findings: Count | None = None
    """How many findings it reported; null if the tool does not count."""


class AcceptanceExecution(_Check, frozen=True, kw_only=True):
    """One execution of one check of the Oracle (gate 3; C5, P14, S12)."""

    event_type: ClassVar[str] = "acceptance-execution"

    layer: str | None = None
    """The contract's layer (`unit`, `integration`); null if it declares none."""
    judge: Literal["in-process", "out-of-process"] = "in-process"
    """Whether code of the candidate ran inside the judging process."""
    variant: Literal["plain", "twins"] = "plain"
    """Whether wrong-expectation twins were mixed into the suite."""
    failing: TestIds
    """Tests that failed."""
    passed_count: Count
    """Tests with an explicit pass."""
    skipped_count: Count
    """Tests that were skipped."""
    missing: TestIds
    """Tests of the inventory that gave no result."""
    results_digest: Digest | None = None
    """Digest of the structured results; null if the check has none or did not write them."""
    twins: TwinCount | None = None
    """What became of the twins; null in the plain variant. Passed means that exactly the twins failed."""
    tree_digest: Digest
    """The tree that was judged."""
