"""What a program that the harness started did and printed, as the trace keeps it (P14)."""

from __future__ import annotations

import msgspec

from repotrial.isolation import CommandResult
from repotrial.run._context import BoundRun
from repotrial.trace import Command, ToolInvocation
from repotrial.witness import build_output


def record_program(
    run: BoundRun, argv: tuple[str, ...], result: CommandResult, *, started_at_us: int
) -> None:
    """The agent's own program as an event: what it was started with, how it ended, what it printed (P14)."""
    writer = run.writer
    run.note_watched(argv, result.exit, cwd=".")
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
            pressure=result.usage.pressure or msgspec.UNSET,
            stdout=build_output(writer, result.stdout, of=ToolInvocation),
            stderr=build_output(writer, result.stderr, of=ToolInvocation),
        ),
        actor="agent",
    )
