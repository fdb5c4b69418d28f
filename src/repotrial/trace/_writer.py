"""The one writer of a trace: append-only, batched by bytes, crash-safe (P13, P15).

Whatever kills the process, the file is a prefix of what was appended, perhaps with a torn last line. A trace
is never opened again for appending: a retry is a new run directory.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Self, overload

import msgspec
import orjson

from repotrial._core.clock import Clock, MonotoneClock, SystemClock
from repotrial._core.closing import Closing
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.words import Stage, TextFormat
from repotrial.redaction import NO_REDACTION, Redactor, verify_canary
from repotrial.trace._blobs import BlobRef, BlobStore
from repotrial.trace._body import Body, OmittedBody, build_body, omit_bodies, redact_bytes
from repotrial.trace._budget import UNASSIGNED, TraceBudget, WriterOptions, checked_options
from repotrial.trace._chain import LINE_FRONTS, build_form
from repotrial.trace._event import ACTORS, Actor, Event, EventRef, TraceHead, build_event
from repotrial.trace._files import MAX_LINE_BYTES
from repotrial.trace._payloads import DROPPABLE_TYPES, DroppablePayload, KeptPayload, Payload
from repotrial.trace._payloads.common import EventPayload, Output
from repotrial.trace._payloads.course import TRACE_SCHEMA, MonitorAlert, RunOpened, Segment, TraceTruncated
from repotrial.trace._rundir import RunPaths
from repotrial.trace._trace_file import TraceFile, build_write_error
from repotrial.trace._validate import PAYLOAD_REFUSED, build_tree, explain_refusal, redact_tree

_OUTPUT_PREFIX_BYTES = 4 * 1024
_MEMBER_BYTES = len(b'"hash":"",\n') + 64


TRACE_CLOSED = ErrorCode(
    "trace-closed",
    UsageError,
    "The trace was closed before this event was appended.",
    hint="append before the writer is closed; a new run needs a new run directory",
)
EVENT_TOO_LARGE = ErrorCode(
    "event-too-large",
    UsageError,
    "One event would make a longer line than any reader accepts.",
    hint="make bodies with the writer; record a large workspace change as several events",
)


class DroppedEvent(msgspec.Struct, frozen=True):
    """The byte budget did not allow an event; the trace says so, and it has no place to point at."""

    type: str
    """The event's type."""


class TraceWriter(Closing):
    """Appends events to one trace. Threads may share it: what one of them appends keeps its order.

    An interrupt (Ctrl-C) at any point leaves it usable: an event is in the trace whole or not at all.
    """

    @classmethod
    def create(
        cls,
        paths: RunPaths,
        opened: RunOpened,
        *,
        clock: Clock | None = None,
        redactor: Redactor = NO_REDACTION,
        options: WriterOptions | None = None,
    ) -> Self:
        """Create the trace of a new run; its first event is in the file when this returns.

        Raises:
            TRACE_LOCKED: another writer holds the trace.
            TRACE_EXISTS: the run directory has a trace.
            TRACE_WRITE: the machine does not let us write.
            PAYLOAD_REFUSED: `opened` does not fit its type, or names other redaction rules.
            WRITER_OPTIONS: the options are not sensible.
            SCANNER_BROKEN: the redactor lets a canary through.
        """
        settings = checked_options(options or WriterOptions())
        verify_canary(redactor)
        _check_opening(opened, redactor)  # nothing is created for a run that cannot be opened
        file = TraceFile.create(paths, opened.run_id, is_durable=settings.is_durable)
        writer = cls(paths, file, clock=clock or SystemClock(), redactor=redactor, options=settings)
        try:
            writer.append(opened, actor="harness")
            writer.flush(durable=settings.is_durable)
        except BaseException:
            writer._release()
            raise
        return writer

    def __init__(
        self,
        paths: RunPaths,
        file: TraceFile,
        *,
        clock: Clock,
        redactor: Redactor,
        options: WriterOptions,
    ) -> None:
        """Use `create`."""
        self._paths = paths
        self._file = file
        self._now_us = MonotoneClock(clock).now_us
        self._redactor = redactor
        self._is_redacting = redactor is not NO_REDACTION
        self._options = options
        # What can be appended without a flush and without asking the budget, and how much that was at first.
        self._room = self._granted = 0
        self._budget = TraceBudget(run_bytes=options.run_budget_bytes, type_bytes=options.type_budget_bytes)
        self._blobs = BlobStore(paths.blobs)
        self._closed = False
        self._observer: Callable[[Event], None] | None = None
        self._mutex = threading.RLock()
        self.stage: Stage | None = None
        """The privilege stage that alerts carry from now on (P14); None while no agent acts."""
        self.tally: Counter[str] = Counter()
        """By monitor: what it was about to put on record, for its report at the end (Q5)."""

    @property
    def paths(self) -> RunPaths:
        return self._paths

    @property
    def head(self) -> TraceHead:
        """Count and last hash of everything appended so far, flushed or not; final once closed."""
        tip = self._file.tip
        return TraceHead(count=tip.count, hash=tip.hash.hex())

    @property
    def last_seq(self) -> int:
        """The place of the last event."""
        return self._file.tip.count - 1

    @overload
    def append(self, payload: KeptPayload, *, actor: Actor) -> EventRef: ...
    @overload
    def append(self, payload: DroppablePayload, *, actor: Actor) -> EventRef | DroppedEvent: ...
    def append(self, payload: Payload, *, actor: Actor) -> EventRef | DroppedEvent:
        """Record one event. Where this raises, the trace is unchanged and can be used on.

        Raises:
            PAYLOAD_REFUSED: the payload does not fit its type; the message names the field.
            EVENT_TOO_LARGE: the line would be too long.
            TRACE_WRITE: an earlier batch cannot be written.
            TRACE_CLOSED: the trace is closed.
        """
        tree = build_tree(payload)
        if isinstance(payload, MonitorAlert) and payload.stage is None:
            tree["stage"] = self.stage
        if self._is_redacting:
            tree = self._redacted(tree, type(payload))
        with self._mutex:
            if self._closed:
                raise _closed_error(self._paths)
            t = self._now_us()
            line_body, form = self._render(payload.event_type, tree, actor, t)
            size = len(line_body) + _MEMBER_BYTES
            result: EventRef | DroppedEvent
            if size > self._room:
                result, tree = self._append_within_budget(
                    payload.event_type, tree, (line_body, form), actor=actor, t=t
                )
            else:
                self._room -= size
                result = self._file.add(line_body, form, actor, t)
            if self._observer is not None and isinstance(result, EventRef):
                self._observer(build_event(result, tree, type(payload), actor))
        return result

    def alert(
        self,
        alert: MonitorAlert,
        text: str | bytes | None = None,
        *,
        form: TextFormat = "natural-language",
        event: int | None = None,
        offset_bytes: int | None = None,
    ) -> EventRef:
        """Record what a monitor found, with the text that it found it in.

        Args:
            alert: Without a segment.
            text: What triggered it; None if a measure did.
            form: What kind of text that is.
            event: Where the text stands; the last event if left out.
            offset_bytes: Where in that event's body; None if it is no part of one.
        """
        if text is not None:
            data = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
            body = self.body(data, of=MonitorAlert)
            place = self.last_seq if event is None else event
            segment = Segment(format=form, body=body, event=place, offset_bytes=offset_bytes)
            alert = msgspec.structs.replace(alert, segment=segment)
        self.tally[alert.monitor] += 1
        return self.append(alert, actor="monitor")

    def observe(self, observer: Callable[[Event], None]) -> None:
        """From now on, show every event as a reader will see it, in the trace's order.

        The observer is called before `append` returns, and must neither append nor take long.
        """
        with self._mutex:
            self._observer = observer

    def body(
        self, data: bytes, *, of: type[EventPayload] | None = None, prefix_bytes: int | None = None
    ) -> Body:
        """Redact `data` and keep it: inline, as a blob, or (over the budget) as its digest alone.

        Args:
            data: The original bytes.
            of: The payload type that will carry it: its budget pays for a blob. Bodies for no declared type
                give way like those of tool calls.
            prefix_bytes: Keep only the beginning: redacted first and cut then, never inside a placeholder.
        """
        owner = UNASSIGNED if of is None else of.event_type
        body = build_body(
            data,
            redactor=self._redactor,
            store=lambda stored: self._store(stored, owner),
            inline_bytes=self._options.inline_bytes,
            prefix_bytes=prefix_bytes,
        )
        if isinstance(body, OmittedBody):
            self._drop_body(owner, body.length_bytes)
        return body

    def output(
        self, data: bytes, *, of: type[EventPayload] | None = None, prefix_bytes: int = _OUTPUT_PREFIX_BYTES
    ) -> Output:
        """One output stream: all of it by digest, its beginning as a body (P14). See `body` for the rest."""
        prefix = self.body(data, of=of, prefix_bytes=prefix_bytes)
        return Output(digest=digest_bytes(data), length_bytes=len(data), prefix=prefix)

    def blob(self, data: bytes, *, of: type[EventPayload] | None = None) -> BlobRef | None:
        """Redact `data` and keep it as a blob, however short: for logs and whole streams.

        Returns:
            None over the budget; the trace counts it as a body that was left out.
        """
        owner = UNASSIGNED if of is None else of.event_type
        ref = self._store(redact_bytes(data, self._redactor)[0], owner)
        if ref is None:
            self._drop_body(owner, len(data))
        return ref

    def flush(self, *, durable: bool = False) -> None:
        """Hand everything to the operating system; with `durable`, wait until it is on the disk.

        Raises:
            TRACE_WRITE: the machine does not take it; nothing is lost, the next flush tries again.
            TRACE_CLOSED: the trace is closed.
        """
        with self._mutex:
            if self._closed:
                raise _closed_error(self._paths)
            if durable:
                self._sync_blobs()  # a line on disk never points at a blob that is not
            self._file.flush(durable=durable)

    def close(self) -> None:
        """Record the final count of what was dropped, flush everything, release the lock. Idempotent."""
        with self._mutex:
            if self._closed:
                return
            try:
                if (truncated := self._budget.conclude()) is not None:
                    self._accept_truncated(truncated)
                self._sync_blobs()  # their folders are not synced later
                self.flush(durable=self._options.is_durable)
            finally:
                self._release()

    def _append_within_budget(
        self, event_type: str, tree: dict[str, Any], rendered: tuple[bytes, bytes], *, actor: Actor, t: int
    ) -> tuple[EventRef | DroppedEvent, dict[str, Any]]:
        """For an event that does not simply fit: flush first, ask the budget, perhaps leave bodies out."""
        self._settle()
        size = len(rendered[0]) + _MEMBER_BYTES
        if size > MAX_LINE_BYTES:
            raise EVENT_TOO_LARGE.error(
                f"{event_type}: expected a line of at most {MAX_LINE_BYTES} bytes, found {size}"
            )
        if self._file.waiting_bytes + size > self._options.batch_bytes:
            self.flush()  # before the event is accepted: if it fails, nothing has changed
        result: EventRef | DroppedEvent
        if self._budget.try_spend(event_type, size):
            result = self._file.add(*rendered, actor, t)
        elif (reduced := self._reduced(event_type, tree, size)) is not None:
            tree = reduced
            result = self._file.add(*self._render(event_type, tree, actor, t), actor, t)
        else:
            result = DroppedEvent(event_type)
        if self._budget.must_announce:
            self._accept_truncated(self._budget.announce())
        left = self._options.batch_bytes - self._file.waiting_bytes
        self._room = self._granted = max(0, min(left, self._budget.unconditional_bytes))
        return result, tree

    def _settle(self) -> None:
        """Tell the budget what was taken of the room that it had granted."""
        self._budget.overspend(UNASSIGNED, self._granted - self._room)
        self._room = self._granted = 0

    def _accept_truncated(self, truncated: TraceTruncated) -> None:
        # No flush in between and no budget: a trace can always say that it is not complete.
        t = self._now_us()
        rendered = self._render(truncated.event_type, build_tree(truncated), "harness", t)
        self._file.add(*rendered, "harness", t)

    def _render(self, event_type: str, tree: dict[str, Any], actor: Actor, t: int) -> tuple[bytes, bytes]:
        """The line without its hash, and the form of it that is hashed."""
        if actor not in LINE_FRONTS:
            raise PAYLOAD_REFUSED.error(f"{event_type}: expected an actor of {ACTORS}, found {actor!r}")
        envelope = {"actor": actor, "payload": tree, "seq": self._file.tip.count, "t": t, "type": event_type}
        try:
            body = orjson.dumps(envelope, option=orjson.OPT_SORT_KEYS)
        except TypeError as error:  # lone surrogates: msgspec lets them pass, UTF-8 cannot hold them
            explain_refusal(event_type, tree, error)
        return body, build_form(body, envelope)

    def _reduced(self, event_type: str, tree: dict[str, Any], size: int) -> dict[str, Any] | None:
        """The tree that the budget still allows: without bodies; None if the event itself must go."""
        reduced, bodies, body_bytes = omit_bodies(tree)
        assert isinstance(reduced, dict)
        reduced_size = size - len(orjson.dumps(tree)) + len(orjson.dumps(reduced))
        if not self._budget.try_spend(event_type, reduced_size):
            if event_type in DROPPABLE_TYPES:
                self._budget.drop_event(event_type, size)
                return None
            self._budget.overspend(event_type, reduced_size)
        if bodies:
            self._budget.drop_bodies(event_type, bodies, body_bytes)
        return reduced

    def _redacted(self, tree: dict[str, Any], kind: type[EventPayload]) -> dict[str, Any]:
        redacted = redact_tree(tree, kind, self._redactor)
        try:
            msgspec.convert(redacted, kind)
        except msgspec.ValidationError as error:
            raise PAYLOAD_REFUSED.error(f"{kind.event_type}: after redaction: {error}") from error
        return redacted

    def _store(self, stored: bytes, owner: str) -> BlobRef | None:
        ref = BlobRef(digest=digest_bytes(stored), size_bytes=len(stored))
        with self._mutex:
            if self._blobs.holds(ref):
                return ref
            self._settle()
            if not self._budget.try_spend(owner, len(stored)):
                return None
            try:
                self._blobs.put(stored)
            except OSError as error:
                raise build_write_error(self._paths, error) from error
        return ref

    def _sync_blobs(self) -> None:
        try:
            self._blobs.sync()
        except OSError as error:
            raise build_write_error(self._paths, error) from error

    def _drop_body(self, owner: str, length_bytes: int) -> None:
        with self._mutex:
            self._settle()  # so that the next event announces it
            self._budget.drop_bodies(owner, 1, length_bytes)

    def _release(self) -> None:
        self._closed = True
        self._file.release()


def _check_opening(opened: RunOpened, redactor: Redactor) -> None:
    build_tree(opened)
    for field, expected, found in (
        ("schema", TRACE_SCHEMA, opened.schema),
        ("redaction_rules_id", redactor.rules_id, opened.redaction_rules_id),
    ):
        if found != expected:
            raise PAYLOAD_REFUSED.error(f"run-opened: expected {expected} at `$.{field}`, found {found}")


def _closed_error(paths: RunPaths) -> UsageError:
    return TRACE_CLOSED.error(f"{paths.trace}: expected an open trace, found it closed")
