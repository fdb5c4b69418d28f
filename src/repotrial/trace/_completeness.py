"""Completeness (P15): nothing that a verdict rests on is missing from a run directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial._core.display import neutralize
from repotrial._core.errors import EvidenceError
from repotrial._core.files import describe_refusal
from repotrial._core.words import LifecyclePhase, TerminationCategory
from repotrial.trace._blobs import BlobRef, BlobStore
from repotrial.trace._demands import Demands
from repotrial.trace._event import Event
from repotrial.trace._files import TRACE_UNREADABLE
from repotrial.trace._manifest import MANIFEST_SCHEMA, Manifest
from repotrial.trace._payloads.actions import Response
from repotrial.trace._payloads.agent import AgentConfiguration
from repotrial.trace._payloads.checks import AcceptanceExecution, BuildCheck, StaticCheck
from repotrial.trace._payloads.course import (
    Intervention,
    MonitorAlert,
    OnAlert,
    OperatorDecision,
    PhaseChanged,
    RunOpened,
    Termination,
    TraceTruncated,
)
from repotrial.trace._reader import iter_events
from repotrial.trace._rundir import RunPaths, digest_regular

_MAX_FINDING_CHARACTERS = 1000
_PHASES: tuple[LifecyclePhase, ...] = ("bind", "set-up", "brief", "act", "accept", "seal")
_AFTER_ACTING: tuple[LifecyclePhase, ...] = ("accept", "seal")
_EARLY: frozenset[TerminationCategory] = frozenset({"circuit-breaker", "operator-abort", "run-timeout"})


class RunFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong or unknown."""

    text: str
    """What was expected and what was found."""
    seq: Count | None = None
    """The event it is about; null if it is about none."""


def build_finding(text: str, *, seq: int | None = None) -> RunFinding:
    """Names of files and checks may be an agent's invention: what a finding shows is safe to print."""
    return RunFinding(text=neutralize(text, max_characters=_MAX_FINDING_CHARACTERS), seq=seq)


def iter_completeness_problems(
    paths: RunPaths,
    manifest: Manifest | RunFinding,
    *,
    verified_count: int,
    gone: frozenset[str] = frozenset(),
) -> Iterator[RunFinding]:
    """Walk the verified events once and name what is missing.

    - phases are entered in order, and the agent does nothing after acting has ended;
    - one termination says how acting ended, an early one with its evidence (P12);
    - every intervention answers an alert or a decision that the trace holds;
    - every blob that an event refers to is there, with its digest and size;
    - every check that the manifest lists, and every check that left artifacts, has an event on the candidate;
      no other check was executed, and no attempt is missing from the count;
    - every conversation in which a model answered has the agent's configuration, since version 2 of the
      manifest (P2);
    - where the first event undertakes it, everything from opening to seal (see `Demands`);
    - where the byte budget dropped something, the trace has the closing count.

    `gone` names files that the custody log accounts for: they are not missing.

    Raises:
        EvidenceError: a verified line is not an event that this release can read.
    """
    walk = _Walk(BlobStore(paths.blobs), gone)
    demands: Demands | None = None
    for event in islice(iter_events(paths.trace, allow_torn_tail=True), verified_count):
        yield from walk.check_event(event)
        if isinstance(event.payload, RunOpened) and event.payload.completeness_rules > 1:
            demands = Demands(event.payload.completeness_rules)
        if demands is not None:
            yield from (build_finding(text, seq=event.seq) for text in demands.take(event))
    if not walk.has_termination:
        yield build_finding("expected a termination event, found none: the run did not come to its end")
    if walk.is_dropping:
        yield build_finding("expected a closing count of what the byte budget dropped, found none")
    if isinstance(manifest, Manifest) and manifest.schema == MANIFEST_SCHEMA:
        for conversation, seq in walk.unbound_conversations.items():
            text = f"conversation {conversation}: expected an agent-configuration event, found none"
            yield build_finding(text, seq=seq)
    yield from _iter_check_problems(paths, manifest, walk)
    if demands is not None:
        known = manifest if isinstance(manifest, Manifest) else None
        yield from map(build_finding, demands.iter_missing(paths, known, gone=gone))


def _iter_check_problems(
    paths: RunPaths, manifest: Manifest | RunFinding, walk: _Walk
) -> Iterator[RunFinding]:
    if isinstance(manifest, RunFinding):
        yield build_finding(f"expected a manifest that lists the checks; {manifest.text}")
        listed: set[str] = set()
    elif isinstance(acceptance := manifest.harness.entry_points.acceptance, Unknown):
        yield build_finding(f"expected the manifest to list the checks, found unknown: {acceptance.reason}")
        listed = set()
    else:
        listed = {check.check_id for check in acceptance}
        for check_id in sorted(walk.accepted_checks - listed):
            yield build_finding(f"check {check_id}: expected only checks of the manifest, found this one")
    for check_id in sorted(listed - walk.judged_checks):
        yield build_finding(f"check {check_id}: expected an event of its execution, found none")
    for check_id in sorted(_checks_with_artifacts(paths) - walk.judged_checks - listed):
        yield build_finding(f"check {check_id}: expected an event, found only a folder in acceptance/")


def _checks_with_artifacts(paths: RunPaths) -> set[str]:
    try:
        return {entry.name for entry in paths.acceptance.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return set()
    except OSError as error:
        raise TRACE_UNREADABLE.error(
            f"{paths.acceptance}: expected a folder, found: {describe_refusal(error)}"
        ) from error


class _Walk:
    """What must be remembered from earlier events: numbers of alerts and decisions, digests, check ids."""

    def __init__(self, blobs: BlobStore, gone: frozenset[str]) -> None:
        self._gone = gone
        self._blobs = blobs
        self._seen_blobs: set[tuple[Digest, int]] = set()
        self._alerts: set[int] = set()
        self._decisions: set[int] = set()
        self._interventions: set[int] = set()
        self._attempts: dict[tuple[str, ...], int] = {}
        self._phase: LifecyclePhase | None = None
        self.accepted_checks: set[str] = set()
        """Checks with an acceptance event on any tree."""
        self.judged_checks: set[str] = set()
        """Checks of all gates with an event on the candidate, as the contract has them (without twins)."""
        self.has_termination = False
        self.is_dropping = False
        self.unbound_conversations: dict[str, int] = {}
        """Conversations in which a model answered an agent of unknown configuration, with the answer."""
        self._bound_conversations: set[str] = set()

    def check_event(self, event: Event) -> Iterator[RunFinding]:
        yield from self._check_actor(event)
        yield from self._check_payload(event)
        for ref in _iter_blob_refs(event.payload):
            yield from self._check_blob(ref, event.seq)

    def _check_actor(self, event: Event) -> Iterator[RunFinding]:
        if event.actor == "agent" and (self.has_termination or self._phase in _AFTER_ACTING):
            text = f"expected nothing of the agent after acting has ended, found {event.type}"
            yield build_finding(text, seq=event.seq)

    def _check_payload(self, event: Event) -> Iterator[RunFinding]:
        match event.payload:
            case PhaseChanged() as change:
                yield from self._check_phase(change, event.seq)
            case MonitorAlert():
                self._alerts.add(event.seq)
            case OperatorDecision():
                self._decisions.add(event.seq)
            case Intervention() as intervention:
                self._interventions.add(event.seq)
                yield from self._check_intervention(intervention, event.seq)
            case Termination() as termination:
                yield from self._check_termination(termination, event.seq)
            case BuildCheck() | StaticCheck() as check:
                if check.subject == "candidate":
                    self.judged_checks.add(check.check_id)
                yield from self._check_attempt(check, event.seq, check.subject)
            case AcceptanceExecution() as check:
                yield from self._check_acceptance(check, event.seq)
            case _:
                self._take_note(event)

    def _take_note(self, event: Event) -> None:
        match event.payload:
            case TraceTruncated(final=final):
                self.is_dropping = not final
            case Response() | AgentConfiguration() as spoken:
                self._bind_conversation(spoken, event.seq)
            case _:
                pass

    def _bind_conversation(self, spoken: Response | AgentConfiguration, seq: int) -> None:
        name = spoken.conversation
        if isinstance(spoken, AgentConfiguration):
            self._bound_conversations.add(name)
            self.unbound_conversations.pop(name, None)
        # An answer without tokens is an error, or a number of tokens that was asked for.
        elif name not in self._bound_conversations and spoken.usage.output_tokens is not None:
            self.unbound_conversations.setdefault(name, seq)

    def _check_termination(self, termination: Termination, seq: int) -> Iterator[RunFinding]:
        if self.has_termination:
            yield build_finding("expected one termination, found another", seq=seq)
        self.has_termination = True
        signs = self._alerts | self._decisions | self._interventions
        if termination.category in _EARLY and signs.isdisjoint(termination.evidence):
            text = f"expected an alert, a decision or an intervention that led to {termination.category}"
            yield build_finding(f"{text}, found none", seq=seq)

    def _check_acceptance(self, check: AcceptanceExecution, seq: int) -> Iterator[RunFinding]:
        self.accepted_checks.add(check.check_id)
        if check.subject == "candidate":
            if self._phase != "accept":
                found = self._phase or "none"
                text = f"check {check.check_id}: expected an execution in the phase accept, found {found}"
                yield build_finding(text, seq=seq)
            if check.variant == "plain":
                self.judged_checks.add(check.check_id)
        yield from self._check_attempt(check, seq, check.subject, check.variant)

    def _check_attempt(
        self, check: BuildCheck | StaticCheck | AcceptanceExecution, seq: int, *series: str
    ) -> Iterator[RunFinding]:
        key = (check.event_type, check.check_id, *series)
        expected = self._attempts.get(key, 0) + 1
        if check.attempt != expected:
            text = f"check {check.check_id}: expected attempt {expected}, found attempt {check.attempt}"
            yield build_finding(text, seq=seq)
        self._attempts[key] = check.attempt

    def _check_phase(self, change: PhaseChanged, seq: int) -> Iterator[RunFinding]:
        if change.previous != self._phase:
            expected, found = self._phase or "no phase", change.previous or "no phase"
            yield build_finding(f"expected a change from {expected}, found one from {found}", seq=seq)
        elif self._phase is not None and _PHASES.index(change.phase) <= _PHASES.index(self._phase):
            yield build_finding(f"expected a phase after {self._phase}, found {change.phase}", seq=seq)
        self._phase = change.phase

    def _check_intervention(self, intervention: Intervention, seq: int) -> Iterator[RunFinding]:
        basis = intervention.basis
        if isinstance(basis, OnAlert):
            number, kind, known = basis.alert, "an alert", self._alerts
        else:
            number, kind, known = basis.decision, "a decision", self._decisions
        if number not in known:
            yield build_finding(f"expected event {number} to be {kind} before it, found none", seq=seq)

    def _check_blob(self, ref: BlobRef, seq: int) -> Iterator[RunFinding]:
        key = (ref.digest, ref.size_bytes)
        if key in self._seen_blobs:
            return
        self._seen_blobs.add(key)
        path = self._blobs.path_of(ref.digest)
        if f"{path.parent.parent.name}/{path.parent.name}/{path.name}" in self._gone:
            return
        try:
            found = digest_regular(path)
            size = os.lstat(path).st_size
        except EvidenceError as error:
            yield build_finding(error.message, seq=seq)
            return
        except OSError as error:
            yield build_finding(f"{path}: expected a blob, found: {describe_refusal(error)}", seq=seq)
            return
        if found != ref.digest or size != ref.size_bytes:
            expected = f"{ref.size_bytes} bytes with {ref.digest}"
            yield build_finding(f"{path}: expected {expected}, found {size} with {found}", seq=seq)


def _iter_blob_refs(value: object) -> Iterator[BlobRef]:
    match value:
        case BlobRef():
            yield value
        case msgspec.Struct():
            for name in value.__struct_fields__:
                yield from _iter_blob_refs(getattr(value, name))
        case tuple():
            for item in value:
                yield from _iter_blob_refs(item)
        case _:
            return
