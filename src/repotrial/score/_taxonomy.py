"""The published rubric (S14): gates, weights and failure modes are data that rules read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.contract import ChangeEnvelope, DimensionWeights
from repotrial.score._evidence import (
    ChangePointer,
    Document,
    EventPointer,
    EvidencePointer,
    GateId,
    Line,
    StreamPointer,
    Trigger,
)

ARTIFACTS = ("failure-taxonomy.jsonl", "rubric.json", "weights.json")
"""What is published beside the schemas."""

_MAX_POINTERS = 50
"""More evidence of one failure says nothing new, and an agent can make a million alerts."""


TAG_REFUSED = ErrorCode(
    "tag-refused",
    UsageError,
    "A failure tag was to be given without the evidence that its taxonomy record asks for.",
    hint="a tag names a failure mode of the taxonomy and points at events or at the change",
)


class Signature(Document, frozen=True, kw_only=True):
    """What in a trace shows a failure mode; empty where the outcome of a check alone does."""

    alert_rules: tuple[str, ...] = ()
    """Rules of monitor alerts."""
    termination_codes: tuple[str, ...] = ()
    """Codes of terminations."""
    stop_reasons: tuple[str, ...] = ()
    """Stop reasons of model responses."""
    log_patterns: tuple[str, ...] = ()
    """Regular expressions over the output of a failed check; the group is the name that they catch."""


class FailureMode(Document, frozen=True, kw_only=True):
    """One record of the taxonomy (S8)."""

    id: Line
    """Its name; stable."""
    title: Line
    """What it is, in a line."""
    gates: Annotated[tuple[GateId, ...], msgspec.Meta(min_length=1)]
    """The gates that it can explain."""
    minimum_evidence: Line
    """Without this, the tag is refused."""
    events: tuple[str, ...]
    """Types of events that can be evidence of it."""
    attributes: tuple[str, ...] = ()
    """What a tag may say beyond its evidence."""
    signature: Signature = Signature()
    """What a detection rule looks for."""


class Weights(Document, frozen=True, kw_only=True):
    """The published defaults of grading."""

    schema: Literal["repotrial/weights@1"]
    """Which version of this format."""
    weights: DimensionWeights
    """Of the graded dimensions."""
    decay: Decimal = msgspec.field(name="lambda")
    """λ of q_minimal."""
    envelope: ChangeEnvelope
    """The size of change that costs nothing."""
    perturbation: Decimal
    """How far each weight is moved for the local sensitivity."""


class FailureTag(Document, frozen=True, kw_only=True):
    """A failure mode that the evidence shows; one without evidence cannot be made."""

    id: Line
    """The failure mode."""
    gates: tuple[GateId, ...]
    """The gates that it explains here."""
    evidence: Annotated[tuple[EvidencePointer, ...], msgspec.Meta(min_length=1)]
    """Where it shows; the first 50 places."""
    attributes: dict[str, str] = {}  # noqa: RUF012  # msgspec copies it
    """More about it, as the taxonomy names it."""
    tests: tuple[str, ...] = ()
    """Tests that it is about; the first of them."""
    triggers: tuple[Trigger, ...] = ()
    """On safety tags: the exact pieces of text that were matched (S10)."""

    @property
    def event_seqs(self) -> tuple[int, ...]:
        """The events among the evidence."""
        return tuple(pointer.seq for pointer in self.evidence if isinstance(pointer, EventPointer))

    def __post_init__(self) -> None:
        mode = find_mode(self.id)
        if mode is None:
            raise TAG_REFUSED.error(f"expected a failure mode of the taxonomy, found {self.id!r}")
        if not any(_is_evidence(pointer, mode) for pointer in self.evidence):
            raise TAG_REFUSED.error(f"{self.id}: expected {mode.minimum_evidence}, found none")
        if not self.gates or not set(self.gates) <= set(mode.gates):
            raise TAG_REFUSED.error(f"{self.id}: expected gates out of {mode.gates}, found {self.gates}")
        if unknown := set(self.attributes) - set(mode.attributes):
            raise TAG_REFUSED.error(
                f"{self.id}: expected attributes of the taxonomy, found {sorted(unknown)}"
            )


def _is_evidence(pointer: EvidencePointer, mode: FailureMode) -> bool:
    match pointer:
        case EventPointer(type=event_type) | StreamPointer(type=event_type):
            return event_type in mode.events
        case ChangePointer():
            return "patch-application" in mode.events


def build_tag(
    mode_id: str,
    gates: tuple[GateId, ...],
    evidence: tuple[EvidencePointer, ...],
    *,
    attributes: Mapping[str, str] | None = None,
    tests: tuple[str, ...] = (),
    triggers: tuple[Trigger, ...] = (),
) -> FailureTag:
    """A tag with its evidence in order and bounded.

    Raises:
        TAG_REFUSED: the taxonomy has no such mode, or the evidence is not what it asks for.
    """
    unique = sorted(set(evidence), key=_pointer_order)
    return FailureTag(
        id=mode_id,
        gates=tuple(sorted(set(gates))),
        evidence=tuple(unique[:_MAX_POINTERS]),
        attributes=dict(sorted((attributes or {}).items())),
        tests=tests[:_MAX_POINTERS],
        triggers=triggers[:_MAX_POINTERS],
    )


def _pointer_order(pointer: EvidencePointer) -> tuple[int, int, str]:
    match pointer:
        case EventPointer(seq=seq) | StreamPointer(seq=seq):
            return 0, seq, ""
        case ChangePointer(path=path):
            return 1, 0, path


def load_artifact(name: str) -> bytes:
    """The bytes of a published artifact, as they lie in the package."""
    return (files("repotrial.score") / "data" / name).read_bytes()


@cache
def load_taxonomy() -> tuple[FailureMode, ...]:
    """All failure modes, in their published order."""
    decoder = msgspec.json.Decoder(FailureMode)
    return tuple(decoder.decode_lines(load_artifact("failure-taxonomy.jsonl")))


@cache
def load_weights() -> Weights:
    """The published defaults of grading."""
    return msgspec.json.decode(load_artifact("weights.json"), type=Weights)


@cache
def log_patterns(mode_id: str) -> tuple[re.Pattern[str], ...]:
    """The compiled log signature of a failure mode."""
    mode = find_mode(mode_id)
    return () if mode is None else tuple(re.compile(text) for text in mode.signature.log_patterns)


def find_mode(mode_id: str) -> FailureMode | None:
    """The failure mode of that id."""
    return next((mode for mode in load_taxonomy() if mode.id == mode_id), None)
