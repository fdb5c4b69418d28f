"""What a program did and printed, as the trace keeps it."""

from __future__ import annotations

import msgspec

from repotrial.isolation import CommandResult, StreamCapture
from repotrial.run._context import BoundRun
from repotrial.trace import Command, EventPayload, Output, ToolInvocation, TraceWriter

_PREFIX_BYTES = 4 * 1024
_LOG_BYTES = 64 * 1024


def build_output(writer: TraceWriter, stream: StreamCapture, *, of: type[EventPayload]) -> Output:
    """One stream: digest and length of all of it, its beginning in full; all of it where that is little."""
    is_whole = stream.length_bytes == len(stream.prefix)
    is_long = _PREFIX_BYTES < stream.length_bytes <= _LOG_BYTES
    return Output(
        digest=stream.digest,
        length_bytes=stream.length_bytes,
        prefix=writer.body(stream.prefix, of=of, prefix_bytes=_PREFIX_BYTES),
        log=writer.blob(stream.prefix, of=of) if is_whole and is_long else None,
    )


def record_program(
    run: BoundRun, argv: tuple[str, ...], result: CommandResult, *, started_at_us: int
) -> None:
    """The agent's own program as an event: what it was started with, how it ended, what it printed (P14)."""
    writer = run.writer
    writer.append(
        ToolInvocation(
            tool=run.plan.agent.name,
            source="sandbox",
            arguments=writer.body(msgspec.json.encode(argv), of=ToolInvocation),
            command=Command(argv=argv, cwd="."),
            exit=result.exit,
            started_at_us=started_at_us,
            wall_us=result.usage.wall_us,
            cpu_us=result.usage.cpu_us,
            stdout=build_output(writer, result.stdout, of=ToolInvocation),
            stderr=build_output(writer, result.stderr, of=ToolInvocation),
        ),
        actor="agent",
    )
