"""Bytes of a transcript: lines by newline alone, within bounds, whatever the file holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, TypeVar

import msgspec

from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial.transcripts._draft import TranscriptDraft
from repotrial.transcripts._values import repair_json

_CHUNK_BYTES = 256 * 1024

_Entry = TypeVar("_Entry")

OBJECTS = msgspec.json.Decoder(dict[str, object])
"""Any JSON object."""


TRANSCRIPT_UNREADABLE = ErrorCode(
    "transcript-unreadable",
    EvidenceError,
    "A transcript cannot be opened or read: it is missing, not a regular file, or access is denied.\n\nWhat "
    "a readable file holds never raises it: entries that make no sense are counted and left out.",
    hint="check the path and its permissions",
)


class ImportLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a transcript is held at once."""

    line_bytes: int = 64 * 1024 * 1024
    """A longer line is left out, and never held whole."""
    document_bytes: int = 256 * 1024 * 1024
    """A longer file of a format that is one document is left out."""


def iter_lines(stream: BinaryIO, draft: TranscriptDraft, limits: ImportLimits) -> Iterator[bytes]:
    """The lines that are not blank, the last one also without a newline; cut at LF and nowhere else.

    Raises:
        TRANSCRIPT_UNREADABLE: the stream cannot be read.
    """
    bound, read_line = limits.line_bytes + 1, stream.readline  # with the newline
    try:
        while line := read_line(bound):
            if len(line) == bound and not line.endswith(b"\n"):
                draft.entries += 1
                draft.skip("too-long")
                del line
                _drop_line(stream)
            elif not line.isspace():
                draft.entries += 1
                yield line
    except (OSError, ValueError) as error:  # ValueError: the stream is closed
        raise TRANSCRIPT_UNREADABLE.error(f"expected readable bytes, found: {error}") from error


def _drop_line(stream: BinaryIO) -> None:
    """Read to the end of a line without holding it."""
    while piece := stream.readline(_CHUNK_BYTES):
        if piece.endswith(b"\n"):
            return


def decode_entry(line: bytes, decoder: msgspec.json.Decoder[_Entry], draft: TranscriptDraft) -> _Entry | None:
    """A line decoded; None, and counted, if it is no JSON object."""
    try:
        return decoder.decode(line)
    except RecursionError:
        draft.skip("too-deep")
        return None
    except ValueError:
        repaired = repair_json(line)
    try:
        if repaired is not None:
            return decoder.decode(repaired)
        draft.skip("not-json")
    except (ValueError, RecursionError):
        draft.skip("not-an-object")
    return None


def iter_entries(
    lines: Iterator[bytes], decoder: msgspec.json.Decoder[_Entry], draft: TranscriptDraft
) -> Iterator[_Entry]:
    """Each line decoded; lines that are no JSON object are counted."""
    for line in lines:
        entry = decode_entry(line, decoder, draft)
        if entry is not None:
            yield entry


def join_document(lines: Iterator[bytes], draft: TranscriptDraft) -> Iterator[bytes]:
    """The lines of a file that may also be one indented document: then it comes as one line."""
    first = next(lines, b"")
    if first.strip() != b"{":
        if first:
            yield first
        yield from lines
        return
    pieces, size = [first], 0
    for line in lines:
        size += len(line)
        if size > ImportLimits().document_bytes:
            draft.skip("too-long")
            return
        pieces.append(line)
    draft.entries = 1
    yield b"\n".join(pieces)


def read_bytes(stream: BinaryIO, draft: TranscriptDraft, limits: ImportLimits) -> bytes:
    """A whole file; nothing, and counted, where it is too long.

    Raises:
        TRANSCRIPT_UNREADABLE: the stream cannot be read.
    """
    pieces, size = list[bytes](), 0
    try:
        while piece := stream.read(_CHUNK_BYTES):
            size += len(piece)
            if size > limits.document_bytes:
                draft.skip("too-long")
                return b""
            pieces.append(piece)
    except (OSError, ValueError) as error:  # ValueError: the stream is closed
        raise TRANSCRIPT_UNREADABLE.error(f"expected readable bytes, found: {error}") from error
    return b"".join(pieces)


def read_document(stream: BinaryIO, draft: TranscriptDraft, limits: ImportLimits) -> dict[str, object] | None:
    """A whole file as one JSON object; None, and counted, if it is none.

    Raises:
        TRANSCRIPT_UNREADABLE: the stream cannot be read.
    """
    data = read_bytes(stream, draft, limits)
    draft.entries += 1
    return decode_entry(data, OBJECTS, draft) if data else None
