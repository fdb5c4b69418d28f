"""The plan on disk: planned runs as CSV, the plan itself and the pre-registration (B5, B7, P29)."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, ErrorCode, EvidenceError
from repotrial.contract import StrictDocument
from repotrial.signing import SignedStatement, SigningKey, StatementKind

ROWS_FILE: Final = "randomization-plan.csv"

PLAN_UNREADABLE = ErrorCode(
    "plan-unreadable",
    ContractError,
    "A file of a pilot's plan cannot be read: a column or a value is not what `pilot plan` writes.",
    hint="run `repotrial pilot plan` again; after freezing, take the file from the commit that froze it",
)
REGISTRATION_INVALID = ErrorCode(
    "registration-invalid",
    EvidenceError,
    "A pre-registration does not have the form of one.",
    hint="take the file from the commit that froze the pilot; registrations are never edited",
)
REGISTRATION_VERSION = ErrorCode(
    "registration-version",
    EvidenceError,
    "A pre-registration is of a version that this release does not know.",
    hint="use the release that wrote it",
)


class PlannedRow(StrictDocument, frozen=True, kw_only=True):
    """One planned run: a line of `randomization-plan.csv`."""

    order: Count
    """Place in the order of starts, from 0."""
    stage: Literal[1, 2, 3]
    """The stage in which it is conducted; rows of stage 3 only up to the k that stage 2 leads to."""
    block: Count
    """Place of the task in the random order of all tasks, from 0."""
    task: str
    """The contract's id."""
    stratum: str
    """The cell of the task, after merging."""
    arm: str
    """The arm's name."""
    replicate: Count
    """From 0."""
    run_id: str
    """Of the run specification, which is hashed into it."""


class PlannedTask(StrictDocument, frozen=True, kw_only=True):
    """A task in the plan."""

    id: str
    """The contract's id."""
    version_id: Digest
    """The contract's version."""
    stratum: str
    """Its cell, after merging."""
    cell: str
    """Its cell, before merging."""
    factors: dict[str, str]
    """Every factor of the task, also those that are margins only."""
    stage_1: bool
    """Whether it is in stage 1."""
    is_doubled: bool
    """Whether it has two runs of each arm in stage 2."""


class PilotPlan(StrictDocument, frozen=True, kw_only=True):
    """All of `plan.json`."""

    schema: Literal["repotrial/pilot-plan@1"] = "repotrial/pilot-plan@1"
    """Which version of this format."""
    pilot: str
    """The pilot's id."""
    pilot_digest: Digest
    """Digest of the `pilot.toml` that was planned: after a change, it is planned anew."""
    suite_id: Digest
    """The suite."""
    seed: Count
    """The root seed of the order."""
    tasks: tuple[PlannedTask, ...]
    """In the random order."""
    arms: dict[str, Digest]
    """What each arm is, exactly: a digest over all its agents, conditions and files."""
    merged: dict[str, str]
    """Which cells were merged into which, by the stated rule."""
    deviations: tuple[str, ...] = ()
    """What departs from the protocol, in sentences."""


class Registration(StrictDocument, frozen=True, kw_only=True):
    """What is signed when a pilot is frozen; amendments are further versions."""

    FOLDER: ClassVar = "registrations"

    schema: Literal["repotrial/registration@1"] = "repotrial/registration@1"
    """Which version of this format."""
    pilot: str
    """The pilot's id."""
    version: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    """1 is the pre-registration; each amendment counts on."""
    previous: Digest | None = None
    """Digest of the registration before."""
    reason: str = ""
    """Why it was amended."""
    restarts: bool = False
    """Whether the count begins anew: suite, arms, caps or rules were amended (C11)."""
    changed: tuple[str, ...] = ()
    """Files and parts that are other than before."""
    removed_tasks: dict[str, str] = msgspec.field(default_factory=dict)
    """Tasks taken out for objective invalidity, with the reason; never replaced."""
    suite_id: Digest
    """The suite."""
    parts: dict[str, Digest]
    """Digests of the parts of `pilot.toml` that decide: arms, caps, rules, thresholds, prices."""
    code_version: str
    """The release that will analyze."""
    code_digest: Digest
    """Digest over the source of the rooms that analyze."""
    conducting_keys: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """Public keys of machines that may conduct, in PEM."""
    frozen_at_us: Count
    """When, by the clock of the machine that froze it, in microseconds since 1970."""
    public_key: str
    """The study's key, in PEM: to check the signature, not to trust it."""
    trust_limits: str
    """What the registration cannot show."""

    def sign(self, subjects: Mapping[str, Digest], key: SigningKey) -> bytes:
        """The signed statement over the files of the pilot."""
        return _KIND.sign(self, subjects=subjects, key=key)

    @staticmethod
    def parse(data: bytes, *, name: str) -> SignedStatement[Registration]:
        """Read a registration without believing it.

        Raises:
            REGISTRATION_INVALID: it is none.
            REGISTRATION_VERSION: it is of another version.
        """
        return _KIND.parse(data, name=name)


_KIND: Final = StatementKind(
    predicate=Registration,
    predicate_type="urn:repotrial:registration:1",
    invalid=REGISTRATION_INVALID,
    unknown=REGISTRATION_VERSION,
)


def render_csv(header: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """CSV with a header, in one spelling."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return text.getvalue()


def parse_rows(text: str) -> tuple[PlannedRow, ...]:
    """Read the planned runs.

    Raises:
        PLAN_UNREADABLE: a line is not one; the message names it.
    """
    reader = csv.DictReader(io.StringIO(text))
    expected = [*PlannedRow.__struct_fields__]
    found = [*(reader.fieldnames or ())]
    if found != expected:
        raise PLAN_UNREADABLE.error(
            f"{ROWS_FILE}: expected the columns {', '.join(expected)}, found {', '.join(found)}"
        )
    rows = []
    for line in reader:
        try:
            rows.append(msgspec.convert(line, PlannedRow, strict=False))
        except msgspec.ValidationError as error:
            raise PLAN_UNREADABLE.error(f"{ROWS_FILE}:{reader.line_num}: {error}") from error
    return tuple(rows)


class LoadedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with its rows."""

    FOLDER: ClassVar = "plan"
    FILE: ClassVar = "plan.json"
    RUNS: ClassVar = "runs"
    """The directory of the pilot's runs."""

    plan: PilotPlan
    rows: tuple[PlannedRow, ...]

    @classmethod
    def load(cls, directory: Path) -> LoadedPlan:
        """Read the plan of a pilot's directory, without holding it against anything.

        Raises:
            PLAN_UNREADABLE: there is none, or a file of it is not what `pilot plan` writes.
        """
        folder = directory / cls.FOLDER
        try:
            plan = msgspec.json.decode((folder / cls.FILE).read_bytes(), type=PilotPlan)
            rows = parse_rows((folder / ROWS_FILE).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
            raise PLAN_UNREADABLE.error(f"{folder}: expected a plan, found: {error}") from error
        return cls(plan=plan, rows=rows)

    def render_rows(self) -> str:
        """The planned runs as CSV, in the order of their starts."""
        return render_csv(PlannedRow.__struct_fields__, (msgspec.structs.astuple(row) for row in self.rows))

    def find_imbalance(self) -> list[str]:
        """What gives arms unequal chances, in sentences: each arm must have the same runs."""
        return _find_imbalance(self.rows)


def _find_imbalance(rows: Sequence[PlannedRow]) -> list[str]:
    arms = sorted({row.arm for row in rows})
    runs = Counter((row.task, row.stage, row.replicate, row.arm) for row in rows)
    cells = sorted({(row.task, row.stage, row.replicate) for row in rows})
    found = []
    for task, stage, replicate in cells:
        counts = {arm: runs[task, stage, replicate, arm] for arm in arms}
        if set(counts.values()) != {1}:
            words = ", ".join(f"{arm} {count}" for arm, count in counts.items())
            found.append(f"{task}, stage {stage}, replicate {replicate}: {words}")
    return found
