"""Reading a trace: streamed, typed, with bounded memory. Reading checks form; `check_chain` checks truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial.trace._event import Event, EventEnvelope, UnknownPayload
from repotrial.trace._files import TRACE_LINE_TOO_LONG, LineReader, open_regular
from repotrial.trace._payloads import PAYLOAD_TYPES, Payload
from repotrial.trace._payloads.checks import AcceptanceExecution, Passed
from repotrial.trace._payloads.common import EventPayload
from repotrial.trace._payloads.course import RunOpened
from repotrial.trace._payloads.harness import ManifestBound

_MAX_WAITING: Final = 10_000
"""Nothing is between two runs of a suite but other checks: only a forged trace has more."""

_Key: TypeAlias = tuple[str, str, int]


def iter_with_moot(events: Iterable[Event]) -> Iterator[tuple[Event, bool]]:
    """Every event in its order, and whether it is a twin run that is moot.

    A plain run comes after its twin run (ADR 0019): events in between wait for it.

    Raises:
        EvidenceError: as the events do, after those that were read.
    """
    waiting: list[Event] = []
    unsettled: set[_Key] = set()
    passed: dict[_Key, bool] = {}
    try:
        for event in events:
            waiting.append(event)
            if isinstance(event.payload, AcceptanceExecution):
                key = _build_key(event.payload)
                if event.payload.variant == "plain":
                    passed[key] = isinstance(event.payload.outcome, Passed)
                    unsettled.discard(key)
                elif key not in passed:
                    unsettled.add(key)
            if not unsettled or len(waiting) >= _MAX_WAITING:
                yield from _settle(waiting, passed)
                waiting.clear()
    except EvidenceError:
        yield from _settle(waiting, passed)
        raise
    yield from _settle(waiting, passed)


def _settle(waiting: Iterable[Event], passed: dict[_Key, bool]) -> Iterator[tuple[Event, bool]]:
    for event in waiting:
        match event.payload:
            case AcceptanceExecution(variant="twins") as doubt:
                yield event, not passed.get(_build_key(doubt), True)
            case _:
                yield event, False


def _build_key(check: AcceptanceExecution) -> _Key:
    return check.check_id, check.subject, check.attempt


MALFORMED_EVENT = ErrorCode(
    "malformed-event",
    EvidenceError,
    "A line of a trace is not an event: not JSON, no envelope, or a payload that does not fit its type.",
    hint="verify the run directory to learn which event was changed",
)
TORN_TAIL = ErrorCode(
    "torn-tail",
    EvidenceError,
    "The last line of a trace is incomplete: the writer was stopped in the middle of it.",
    hint="the harness was stopped while it wrote; `repotrial run show RUN_DIR` shows what came before, and "
    "the same `repotrial run start` makes a whole record",
)


_ENVELOPE = msgspec.json.Decoder(EventEnvelope)
_PAYLOADS: dict[str, msgspec.json.Decoder[EventPayload]] = {
    name: msgspec.json.Decoder(payload) for name, payload in PAYLOAD_TYPES.items()
}


def iter_envelopes(
    path: Path, *, allow_torn_tail: bool = False, first: int = 0, offset: int = 0
) -> Iterator[EventEnvelope]:
    """The events in order, payloads left as bytes; from the first, or from one whose offset is known.

    Raises:
        TRACE_UNREADABLE: there is no such file, or it is not a regular one.
        TRACE_LINE_TOO_LONG: a line is longer than any event.
        MALFORMED_EVENT: a line is not an envelope, or is out of order.
        TORN_TAIL: after the last complete event, where the tail is torn and not allowed.
    """
    with open_regular(path) as stream:
        stream.seek(offset)
        reader = LineReader(stream)
        try:
            for seq, line in enumerate(reader, start=first):
                yield _parse_envelope(line, seq, path)
        except EvidenceError as error:
            if error.code != TRACE_LINE_TOO_LONG:
                raise
            raise TRACE_LINE_TOO_LONG.error(f"{path}: {error.message}") from error
        if reader.torn and not allow_torn_tail:
            raise TORN_TAIL.error(
                f"{path}: expected a newline at the end, found {len(reader.torn)} bytes after it"
            )


def iter_events(
    path: Path, *, allow_torn_tail: bool = False, first: int = 0, offset: int = 0
) -> Iterator[Event]:
    """The events in order, payloads typed; types that this release does not know come as `UnknownPayload`.

    Args:
        path: The trace.
        allow_torn_tail: Whether an incomplete last line is left out in silence.
        first: The event to begin with.
        offset: Where its line begins, in bytes.

    Raises:
        TRACE_UNREADABLE: there is no such file, or it is not a regular one.
        TRACE_LINE_TOO_LONG: a line is longer than any event.
        MALFORMED_EVENT: a line is not an event, or is out of order.
        TORN_TAIL: after the last complete event, where the tail is torn and not allowed.
    """
    for envelope in iter_envelopes(path, allow_torn_tail=allow_torn_tail, first=first, offset=offset):
        yield Event(
            actor=envelope.actor,
            hash=envelope.hash,
            payload=_parse_payload(envelope, path),
            seq=envelope.seq,
            t=envelope.t,
            type=envelope.type,
        )


def find_bound_manifest(events: Iterable[Event]) -> Digest | None:
    """The manifest that a trace speaks of: named at its opening in version 1, later in version 2."""
    for event in events:
        match event.payload:
            case RunOpened(manifest_digest=str(digest)) | ManifestBound(manifest_digest=digest):
                return digest
            case _:
                pass
    return None


def _parse_envelope(line: bytes, seq: int, path: Path) -> EventEnvelope:
    try:
        envelope = _ENVELOPE.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MALFORMED_EVENT.error(
            f"{path}: event {seq}: expected an event envelope, found: {error}"
        ) from error
    if envelope.seq != seq:
        raise MALFORMED_EVENT.error(f"{path}: event {seq}: expected seq {seq}, found {envelope.seq}")
    return envelope


def _parse_payload(envelope: EventEnvelope, path: Path) -> Payload | UnknownPayload:
    decoder = _PAYLOADS.get(envelope.type)
    if decoder is None:
        return UnknownPayload(data=bytes(envelope.payload))
    try:
        payload: Payload = decoder.decode(envelope.payload)  # type: ignore[assignment]  # the table's values are Payload
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MALFORMED_EVENT.error(f"{path}: event {envelope.seq} ({envelope.type}): {error}") from error
    return payload
