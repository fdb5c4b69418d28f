"""Every format by name, and the way in."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Literal, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, EvidenceError, UsageError
from repotrial.trace import TRACE_UNREADABLE, open_regular
from repotrial.transcripts._atif import read_atif
from repotrial.transcripts._chat import read_mini_swe_agent, read_swe_agent
from repotrial.transcripts._claude import read_claude, read_qwen_stream
from repotrial.transcripts._cline import read_cline_messages, read_cline_run
from repotrial.transcripts._codex import read_codex_exec, read_codex_rollout
from repotrial.transcripts._copilot import read_copilot
from repotrial.transcripts._detect import HEAD_BYTES, detect_format
from repotrial.transcripts._draft import TranscriptDraft
from repotrial.transcripts._gemini import read_gemini_session, read_gemini_stream, read_qwen_session
from repotrial.transcripts._goose import read_goose
from repotrial.transcripts._lines import (
    OBJECTS,
    TRANSCRIPT_UNREADABLE,
    ImportLimits,
    iter_entries,
    iter_lines,
    read_bytes,
    read_document,
)
from repotrial.transcripts._model import ImportedTranscript
from repotrial.transcripts._opencode import read_opencode
from repotrial.transcripts._openhands import read_openhands, read_openhands_entry
from repotrial.transcripts._pi import read_pi
from repotrial.transcripts._plain import read_aider, read_continue
from repotrial.transcripts._values import Fields
from repotrial.transcripts._vibe import read_vibe_export, read_vibe_stream

CallWords: TypeAlias = Literal["wire", "own", "none"]

_MAX_EVENT_FILES = 100_000
_BUFFER_BYTES = 1024 * 1024


UNKNOWN_TRANSCRIPT_FORMAT = ErrorCode(
    "unknown-transcript-format",
    UsageError,
    "There is no importer of that name, or a file shows no format that is known.",
    hint="name one of the formats in docs/explanation/transcripts.md",
)


class Importer(msgspec.Struct, frozen=True, kw_only=True):
    """How one format is read: by lines, as one document, or as plain text."""

    name: str
    """The name that adapters and commands use."""
    agent: str | None
    """The agent that writes it; None if many do."""
    calls: CallWords = "wire"
    """Whether calls stand there as the model made them, in the agent's own words, or not at all."""
    by_lines: Callable[[Iterator[bytes], TranscriptDraft], None] | None = None
    """Reads lines as they come."""
    by_entries: Callable[[Iterator[Fields], TranscriptDraft], None] | None = None
    """Reads lines, each decoded as a JSON object."""
    whole: Callable[[Fields, TranscriptDraft], None] | None = None
    """Reads a document."""
    plain: Callable[[str, TranscriptDraft], None] | None = None
    """Reads a text."""


_ALL = (
    Importer(name="aider-chat", agent="aider", calls="own", plain=read_aider),
    Importer(name="atif", agent=None, whole=read_atif),
    Importer(name="claude-code-session", agent="claude-code", by_lines=read_claude),
    Importer(name="claude-code-stream", agent="claude-code", by_lines=read_claude),
    Importer(name="cline-messages", agent="cline", whole=read_cline_messages),
    Importer(name="cline-run", agent="cline", by_entries=read_cline_run),
    Importer(name="codex-exec", agent="codex", calls="own", by_entries=read_codex_exec),
    Importer(name="codex-rollout", agent="codex", by_entries=read_codex_rollout),
    Importer(name="continue-final", agent="continue", calls="none", whole=read_continue),
    Importer(name="copilot-events", agent="copilot", by_entries=read_copilot),
    Importer(name="copilot-stream", agent="copilot", by_entries=read_copilot),
    Importer(name="gemini-session", agent="gemini-cli", by_lines=read_gemini_session),
    Importer(name="gemini-stream", agent="gemini-cli", by_entries=read_gemini_stream),
    Importer(name="goose-stream", agent="goose", by_entries=read_goose),
    Importer(name="mini-swe-agent", agent="mini-swe-agent", whole=read_mini_swe_agent),
    Importer(name="opencode-run", agent="opencode", by_entries=read_opencode),
    Importer(name="openhands-events", agent="openhands", by_lines=read_openhands),
    Importer(name="pi-events", agent="pi", by_entries=read_pi),
    Importer(name="pi-session", agent="pi", by_entries=read_pi),
    Importer(name="qwen-session", agent="qwen-code", by_entries=read_qwen_session),
    Importer(name="qwen-stream", agent="qwen-code", by_lines=read_qwen_stream),
    Importer(name="swe-agent", agent="swe-agent", whole=read_swe_agent),
    Importer(name="vibe-export", agent="vibe", calls="none", whole=read_vibe_export),
    Importer(name="vibe-stream", agent="vibe", calls="own", by_entries=read_vibe_stream),
)

IMPORTERS: Mapping[str, Importer] = MappingProxyType({importer.name: importer for importer in _ALL})
"""Every importer by its name."""


def import_transcript(
    stream: BinaryIO,
    format_: str,
    *,
    limits: ImportLimits | None = None,
) -> ImportedTranscript:
    """Read a transcript as far as it can be read; entries that make no sense are counted and left out.

    Raises:
        UNKNOWN_TRANSCRIPT_FORMAT: no importer has that name.
        TRANSCRIPT_UNREADABLE: the stream cannot be read.
    """
    importer = IMPORTERS.get(format_)
    if importer is None:
        known = ", ".join(IMPORTERS)
        raise UNKNOWN_TRANSCRIPT_FORMAT.error(f"expected one of {known}, found {format_!r}")
    if isinstance(stream, io.RawIOBase):  # it would read lines byte by byte
        buffered = io.BufferedReader(stream, _BUFFER_BYTES)
        try:
            return _import(buffered, importer, limits or ImportLimits())
        finally:
            buffered.detach()  # the stream stays the caller's
    return _import(stream, importer, limits or ImportLimits())


def _import(stream: BinaryIO, importer: Importer, bounds: ImportLimits) -> ImportedTranscript:
    draft = TranscriptDraft(format_=importer.name, agent=importer.agent)
    if importer.by_lines is not None:
        importer.by_lines(iter_lines(stream, draft, bounds), draft)
    elif importer.by_entries is not None:
        entries = iter_entries(iter_lines(stream, draft, bounds), OBJECTS, draft)
        importer.by_entries(entries, draft)
    elif importer.plain is not None:
        importer.plain(read_bytes(stream, draft, bounds).decode("utf-8", "replace"), draft)
    elif importer.whole is not None:
        document = read_document(stream, draft, bounds)
        if document is not None:
            importer.whole(document, draft)
    return draft.build()


def load_transcript(
    path: Path,
    format_: str | None = None,
    *,
    limits: ImportLimits | None = None,
) -> ImportedTranscript:
    """Read a transcript file, or the folder of an OpenHands conversation; without a format, find it out.

    Raises:
        TRANSCRIPT_UNREADABLE: it cannot be opened or read.
        UNKNOWN_TRANSCRIPT_FORMAT: no importer has that name, or none fits.
    """
    if path.is_dir() and not path.is_symlink():
        return _load_openhands(path, limits or ImportLimits())
    try:
        with open_regular(path) as stream:
            if format_ is None:
                head = stream.read(HEAD_BYTES)
                format_ = detect_format(head, path.name)
                stream.seek(0)
            if format_ is None:
                raise UNKNOWN_TRANSCRIPT_FORMAT.error(f"{path}: expected a known transcript, found none")
            return import_transcript(stream, format_, limits=limits)
    except (EvidenceError, OSError) as error:
        if isinstance(error, EvidenceError) and error.code != TRACE_UNREADABLE:
            raise
        raise TRANSCRIPT_UNREADABLE.error(
            f"{path}: expected a readable transcript, found: {error}"
        ) from error


def _load_openhands(folder: Path, limits: ImportLimits) -> ImportedTranscript:
    """`base_state.json` and `events/event-NNNNN-ID.json`, each a document; the state comes last."""
    try:
        events = sorted((folder / "events").glob("event-*.json"))[:_MAX_EVENT_FILES]
        state = folder / "base_state.json"
        files = [*events, state] if state.exists() else events
    except OSError as error:
        raise TRANSCRIPT_UNREADABLE.error(f"{folder}: expected a readable folder, found: {error}") from error
    if not files:
        raise UNKNOWN_TRANSCRIPT_FORMAT.error(f"{folder}: expected a conversation of OpenHands, found none")
    draft = TranscriptDraft(format_="openhands-events", agent="openhands")
    for file in files:
        try:
            with open_regular(file) as stream:
                entry = read_document(stream, draft, limits)
        except EvidenceError as error:
            if error.code != TRACE_UNREADABLE:
                raise
            raise TRANSCRIPT_UNREADABLE.error(error.message) from error
        if entry is not None:
            read_openhands_entry(entry, draft)
    return draft.build()
