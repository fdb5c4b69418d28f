"""Verification of the chain, on the raw bytes of the file.

The verdict is a type. *Tampered*: the bytes are not those of one writer of this format. *Truncated*: what is
there holds, but the end is missing. *Unverifiable*: it cannot be decided here (no readable file, or a payload
that a newer release may have written). *UnknownVersion*: another major version of the format.

Event types that this release does not know are kept and counted, not an error: adding a type is a minor
change, and the chain holds whatever a payload means. A check of completeness counts the types it knows.

A chain alone says nothing about a clean cut between two lines, nor about hashes that were all computed
anew: both take the head and the count, which the seal signs (`expected`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, TypeAlias

import msgspec
import orjson

from repotrial._core.canonical import MAX_SAFE_INTEGER, Count
from repotrial._core.errors import EvidenceError
from repotrial.trace._body import iter_withdrawn
from repotrial.trace._chain import build_form, cut_line, genesis_hash, link_hash
from repotrial.trace._event import TraceHead
from repotrial.trace._files import TRACE_LINE_TOO_LONG, TRACE_UNREADABLE, LineReader, open_regular
from repotrial.trace._payloads import PAYLOAD_TYPES
from repotrial.trace._payloads.course import TRACE_SCHEMAS, TRACE_VERSION, RunOpened

_BadEventReason: TypeAlias = Literal[
    "malformed",
    "hash-mismatch",
    "out-of-order",
    "not-canonical",
    "time-not-increasing",
    "opened-twice",
    "other-run",
    "line-too-long",
    "after-head",
    "other-head",
    "torn-tail",
    "missing-events",
    "empty",
    "not-a-trace",
    "payload-misfit",
    "unreadable",
]
"""What is wrong with the first bad event."""


class BadEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Where a trace stops to hold."""

    seq: Count
    """Position of the event, from 0."""
    offset_bytes: Count
    """Where its line begins in the file."""
    reason: _BadEventReason
    """What is wrong, for machines."""
    detail: str
    """What was expected and what was found."""


class _Status(msgspec.Struct, frozen=True, kw_only=True, tag_field="status"):
    pass


class Intact(_Status, frozen=True, kw_only=True, tag="intact"):
    """Every event is as it was written."""


class Tampered(_Status, frozen=True, kw_only=True, tag="tampered"):
    """The file is not what one writer of this format wrote."""

    first_bad: BadEvent
    """The first event that does not hold."""


class Truncated(_Status, frozen=True, kw_only=True, tag="truncated"):
    """What is there holds; the end is missing."""

    first_bad: BadEvent
    """The first event that is missing or torn."""


class Unverifiable(_Status, frozen=True, kw_only=True, tag="unverifiable"):
    """It cannot be decided here whether the trace holds."""

    first_bad: BadEvent
    """The first event that cannot be judged."""


class UnknownVersion(_Status, frozen=True, kw_only=True, tag="unknown-version"):
    """The trace says that it has another major version."""

    schema: str
    """What it says."""


ChainStatus: TypeAlias = Intact | Tampered | Truncated | Unverifiable | UnknownVersion
"""The verdict on a chain."""


class UnknownTypeCount(msgspec.Struct, frozen=True, kw_only=True):
    """Events of a type that this release does not know."""

    type: str
    """The type."""
    count: Annotated[int, msgspec.Meta(ge=1)]
    """How many."""


class ChainReport(msgspec.Struct, frozen=True, kw_only=True):
    """What verification found."""

    status: ChainStatus
    """The verdict."""
    run_id: str | None
    """The run that the trace says it belongs to; null if its first event cannot be read."""
    count: Count
    """How many events hold, from the first."""
    head: TraceHead | None
    """Count and hash of the last event that holds; null if none does."""
    verified_bytes: Count
    """Length of the part that holds."""
    unknown_types: tuple[UnknownTypeCount, ...] = ()
    """Events that were chained correctly but not understood."""
    withdrawn: tuple[str, ...] = ()
    """Digests of bodies that were taken out after the run, where version 2 allows it; sorted."""

    @property
    def is_intact(self) -> bool:
        return isinstance(self.status, Intact)


_SCHEMA = re.compile(r"repotrial/trace@[0-9]{1,9}")
_EVENT_TYPE = re.compile(r"[a-z][a-z0-9-]{0,99}")
_MAX_UNKNOWN_TYPES = 100
"""Of those that are told apart: a forged trace could invent a new one in every line."""
_OTHER_TYPES = "other-types"
_WITHDRAWN_MARK = b'"stored":"withdrawn"'
_MEMBERS = frozenset({"actor", "hash", "payload", "seq", "t", "type"})


def check_chain(path: Path, *, run_id: str | None = None, expected: TraceHead | None = None) -> ChainReport:
    """Verify a trace; never raises because of what the file holds.

    Args:
        path: The event log.
        run_id: The run that it must belong to; None takes the run that its first event names.
        expected: Count and head from a seal; None cannot tell a trace from a shorter one of itself.
    """
    try:
        with open_regular(path) as stream:
            return check_stream(stream, run_id=run_id, expected=expected)
    except EvidenceError as error:
        if error.code != TRACE_UNREADABLE:
            raise
        walk = _Walk(run_id)
        return walk.report(Unverifiable(first_bad=walk.bad("unreadable", error.message)))


def check_stream(
    stream: BinaryIO, *, run_id: str | None = None, expected: TraceHead | None = None
) -> ChainReport:
    """The same for an open stream of bytes."""
    walk = _Walk(run_id)
    try:
        status = _check_lines(LineReader(stream), walk, expected)
    except EvidenceError as error:
        if error.code == TRACE_UNREADABLE:
            status = Unverifiable(first_bad=walk.bad("unreadable", error.message))
        elif error.code == TRACE_LINE_TOO_LONG:
            status = Tampered(first_bad=walk.bad("line-too-long", error.message))
        else:
            raise
    return walk.report(status)


def _check_lines(reader: LineReader, walk: _Walk, expected: TraceHead | None) -> ChainStatus:
    lines = iter(reader)
    first = next(lines, None)
    if first is None:
        return _check_end(reader, walk, expected)
    stop = walk.open(first) or walk.step(first)
    if stop is None:
        rest = lines if expected is None else islice(lines, max(expected.count - 1, 0))
        stop = _walk_lines(rest, walk)
    if stop is None and expected is not None:
        stop = _check_head(lines, walk, expected)
    return stop or _check_end(reader, walk, expected)


def _walk_lines(lines: Iterator[bytes], walk: _Walk) -> ChainStatus | None:
    step = walk.step
    for line in lines:
        status = step(line)
        if status is not None:
            return status
    return None


def _check_head(lines: Iterator[bytes], walk: _Walk, expected: TraceHead) -> ChainStatus | None:
    if walk.count == expected.count and walk.previous.hex() != expected.hash:
        found = walk.previous.hex()
        return Tampered(first_bad=walk.bad("other-head", f"expected the head {expected.hash}, found {found}"))
    if walk.count > expected.count or next(lines, None) is not None:
        return Tampered(first_bad=walk.bad("after-head", f"expected {expected.count} events, found more"))
    return None


def _check_end(reader: LineReader, walk: _Walk, expected: TraceHead | None) -> ChainStatus:
    torn = len(reader.torn)
    if expected is not None and walk.count >= expected.count and torn:
        return Tampered(first_bad=walk.bad("after-head", f"expected no more bytes, found {torn}"))
    if torn:
        return Truncated(
            first_bad=walk.bad("torn-tail", f"expected a complete line, found {torn} bytes of one")
        )
    if expected is not None and walk.count < expected.count:
        detail = f"expected {expected.count} events, found {walk.count}"
        return Truncated(first_bad=walk.bad("missing-events", detail))
    if walk.count == 0:
        return Truncated(first_bad=walk.bad("empty", "expected a run-opened event, found an empty file"))
    return Intact() if walk.misfit is None else Unverifiable(first_bad=walk.misfit)


class _Walk:
    """The state of one verification: how far it is, and what the next line must be chained to."""

    def __init__(self, run_id: str | None) -> None:
        self._run_id = run_id
        self._found_run_id: str | None = None
        self._last_t = -1
        self._unknown: Counter[str] = Counter()
        self._version = TRACE_VERSION
        self._withdrawn: set[str] = set()
        self.previous = b""
        self.count = 0
        self.offset = 0
        self.misfit: BadEvent | None = None
        """The first payload that does not fit its type though its hash holds."""

    def open(self, line: bytes) -> ChainStatus | None:
        """Learn from the first line which version and which run this is."""
        payload = _parse_opening(line)
        schema = payload.get("schema")
        if isinstance(schema, str) and schema not in TRACE_SCHEMAS and _SCHEMA.fullmatch(schema):
            return UnknownVersion(schema=schema)
        self._version = TRACE_SCHEMAS.get(str(schema), TRACE_VERSION)
        found = payload.get("run_id")
        self._found_run_id = found if isinstance(found, str) else None
        run_id = self._run_id if self._run_id is not None else self._found_run_id
        if run_id is None:
            return Unverifiable(
                first_bad=self.bad("not-a-trace", "expected a run-opened event, found another line")
            )
        if self._found_run_id is not None and run_id != self._found_run_id:
            detail = f"expected the trace of run {run_id}, found one of {self._found_run_id[:200]}"
            return Tampered(first_bad=self.bad("other-run", detail))
        self.previous = genesis_hash(run_id)
        return None

    def step(self, line: bytes) -> ChainStatus | None:
        """Verify one line; None goes on."""
        parts = cut_line(line)
        if parts is None:
            return self._tampered(
                "malformed", "expected an event with its hash behind the actor, found another line"
            )
        form, event, refusal = parts[1], {}, None
        try:
            event = orjson.loads(line)
            form = form if self._version == 1 else build_form(form, event)
            if orjson.dumps(event, option=orjson.OPT_SORT_KEYS) != line:
                refusal = "expected the canonical serialization, found another"
        except (ValueError, TypeError, RecursionError) as error:
            refusal = f"expected canonical JSON, found: {error}"
        link = link_hash(self.previous, self.count, form, version=self._version)
        if link.hex().encode() != parts[0]:
            return self._explain_mismatch(line)
        if refusal is not None:
            return self._tampered("not-canonical", refusal)
        if _WITHDRAWN_MARK in line:
            self._withdrawn.update(iter_withdrawn(event))
        wrong = self._check_event(event)
        if wrong is not None:
            return wrong
        self.previous = link
        self.count += 1
        self.offset += len(line) + 1
        return None

    def bad(self, reason: _BadEventReason, detail: str) -> BadEvent:
        return BadEvent(seq=self.count, offset_bytes=self.offset, reason=reason, detail=detail)

    def report(self, status: ChainStatus) -> ChainReport:
        head = TraceHead(count=self.count, hash=self.previous.hex()) if self.count else None
        return ChainReport(
            status=status,
            run_id=self._found_run_id,
            count=self.count,
            head=head,
            verified_bytes=self.offset,
            unknown_types=tuple(
                UnknownTypeCount(type=name, count=count) for name, count in sorted(self._unknown.items())
            ),
            withdrawn=tuple(sorted(self._withdrawn)),
        )

    def _tampered(self, reason: _BadEventReason, detail: str) -> Tampered:
        return Tampered(first_bad=self.bad(reason, detail))

    def _check_event(self, event: dict[str, Any]) -> ChainStatus | None:
        problem = self._check_envelope(event)
        if problem is not None:
            return Tampered(first_bad=problem)
        event_type, payload = event["type"], event["payload"]
        self._last_t = event["t"]
        kind = PAYLOAD_TYPES.get(event_type)
        if kind is None or (kind is RunOpened) != (self.count == 0):
            return self._check_unusual(event_type, payload)
        try:
            msgspec.convert(payload, kind)
        except msgspec.ValidationError as error:
            if self.misfit is None:
                self.misfit = self.bad("payload-misfit", f"{event_type}: {error}")
        return None

    def _check_envelope(self, event: dict[str, Any]) -> BadEvent | None:
        if event.keys() != _MEMBERS:
            return self.bad("malformed", f"expected the members {sorted(_MEMBERS)}, found others")
        seq, t = event["seq"], event["t"]
        if type(seq) is not int or seq != self.count:
            return self.bad("out-of-order", f"expected seq {self.count}, found {_shown(seq)}")
        if type(t) is not int or not self._last_t < t <= MAX_SAFE_INTEGER:
            return self.bad("time-not-increasing", f"expected a time after {self._last_t}, found {_shown(t)}")
        if type(event["type"]) is not str:
            return self.bad("malformed", "expected the type as text, found something else")
        return None

    def _check_unusual(self, event_type: str, payload: object) -> ChainStatus | None:
        if not _EVENT_TYPE.fullmatch(event_type):
            return self._tampered("malformed", "expected the type in kebab-case, found something else")
        if self.count == 0:
            return self._tampered("malformed", f"expected run-opened as the first event, found {event_type}")
        if event_type == RunOpened.event_type:
            return self._tampered("opened-twice", "expected one run-opened event, found another")
        if not isinstance(payload, dict) or not _is_restricted(payload):
            return self._tampered("not-canonical", f"{event_type}: expected an object without fractions")
        is_told_apart = event_type in self._unknown or len(self._unknown) < _MAX_UNKNOWN_TYPES
        self._unknown[event_type if is_told_apart else _OTHER_TYPES] += 1
        return None

    def _explain_mismatch(self, line: bytes) -> Tampered:
        try:
            event = orjson.loads(line)
        except ValueError as error:
            return self._tampered("hash-mismatch", f"expected the bytes that were hashed, found: {error}")
        seq = event.get("seq") if isinstance(event, dict) else None
        if type(seq) is int and seq != self.count:
            return self._tampered("out-of-order", f"expected event {self.count}, found event {seq}")
        return self._tampered("hash-mismatch", "expected the bytes that were hashed, found others")


def _shown(value: object) -> str:
    return str(value) if type(value) is int else f"a {type(value).__name__}"


def _parse_opening(line: bytes) -> dict[str, Any]:
    try:
        event = orjson.loads(line)
    except ValueError:
        return {}
    match event:
        case {"type": RunOpened.event_type, "payload": dict(payload)}:
            return payload
        case _:
            return {}


def _is_restricted(value: object) -> bool:
    """Whether parsed JSON has only what canonical bytes allow; without recursion, however deep it is."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if not all(key.isascii() for key in item):
                return False
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, float) or (isinstance(item, int) and abs(item) > MAX_SAFE_INTEGER):
            return False
    return True
