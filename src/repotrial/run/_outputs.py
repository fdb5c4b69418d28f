"""What a program printed, as the trace keeps it."""

from __future__ import annotations

from repotrial.sandbox import StreamCapture
from repotrial.trace import EventPayload, Output, TraceWriter

__all__ = ["build_output"]

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
