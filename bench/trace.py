"""Traces: appending against RFC 8785 per event, verifying against parse-and-recanonicalize."""  # noqa: A005 - only ever `bench.trace`

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import ParamSpec, TypeAlias

import msgspec
import rfc8785

from repotrial._core.canonical import JsonValue
from repotrial.trace import (
    Command,
    Exited,
    Response,
    ResponseUsage,
    RunOpened,
    RunPaths,
    ToolInvocation,
    TraceHead,
    TraceWriter,
    WriterOptions,
)
from repotrial.trace._verify_chain import ChainReport, Intact, check_chain

__all__ = ["Part", "Ratio", "bench_append", "bench_verify"]

_RUN_ID = "bench"
_ROUNDS = 41
"""Many and short: what else the machine does then falls on both sides alike."""

_Arguments = ParamSpec("_Arguments")

_Payload: TypeAlias = ToolInvocation | Response


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Ours against a peer on one kind of work: CPU time per event, round by round."""

    name: str
    ours_us: list[float]
    peer_us: list[float]
    note: str


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """All the work of a peer over all of ours, held against a goal."""

    name: str
    goal: float
    parts: tuple[Part, ...]

    @property
    def ratio(self) -> float:
        """The median over the rounds: within a round both sides find the machine in the same mood."""
        ours = map(sum, zip(*(part.ours_us for part in self.parts), strict=True))
        peer = map(sum, zip(*(part.peer_us for part in self.parts), strict=True))
        return median(peer_us / ours_us for ours_us, peer_us in zip(ours, peer, strict=True))

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.goal


def bench_append(events: int) -> Ratio:
    """Append events of 1 KB, validated, against rfc8785 + sha256 chain + one write per event.

    The peer pays by the field, we by the event: so one shape of many fields and one that is mostly text,
    taken together.
    """
    with tempfile.TemporaryDirectory() as folder, _open_writer(Path(folder)) as writer:
        shapes: dict[str, _Payload] = {
            "command": _build_invocation(writer),
            "response": _build_response(writer),
        }
        peer_path = Path(folder) / "peer.jsonl"
        parts = [
            Part(name=name, ours_us=[], peer_us=[], note=f"{_line_bytes(writer, payload)} bytes per line")
            for name, payload in shapes.items()
        ]
        for _ in range(_ROUNDS):
            for part, payload in zip(parts, shapes.values(), strict=True):
                part.ours_us.append(_measure(_append_as_we_do, writer, payload, events) / events)
                part.peer_us.append(_measure(_append_as_peer, peer_path, payload, events) / events)
    return Ratio(name="append, 1 KB", goal=8, parts=tuple(parts))


def bench_verify(events: int) -> Ratio:
    """Verify a trace against json.loads + json.dumps(sort_keys) + sha256, and watch the memory."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        _generate(small, max(events // 100, 100))
        head = _generate(large, events)
        path = RunPaths(large).trace
        small_rss, large_rss = _peak_rss(RunPaths(small).trace), _peak_rss(path)

        note = (
            f"{path.stat().st_size // events} bytes per line; peak memory {large_rss // 1024} MB,"
            f" {small_rss // 1024} MB for a hundredth of the events"
        )
        part = Part(name="tool calls", ours_us=[], peer_us=[], note=note)
        for _ in range(3):
            part.ours_us.append(_measure(_verify_as_we_do, path, head) / events)
            part.peer_us.append(_measure(_verify_as_peer, path) / events)
    return Ratio(name=f"verify, {events:,} events", goal=1.5, parts=(part,))


def _measure(
    work: Callable[_Arguments, None], *arguments: _Arguments.args, **options: _Arguments.kwargs
) -> float:
    """CPU time of a call in microseconds."""
    start = time.process_time()
    work(*arguments, **options)
    return (time.process_time() - start) * 1e6


def _open_writer(root: Path) -> TraceWriter:
    opened = RunOpened(
        run_id=_RUN_ID,
        manifest_digest="sha256:" + "0" * 64,
        redaction_rules_id="none",
        harness_version="bench",
    )
    return TraceWriter.create(RunPaths(root), opened, options=WriterOptions(run_budget_bytes=None))


def _build_invocation(writer: TraceWriter) -> ToolInvocation:
    """A command with both of its streams, as the agents under trial run it hundreds of times."""
    return ToolInvocation(
        tool="shell",
        source="gateway",
        arguments=writer.body(b'{"command": "python -m pytest -q"}'),
        command=Command(argv=("sh", "-c", "python -m pytest -q"), cwd="."),
        exit=Exited(code=0),
        started_at_us=1_700_000_000_000_000,
        wall_us=812_345,
        stdout=writer.output(b"2 passed in 0.31s\n"),
        stderr=writer.output(b""),
    )


def _build_response(writer: TraceWriter) -> Response:
    """An answer of which most is text."""
    return Response(
        prompt=1,
        model="example-large",
        role="assistant",
        conversation="main",
        index=3,
        body=writer.body(b"The function fill() counts characters, not columns. " * 8),
        stop_reason="tool_use",
        wall_us=1_234_567,
        usage=ResponseUsage(input_uncached_tokens=812, output_tokens=95),
    )


def _line_bytes(writer: TraceWriter, payload: _Payload) -> int:
    writer.flush()
    before = writer.paths.trace.stat().st_size
    writer.append(payload, actor="agent")
    writer.flush()
    return writer.paths.trace.stat().st_size - before


def _append_as_we_do(writer: TraceWriter, payload: _Payload, events: int) -> None:
    for _ in range(events):
        writer.append(payload, actor="agent")
    writer.flush()


def _append_as_peer(path: Path, payload: _Payload, events: int) -> None:
    previous = b"\0" * 32
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for seq in range(events):
            t = time.time_ns() // 1000
            event: dict[str, JsonValue] = {
                "actor": "agent",
                "payload": msgspec.to_builtins(payload),
                "seq": seq,
                "t": t,
                "type": payload.event_type,
            }
            body = rfc8785.dumps(event)
            link = hashlib.sha256(previous + body)
            previous = link.digest()
            os.write(handle, body[:17] + b'"hash":"' + link.hexdigest().encode() + b'",' + body[17:] + b"\n")
    finally:
        os.close(handle)


def _generate(root: Path, events: int) -> TraceHead:
    with _open_writer(root) as writer:
        arguments = writer.body(b'{"path": "textkit/wrap.py"}')
        for number in range(events - 1):
            payload = ToolInvocation(
                tool="read",
                source="gateway",
                arguments=arguments,
                exit=Exited(code=0),
                started_at_us=1_700_000_000_000_000 + number,
                wall_us=number % 5000,
            )
            writer.append(payload, actor="agent")
        return writer.head


def _verify_as_we_do(path: Path, head: TraceHead) -> None:
    report = check_chain(path, run_id=_RUN_ID, expected=head)
    assert isinstance(report.status, Intact), report


def _verify_as_peer(path: Path) -> None:
    previous = b"\0" * 32
    with path.open("rb") as stream:
        for line in stream:
            event = json.loads(line)
            event.pop("hash")
            body = json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
            previous = hashlib.sha256(previous + body).digest()


def _peak_rss(path: Path) -> int:
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_verify_and_measure, (str(path),))


def _verify_and_measure(path: str) -> int:
    report: ChainReport = check_chain(Path(path), run_id=_RUN_ID)
    assert isinstance(report.status, Intact), report
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
