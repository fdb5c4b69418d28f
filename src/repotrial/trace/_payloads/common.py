r"""What several payloads are made of.

Names of files, arguments, tools and tests are text; where the original bytes are not UTF-8, they are written
with `escape_bytes` (`\xNN`), so that no name that an agent can invent is refused by the trace.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, TypeAlias

import msgspec

from repotrial._core.canonical import Count, DecimalText, SafeInt
from repotrial._core.digest import Digest
from repotrial._core.errors import EvidenceError
from repotrial.trace._blobs import BLOB_CORRUPT, BlobRef, BlobStore
from repotrial.trace._body import BODY_OMITTED, BODY_WITHDRAWN, BlobBody, Body, BodyDigest

EventSeq: TypeAlias = Count
"""Points at an earlier event of the same trace by its `seq`."""

Instant: TypeAlias = Count
"""Microseconds since the epoch, UTC."""

Name = Annotated[str, msgspec.Meta(min_length=1)]
"""A name that is not empty."""

SignalValue: TypeAlias = SafeInt | DecimalText
"""A measured value: an integer, or a decimal as text."""

_MAX_STREAM_BYTES: Final = 64 * 1024**2
"""More than any harness keeps: a forged trace must not fill the memory."""


class EventPayload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What every payload is; `event_type` is the envelope's `type`.

    Neither it nor its parts can take part in a cycle, so the garbage collector need not look at them.
    """

    event_type: ClassVar[str]


class Alternative(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", gc=False
):
    """One of several alternatives, told apart by `kind`."""


class Exited(Alternative, frozen=True, kw_only=True, tag="exited"):
    """The program ended by itself."""

    code: Annotated[int, msgspec.Meta(ge=0, le=255)]
    """Its exit code."""


class Signaled(Alternative, frozen=True, kw_only=True, tag="signaled"):
    """The program was ended by a signal that no ceiling of ours sent."""

    signal: Annotated[int, msgspec.Meta(ge=1, le=255)]
    """The signal's number."""


class TimedOut(Alternative, frozen=True, kw_only=True, tag="timed-out"):
    """The program was ended by the harness at its time ceiling."""

    ceiling_us: Count
    """The ceiling that it reached."""
    observed_us: Count | None = None
    """How long it had run when it was ended (P14); null in records of version 1."""


class NotStarted(Alternative, frozen=True, kw_only=True, tag="not-started"):
    """There never was a process: no such program, no permission, refused by policy."""

    reason: Name
    """Why not."""


class ExitUnknown(Alternative, frozen=True, kw_only=True, tag="unknown"):
    """It was not seen how it ended; or the tool is not a program and has no exit status."""

    reason: Name
    """Why it is not known."""


ExitStatus: TypeAlias = Exited | Signaled | TimedOut | NotStarted | ExitUnknown
"""How a command ended."""


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A program and where it ran."""

    argv: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """Program and arguments; a shell line is `["sh", "-c", …]`."""
    cwd: str
    """Working directory, relative to the workspace where it lies inside."""


class ChangedEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One path of a change, by its content before and after."""

    path: Name
    """Relative to the workspace."""
    before: Digest | None
    """Of the content, or of a link's target; null where there was nothing."""
    after: Digest | None
    """The same after the change; null where nothing is left."""


class ChangedPaths(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Files and links that a command changed: complete in number and digest, bounded in length."""

    entries: tuple[ChangedEntry, ...]
    """The first of them, in order."""
    count: Count
    """How many there are."""
    digest: Digest
    """Over all of them."""


class KeptStream(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of one stream."""

    length_bytes: Count
    """Length of all that was printed."""
    data: bytes
    """The beginning of it, or all; placeholders stand in the place of secrets."""
    is_whole: bool
    """Whether nothing is cut off."""
    lost: str | None = None
    """What the record refers to and the directory does not have as recorded; None if nothing is lost."""


class Output(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One output stream: all of it by digest, the beginning in full (P14)."""

    digest: BodyDigest
    """Digest of the whole stream, before redaction."""
    length_bytes: Count
    """Length of the whole stream."""
    prefix: Body
    """Its first bytes, up to the harness's bound."""
    log: BlobRef | None = None
    """The whole stream, where it was kept."""

    def load(self, blobs: BlobStore) -> KeptStream:
        """What was kept of a stream: all of it if that is there, else its beginning, else only the reason."""
        lost = None
        if self.log is not None:
            try:
                _verify_size(self.log)
                return KeptStream(length_bytes=self.length_bytes, data=blobs.read(self.log), is_whole=True)
            except EvidenceError as error:
                lost = error.message
        data, is_kept = b"", True
        try:
            if isinstance(self.prefix, BlobBody):
                _verify_size(self.prefix.blob)
            data = self.prefix.load(blobs)
        except EvidenceError as error:
            if error.code in (BODY_OMITTED, BODY_WITHDRAWN):  # the trace says so itself
                is_kept = False
            else:
                lost = lost or error.message
        return KeptStream(
            length_bytes=self.length_bytes,
            data=data,
            is_whole=lost is None and is_kept and self.prefix.length_bytes == self.length_bytes,
            lost=lost,
        )


class Signal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One value that a monitor or a rule looked at, so that its decision can be computed again."""

    name: Name
    """What was measured, with its unit: `wall_us`, `cost_usd`."""
    value: SignalValue
    """What was observed."""
    threshold: SignalValue | None = None
    """The limit it was held against; null if there is none."""


def _verify_size(ref: BlobRef) -> None:
    if ref.size_bytes > _MAX_STREAM_BYTES:
        raise BLOB_CORRUPT.error(
            f"expected at most {_MAX_STREAM_BYTES} bytes of output, found {ref.size_bytes}"
        )
