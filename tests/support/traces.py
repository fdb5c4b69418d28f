"""Traces for tests: writers, small payloads, and strategies that build payloads from their types."""

from __future__ import annotations

import contextlib
import resource
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import orjson
from hypothesis import strategies as st

from repotrial._core.clock import Clock
from repotrial._core.digest import DIGEST_PATTERN
from repotrial._core.words import LifecyclePhase
from repotrial.redaction import NO_REDACTION, Redactor
from repotrial.trace import (
    BlobRef,
    Body,
    EventPayload,
    EventRef,
    ExitUnknown,
    PhaseChanged,
    ProgramStart,
    RunOpened,
    RunPaths,
    TextBody,
    ToolInvocation,
    TraceHead,
    TraceWriter,
    WriterOptions,
)
from repotrial.trace._body import build_body
from repotrial.trace._chain import build_form, cut_line, genesis_hash, link_hash
from repotrial.trace._writer import DroppedEvent

RUN_ID = "run-1"
DIGEST = "sha256:" + "ab" * 32

_DIGESTS = st.binary(min_size=32, max_size=32).map(lambda raw: "sha256:" + raw.hex())
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


class SteppingClock:
    """A clock that shows what it is told, one reading after the other, then stands still."""

    def __init__(self, *readings_us: int) -> None:
        self._readings = list(readings_us)

    def now_us(self) -> int:
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]


def build_opened(run_id: str = RUN_ID) -> RunOpened:
    return RunOpened(
        run_id=run_id, manifest_digest=DIGEST, redaction_rules_id="none", harness_version="0.1.0"
    )


def open_writer(
    root: Path,
    *,
    run_id: str = RUN_ID,
    clock: Clock | None = None,
    redactor: Redactor = NO_REDACTION,
    options: WriterOptions | None = None,
) -> TraceWriter:
    opened = msgspec.structs.replace(build_opened(run_id), redaction_rules_id=redactor.rules_id)
    return TraceWriter.create(RunPaths(root), opened, clock=clock, redactor=redactor, options=options)


def build_text(text: str) -> Body:
    """A body as a writer without redaction makes it; only for short texts."""

    def store(data: bytes) -> BlobRef | None:
        raise AssertionError(f"{len(data)} bytes do not fit inline")

    return build_body(text.encode(), store=store, inline_bytes=4096)


def build_invocation(arguments: Body | None = None, *, result: Body | None = None) -> ToolInvocation:
    return ToolInvocation(
        tool="read",
        source="gateway",
        arguments=build_text("{}") if arguments is None else arguments,
        exit=ExitUnknown(reason="not a command"),
        started_at_us=1_700_000_000_000_000,
        wall_us=7,
        result=result,
    )


def build_start(*argv: str, number: int = 1, phase: LifecyclePhase = "act") -> ProgramStart:
    return ProgramStart(
        witness=1,
        phase=phase,
        number=number,
        parent=None,
        command=None,
        argv=argv,
        path=f"/usr/bin/{argv[0]}",
        exe=f"/usr/bin/{argv[0]}",
        cwd=".",
        pid=100 + number,
        started_at_us=1_700_000_000_000_000,
        confirmed=True,
    )


def write_trace(root: Path, events: int, *, run_id: str = RUN_ID) -> TraceHead:
    """A trace of so many small events, the opening one included."""
    with open_writer(root, run_id=run_id) as writer:
        for number in range(events - 1):
            writer.append(PhaseChanged(phase="act", previous="brief" if number else None), actor="harness")
        return writer.head


def ref_of(result: EventRef | DroppedEvent) -> EventRef:
    """The reference of an event that must not have been dropped."""
    assert isinstance(result, EventRef)
    return result


def text_of(body: Body | None) -> str:
    assert isinstance(body, TextBody)
    return body.text


@cache
def payloads_of(kind: type[EventPayload]) -> st.SearchStrategy[Any]:
    """Payloads of one kind, built from the types of its fields."""
    return _strategy(msgspec.inspect.type_info(kind))


def _strategy(info: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: _strategy(field.type) for field in fields})
        case msgspec.inspect.UnionType(types=types):
            return st.one_of(*map(_strategy, types))
        case msgspec.inspect.VarTupleType(item_type=item, min_length=least):
            return st.lists(_strategy(item), min_size=least or 0, max_size=3).map(tuple)
        case msgspec.inspect.IntType(ge=least, le=most):
            return st.integers(least, most)
        case msgspec.inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case msgspec.inspect.Metadata(type=inner):
            return _strategy(inner)
        case msgspec.inspect.StrType():
            return _text(info)
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.NoneType():
            return st.none()
        case _:
            raise AssertionError(f"no strategy for {info}")


def _text(info: msgspec.inspect.StrType) -> st.SearchStrategy[str]:
    if info.pattern == DIGEST_PATTERN or info.min_length == 71:
        return _DIGESTS
    if info.pattern is not None and "trace@" in info.pattern:
        return st.just("repotrial/trace@2")
    if info.pattern is not None and info.pattern.startswith("^[A-Za-z0-9]["):
        return st.text(string.ascii_letters + string.digits, min_size=1, max_size=12)
    if info.pattern is not None:
        return st.sampled_from(["0", "-1", "0.5", "-0.25", "120", "3.141"])
    return _TEXTS.filter(bool) if info.min_length else _TEXTS


def chain_bodies(bodies: list[bytes], *, run_id: str = RUN_ID) -> bytes:
    """What an attacker writes who knows the format: every hash computed anew, from the first event on."""
    previous = genesis_hash(run_id)
    lines = []
    for seq, body in enumerate(bodies):
        previous = link_hash(previous, seq, _form_of(body), version=2)
        cut = body.index(b",") + 1
        lines.append(body[:cut] + b'"hash":"' + previous.hex().encode() + b'",' + body[cut:] + b"\n")
    return b"".join(lines)


def _form_of(body: bytes) -> bytes:
    try:
        return build_form(body, orjson.loads(body))
    except (ValueError, TypeError, RecursionError):
        return body  # no event at all: an attacker hashes it as it is


def bodies_of(trace: bytes) -> list[bytes]:
    """The hashed part of each line."""
    parts = [cut_line(line) for line in trace.splitlines()]
    return [part[1] for part in parts if part is not None]


@contextlib.contextmanager
def full_disk(room_bytes: int) -> Iterator[None]:
    """No file may grow beyond so many bytes, as if the disk had no more."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
