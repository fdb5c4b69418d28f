"""Programs that the harness started, as the trace keeps them (Q8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from repotrial.environment import HostExecution
from repotrial.isolation import StreamCapture
from repotrial.trace import Command, EventPayload, HarnessExecution, Output, TraceWriter
from repotrial.witness._setup_network import tell_setup_network
from repotrial.workspace import SetupNetworkRecord

_PREFIX_BYTES = 4 * 1024
LOG_BYTES = 64 * 1024


def build_output(
    writer: TraceWriter, stream: StreamCapture, *, of: type[EventPayload], log_bytes: int = LOG_BYTES
) -> Output:
    """One stream: digest and length of all of it, its beginning in full; all of it up to `log_bytes`."""
    is_whole = stream.length_bytes == len(stream.prefix)
    is_long = _PREFIX_BYTES < stream.length_bytes <= log_bytes
    return Output(
        digest=stream.digest,
        length_bytes=stream.length_bytes,
        prefix=writer.body(stream.prefix, of=of, prefix_bytes=_PREFIX_BYTES),
        log=writer.blob(stream.prefix, of=of) if is_whole and is_long else None,
    )


class ExecutionRecord:
    """Writes down what is told to it; an execution before `since_us` was of an earlier run, or of none."""

    prefix_bytes: Final = _PREFIX_BYTES
    """So much of each stream stands in its event."""

    def __init__(self, writer: TraceWriter, *, since_us: int) -> None:
        self._writer = writer
        self._since_us = since_us

    def take(self, execution: HostExecution) -> None:
        """One program that has ended."""
        writer = self._writer
        writer.append(
            HarnessExecution(
                purpose=execution.purpose,
                name=execution.name,
                step=execution.step,
                command=Command(argv=execution.argv, cwd=execution.cwd),
                exit=execution.exit,
                cause=execution.cause,
                started_at_us=execution.started_at_us,
                ended_at_us=execution.ended_at_us,
                cpu_us=execution.cpu_us,
                ceiling_us=execution.ceiling_us,
                reused=execution.started_at_us < self._since_us,
                stdout=build_output(writer, execution.stdout, of=HarnessExecution),
                stderr=build_output(writer, execution.stderr, of=HarnessExecution),
            ),
            actor="harness",
        )

    def take_all(self, executions: Iterable[HostExecution]) -> None:
        """Several, in the order of their ends."""
        for execution in executions:
            self.take(execution)

    def take_network(self, reached: SetupNetworkRecord) -> None:
        """What Setup reached, now or when its product was made."""
        tell_setup_network(self._writer, reached)
