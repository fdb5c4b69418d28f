"""How a trace is written."""

from __future__ import annotations

from typing import Annotated

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.trace._payloads import PAYLOAD_TYPES

WRITER_OPTIONS = ErrorCode(
    "writer-options",
    UsageError,
    "The writer's options contradict each other or name an unknown event type.",
    hint="see WriterOptions for what each option accepts",
)


class WriterOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a trace is written; nothing of it changes what a reader must know."""

    batch_bytes: Annotated[int, msgspec.Meta(ge=1)] = 64 * 1024
    """Lines are held back until so many bytes are together, or until `flush`."""
    inline_bytes: Annotated[int, msgspec.Meta(ge=0, le=1024 * 1024)] = 4 * 1024
    """Longer bodies become blobs."""
    run_budget_bytes: Annotated[int, msgspec.Meta(ge=0)] | None = 2 * 1024**3
    """Lines and blobs of one run together; null lifts the limit."""
    type_budget_bytes: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}
    """The same for single event types."""
    is_durable: bool = True
    """Whether its first event and its end wait for the disk. Not needed where the run is sealed right after
    its end: sealing waits for all of it, and before that a power cut leaves nothing that counts."""


def checked_options(options: WriterOptions) -> WriterOptions:
    """The options, if they are sensible."""
    try:
        checked = msgspec.convert(msgspec.to_builtins(options), WriterOptions)
    except msgspec.ValidationError as error:
        raise WRITER_OPTIONS.error(f"writer options: {error}") from error
    unknown = sorted(set(checked.type_budget_bytes) - set(PAYLOAD_TYPES))
    if unknown:
        raise WRITER_OPTIONS.error(
            f"type_budget_bytes: expected known event types, found {', '.join(unknown)}"
        )
    return checked
