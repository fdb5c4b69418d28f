"""What verdicts rest on and documents are made of: facts of a run directory, and pointers to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.canonical import Count, canonical_bytes
from repotrial._core.digest import Digest
from repotrial._core.display import neutralize
from repotrial._core.words import AlertSeverity, EndCause, Gate, JudgedTree, LifecyclePhase, TextFormat
from repotrial.contract import ContractRecord, RunSpec
from repotrial.judging import Supply
from repotrial.score._programs import ProgramFacts
from repotrial.signing import NoSigner
from repotrial.trace import (
    CheckOutcome,
    Command,
    ExitStatus,
    Intervention,
    Manifest,
    PatchApplication,
    RunVerification,
    Termination,
    TestIds,
    TraceHead,
    TwinCount,
)

GateId: TypeAlias = Literal["G1", "G2", "G3", "G4"]
"""Patch validity, build and static checks, functional acceptance, safety and policy (S2)."""

GATES: tuple[GateId, ...] = ("G1", "G2", "G3", "G4")

Verdict: TypeAlias = Literal["passed", "failed", "errored"]
"""pass, fail or error, after reruns (P3, S4)."""

Line = Annotated[str, msgspec.Meta(min_length=1)]
"""A sentence for people; no verdict reads one (S5)."""

_MAX_LINE_CHARACTERS = 500


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every part of a document: immutable, and strict about its keys."""


class EventPointer(Document, frozen=True, kw_only=True, tag_field="kind", tag="event"):
    """An event of the trace."""

    seq: Count
    """Its position in the trace."""
    type: Line
    """Its type."""
    check: str | None = None
    """The contract's check that it executed; null if it is no execution of a check."""
    command: tuple[str, ...] = ()
    """Program and arguments that it records; empty where it records none."""


class ChangePointer(Document, frozen=True, kw_only=True, tag_field="kind", tag="change"):
    """A place in `change.patch`."""

    path: str
    """The file that is changed there."""


MissingKind: TypeAlias = Literal["module", "package", "command", "version"]


class MissingName(Document, frozen=True, kw_only=True):
    """Something that a program did not find (Q11)."""

    kind: MissingKind
    """What it is."""
    name: str
    """As the program names it."""


class StreamPointer(Document, frozen=True, kw_only=True, tag_field="kind", tag="stream"):
    """Bytes of what an event has on record: the very lines that say why (S5)."""

    seq: Count
    """The event."""
    type: Line
    """Its type."""
    check: str | None
    """The contract's check that it executed; null if it is no execution of a check."""
    command: tuple[str, ...]
    """The command that printed them; empty for a file of results, and for an alert."""
    runner: Annotated[int, msgspec.Meta(ge=1)]
    """Which command of the check, from 1."""
    stream: Line
    """`stdout`, `stderr`, the name of a file of results, or `segment`: the text that an alert is about."""
    offset_bytes: Count
    """Where they begin, in what was kept of it."""
    length_bytes: Count
    """How many there are."""
    missing: tuple[MissingName, ...] = ()
    """What they say was not found."""


EvidencePointer: TypeAlias = EventPointer | ChangePointer | StreamPointer
"""Where to look."""


def build_line(text: str) -> str:
    """Names of files and tests may be an agent's invention: what a line shows is safe to print."""
    return neutralize(text, max_characters=_MAX_LINE_CHARACTERS) or "…"


def render_document(document: Document) -> bytes:
    """A document as a file: the same content gives the same bytes."""
    return msgspec.json.format(canonical_bytes(msgspec.to_builtins(document)), indent=1) + b"\n"


SealState: TypeAlias = Literal["absent", "intact", "unchecked"]
"""`intact`: its files are as it says; `unchecked`: this release cannot read it, or they are not."""


class InvalidReason(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing without which it is unknown what was judged (P4)."""

    code: str
    """Stable kebab-case reason."""
    message: str
    """What was expected and what was found."""
    seq: int | None = None
    """The event that it is about; null if it is about none."""


class TestReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a check of the acceptance event says about single tests."""

    __test__ = False  # not a test class, whatever the name says

    failing: TestIds
    missing: TestIds


class ScoredExecution(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of one check; outputs are left in the trace."""

    seq: int
    type: str
    check_id: str
    gate: Gate
    attempt: int
    subject: JudgedTree
    variant: Literal["plain", "twins"] = "plain"
    outcome: CheckOutcome
    command: Command
    exit: ExitStatus
    cause: EndCause
    started_at_us: int
    ended_at_us: int
    tests: TestReport | None = None
    twins: TwinCount | None = None
    collisions: tuple[str, ...]
    removed: tuple[str, ...]
    unresolved: tuple[str, ...] = ()
    """Names that its output reports as not found: the log signature of a missing dependency."""
    supply: Supply = "unclear"

    @property
    def pointer(self) -> EventPointer:
        return EventPointer(seq=self.seq, type=self.type, check=self.check_id, command=self.command.argv)

    @property
    def wall_us(self) -> int:
        return max(0, self.ended_at_us - self.started_at_us)


class Trigger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The exact piece of text that a safety rule matched (S10)."""

    format: TextFormat
    """What kind of text it is."""
    event: int
    """The event in which it stands."""
    offset_bytes: int | None
    """Where in that event's body; null if it is no part of a body."""
    digest: Digest
    """Digest of the whole piece."""
    text: str | Unknown
    """The piece itself, up to the first 4096 characters."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A monitor's alert."""

    seq: int
    monitor: str
    rule: str
    severity: AlertSeverity
    phase: LifecyclePhase
    evidence: tuple[int, ...]
    trigger: Trigger | None
    type: str = "monitor-alert"
    """Of its event: `program-start` where the rules find in a program what no monitor put on record."""

    @property
    def pointer(self) -> EventPointer:
        return EventPointer(seq=self.seq, type=self.type)


class MonitorWatch(msgspec.Struct, frozen=True, kw_only=True):
    """Monitors that reported in at the end of what they had reported the start of."""

    seq: int
    phase: LifecyclePhase
    check_id: str | None
    blind: tuple[str, ...]
    """Those that did not watch, each with its reason."""

    @property
    def pointer(self) -> EventPointer:
        return EventPointer(seq=self.seq, type="monitor-report", check=self.check_id)


class NumberedTermination(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    event: Termination

    @property
    def pointer(self) -> EventPointer:
        return EventPointer(seq=self.seq, type="termination")


class NumberedPatch(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    event: PatchApplication

    @property
    def pointer(self) -> EventPointer:
        return EventPointer(seq=self.seq, type="patch-application", command=self.event.command.argv)


class NumberedIntervention(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    event: Intervention


class EditDiff(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning of what one path became."""

    path: str
    text: str
    """A unified diff; or why there is none."""
    is_cut: bool


class WorkspaceEdit(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the workspace while the agent acted."""

    seq: int
    paths: tuple[str, ...]
    """The first few of them, sorted."""
    path_count: int
    last_green: int | None
    """The last test run of the agent before it that ended well."""
    diffs: tuple[EditDiff, ...] = ()
    """What the first of them became."""


class WorkHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What an interpretation may look at (P31); no gate reads it."""

    recent_edits: tuple[WorkspaceEdit, ...] = ()
    largest_edit: WorkspaceEdit | None = None


NO_TEST = Unknown(reason="no test run was seen")
ONE_STAGE = Unknown(reason="no transition between stages was recorded")


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one run."""

    is_witnessed: bool = False
    """Whether the run has a report of what its witness sees; earlier runs have none."""
    tool_calls: int = 0
    tool_us: int = 0
    test_cycles: int = 0
    failed_test_cycles: int = 0
    unknown_test_cycles: int = 0
    """Test runs whose outcome was not seen."""
    stage_us: dict[str, int] | Unknown = ONE_STAGE
    lines_before_first_test: int | Unknown = NO_TEST
    last_green: int | None = None
    first_red_after_green: int | None = None


class ProviderFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How the model's upstream did, as far as a cause rests on it."""

    answers: int = 0
    troubles: dict[str, int] = {}
    """Exchanges that met trouble, by the alert's rule: what the agent's own retries had to outlive."""
    open_trouble: int | None = None
    """The last of them, if no answer came after it."""
    control: int | None = None
    """The harness's own request that met trouble within the same minute as that one."""
    control_rule: str | None = None
    is_throttled: bool = False
    """Whether the run passed the rate of its plan."""
    last_stop: str | None = None
    """How the last answer ended, in the provider's word."""


class TraceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All that is kept of a trace."""

    executions: tuple[ScoredExecution, ...] = ()
    patches: tuple[NumberedPatch, ...] = ()
    terminations: tuple[NumberedTermination, ...] = ()
    alerts: tuple[Alert, ...] = ()
    """The first thousand of each rule, severity and phase; programs that meet a rule are among them."""
    must_report: bool = False
    """Whether monitors had to report in: what a clean record rests on depends on its version."""
    watches: tuple[MonitorWatch, ...] = ()
    alert_counts: dict[str, int] = {}
    """All of them, by rule."""
    interventions: tuple[NumberedIntervention, ...] = ()
    provider: ProviderFacts = ProviderFacts()
    program_exit: ExitStatus | None = None
    """Of the agent's own program; None if the trace has none."""
    program_supply: Supply = "unclear"
    """What that program's sandbox got of the processors."""
    overflows: tuple[int, ...] = ()
    """Responses whose stop reason says that the context was full."""
    history: WorkHistory = WorkHistory()
    event_counts: dict[str, int] = {}
    has_briefing: bool = False
    is_ended: bool = False
    """Whether the harness came to sealing: what stops before may lack anything that was still to come."""
    dropped_events: int = 0
    """How many the byte budget dropped."""
    acting_us: int | None = None
    accepting_us: int | None = None
    work: Work = Work()
    programs: ProgramFacts = ProgramFacts()
    fragments: dict[int, tuple[StreamPointer, ...]] = {}
    """By event: the lines that say why. Empty for runs of earlier rules."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A run directory as verdicts see it."""

    run_id: str | Unknown
    manifest: Manifest | Unknown
    manifest_digest: Digest | Unknown
    record: ContractRecord | Unknown
    spec: RunSpec | Unknown
    change: bytes | Unknown
    """`change.patch`, as the agent left it."""
    facts: TraceFacts
    head: TraceHead | Unknown
    """Count and last hash of the verified events."""
    seal: SealState
    verification: RunVerification
    """What was found when the directory was verified; no key was asked for."""
    problems: tuple[InvalidReason, ...]
    """Why nothing can be said, from the documents alone."""
    archived_card: bytes | None = None
    """`score.json`, where a custody log vouches for it: parts of the evidence are gone, and it counts."""

    @property
    def signer(self) -> str | None:
        """The id of the key whose seal covers exactly these files; None if there is no such seal."""
        report = self.verification.seal_report
        return None if report.problems or isinstance(report.signer, NoSigner) else report.signer.key_id

    @property
    def patch(self) -> NumberedPatch | None:
        """The one application of the change; none where there is not exactly one."""
        return self.facts.patches[0] if len(self.facts.patches) == 1 else None

    @property
    def termination(self) -> NumberedTermination | None:
        """The one end of acting; none where there is not exactly one."""
        return self.facts.terminations[0] if len(self.facts.terminations) == 1 else None

    def iter_executions(
        self,
        check_id: str,
        *,
        subject: JudgedTree = "candidate",
        variant: Literal["plain", "twins"] = "plain",
    ) -> Iterator[ScoredExecution]:
        """Executions of one check, in the order of their attempts."""
        found = [
            e
            for e in self.facts.executions
            if (e.check_id, e.subject, e.variant) == (check_id, subject, variant)
        ]
        yield from sorted(found, key=lambda e: (e.attempt, e.seq))
