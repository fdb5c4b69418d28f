"""What the agent wrote about itself: kept, and held against the wire; a disagreement is an alert (P14)."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from pathspec import GitIgnoreSpec

from repotrial._core.beneath import open_beneath
from repotrial._core.errors import RepoTrialError
from repotrial.agents import FileTranscript, StdoutTranscript, Transcript
from repotrial.run._watch._dialogue import Dialogue
from repotrial.trace import AgentTranscript, EventRef, MonitorAlert, ResponseUsage, TraceWriter
from repotrial.transcripts import compare_with_gateway, import_transcript

_MOST_ENTRIES: Final = 20_000
_MOST_DEPTH: Final = 24
_MOST_FILE_BYTES: Final = 64 << 20
_MOST_BYTES: Final = 256 << 20
_MOST_FILES: Final = 1000
_OPEN_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY


Collection: TypeAlias = "tuple[list[CollectedFile], list[SkippedFile]]"
_STDOUT: Final = "stdout"
_ALERTS_PER_FILE: Final = 20
_MONITOR: Final = "transcript"


class CollectedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file, whole."""

    path: str
    """Relative to the home; bytes that are no UTF-8 as surrogates. Of joined files, their directory."""
    importer: str | None
    """The importer that reads it, as the adapter says; None if there is none."""
    data: bytes


class SkippedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One that an adapter names and that was not taken."""

    path: str
    reason: str


def collect_transcripts(home: Path, transcripts: tuple[Transcript, ...]) -> Collection:
    """Take every file of a home that an adapter names; call it when nothing runs in there any more.

    Returns:
        What was taken, by path; and what was not, with the reason.
    """
    wanted = [
        (GitIgnoreSpec.from_lines([f"/{item.pattern}"]), item)
        for item in transcripts
        if isinstance(item, FileTranscript)
    ]
    skipped: list[SkippedFile] = []
    if not wanted:
        return [], skipped
    found: list[tuple[FileTranscript, CollectedFile]] = []
    root = os.open(home, _OPEN_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    room = _MOST_BYTES
    try:
        for path in sorted(_walk(root, skipped)):
            name = os.fsdecode(path)
            item = next((item for spec, item in wanted if spec.match_file(name)), None)
            if item is None:
                continue
            data = _read(root, path, most=min(room, _MOST_FILE_BYTES))
            if isinstance(data, str) or len(found) >= _MOST_FILES:
                reason = data if isinstance(data, str) else f"more than {_MOST_FILES} files"
                skipped.append(SkippedFile(path=name, reason=reason))
                continue
            room -= len(data)
            found.append((item, CollectedFile(path=name, importer=item.importer, data=data)))
    finally:
        os.close(root)
    return _join(found), skipped


def _join(found: list[tuple[FileTranscript, CollectedFile]]) -> list[CollectedFile]:
    """Files of one directory as lines of one transcript, where the adapter says so."""
    taken: list[CollectedFile] = []
    parts: dict[str, list[CollectedFile]] = {}
    for item, file in found:
        if item.is_joined:
            parts.setdefault(os.path.dirname(file.path), []).append(file)  # noqa: PTH120 - text that need not be a path
        else:
            taken.append(file)
    for directory, files in parts.items():
        data = b"".join(_flatten(file.data) + b"\n" for file in files)
        taken.append(CollectedFile(path=f"{directory}/", importer=files[0].importer, data=data))
    return sorted(taken, key=lambda file: file.path)


def _flatten(data: bytes) -> bytes:
    """A JSON document on one line; what is none stays as it is, for its importer to pass over."""
    try:
        return msgspec.json.format(data, indent=-1)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return data.replace(b"\n", b" ")


def _walk(root: int, skipped: list[SkippedFile]) -> Iterator[bytes]:
    """Paths of all that is neither directory nor link."""
    pending = [b""]
    seen = 0
    while pending:
        directory = pending.pop()
        found = _list_directory(root, directory)
        if isinstance(found, str):
            skipped.append(SkippedFile(path=os.fsdecode(directory), reason=found))
            continue
        seen += len(found)
        if seen > _MOST_ENTRIES:
            skipped.append(SkippedFile(path=".", reason=f"more than {_MOST_ENTRIES} entries"))
            return
        pending += [path for path, is_directory in found if is_directory]
        yield from (path for path, is_directory in found if not is_directory)


def _list_directory(root: int, directory: bytes) -> list[tuple[bytes, bool]] | str:
    """Paths below a directory, without links, and whether each is one too; or why it was not listed."""
    if directory.count(b"/") >= _MOST_DEPTH:
        return "too deep"
    try:
        handle = open_beneath(root, directory, _OPEN_DIRECTORY)
    except OSError as error:
        return error.strerror or str(error)
    try:
        with os.scandir(handle) as found:
            return [
                (os.path.join(directory, os.fsencode(entry.name)), entry.is_dir(follow_symlinks=False))  # noqa: PTH118 - bytes
                for entry in islice(found, _MOST_ENTRIES + 1)
                if not entry.is_symlink()
            ]
    finally:
        os.close(handle)


def _read(root: int, path: bytes, *, most: int) -> bytes | str:
    """A regular file's bytes, or why not."""
    try:
        handle = open_beneath(root, path, _OPEN_FILE)
    except OSError as error:
        return error.strerror or str(error)
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return "not a regular file"
        data = stream.read(most + 1)
    return data if len(data) <= most else f"larger than {most} bytes"


def keep_transcripts(
    writer: TraceWriter,
    home: Path,
    transcripts: Sequence[Transcript],
    *,
    printed: bytes,
    dialogue: Dialogue,
    cost_usd: str | None,
) -> None:
    """Put every transcript on record, and say where one disagrees with what the gateway saw."""
    taken, skipped = collect_transcripts(home, tuple(transcripts))
    for file in [*_iter_printed(transcripts, printed), *taken]:
        writer.tally[AgentTranscript.event_type] += 1
        ref = writer.append(
            AgentTranscript(
                path=file.path.encode("utf-8", "backslashreplace").decode() or _STDOUT,
                format=file.importer,
                body=writer.body(file.data, of=AgentTranscript),
            ),
            actor="agent",
        )
        if file.importer is not None and isinstance(ref, EventRef):
            _compare(writer, file, ref.seq, dialogue, cost_usd)
    for left in skipped[:_ALERTS_PER_FILE]:
        _alert(writer, "transcript-not-taken", f"{left.path}: {left.reason}")
    _tell_rest(writer, "transcripts-left-out", skipped)


def _iter_printed(transcripts: Sequence[Transcript], printed: bytes) -> Iterator[CollectedFile]:
    for item in transcripts:
        if isinstance(item, StdoutTranscript) and printed:
            yield CollectedFile(path=_STDOUT, importer=item.importer, data=printed)


def _compare(
    writer: TraceWriter, file: CollectedFile, seq: int, dialogue: Dialogue, cost_usd: str | None
) -> None:
    assert file.importer is not None
    try:
        imported = import_transcript(io.BytesIO(file.data), file.importer)
    except RepoTrialError as error:
        _alert(writer, "transcript-unreadable", f"{file.path}: {error.message}", seq)
        return
    found = compare_with_gateway(
        imported,
        dialogue.calls,
        usage=_sum(dialogue.usage),
        side_usage=_sum(dialogue.side_usage),
        cost_usd=cost_usd,
    )
    for disagreement in found[:_ALERTS_PER_FILE]:
        _alert(
            writer, str(disagreement.__struct_config__.tag), msgspec.json.encode(disagreement).decode(), seq
        )
    _tell_rest(writer, "disagreements-left-out", found, seq)


def _tell_rest(writer: TraceWriter, rule: str, items: Sequence[object], seq: int | None = None) -> None:
    """What is not told one by one is told as a number."""
    if (rest := len(items) - _ALERTS_PER_FILE) > 0:
        _alert(writer, rule, f"{rest} more", seq)


def _alert(writer: TraceWriter, rule: str, text: str, seq: int | None = None) -> None:
    alert = MonitorAlert(
        monitor=_MONITOR,
        rule=rule,
        severity="info" if rule == "cost-differs" else "warning",
        phase="act",
        evidence=() if seq is None else (seq,),
    )
    writer.alert(alert, text, event=seq)


def _sum(parts: Sequence[ResponseUsage]) -> ResponseUsage | None:
    """All answers together; a part that one of them leaves open is open."""
    if not parts:
        return None
    sums: dict[str, int | None] = {}
    for name in ResponseUsage.__struct_fields__:
        if name.endswith("_tokens"):
            values = [getattr(part, name) for part in parts]
            sums[name] = None if None in values else sum(values)
    return msgspec.convert(sums, ResponseUsage)
