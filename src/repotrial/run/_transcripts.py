"""What the agent wrote about itself: kept, and held against the wire; a disagreement is an alert (P14)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.errors import RepoTrialError
from repotrial.run._adapters._model import StdoutTranscript, Transcript
from repotrial.run._adapters._transcripts import CollectedFile, collect_transcripts
from repotrial.run._watch._dialogue import Dialogue
from repotrial.trace import AgentTranscript, EventRef, MonitorAlert, ResponseUsage, TraceWriter
from repotrial.transcripts import Disagreement, compare_with_gateway, import_transcript

_STDOUT: Final = "stdout"
_ALERTS_PER_FILE: Final = 20
_MONITOR: Final = "transcript"


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
        _alert(writer, _name(disagreement), msgspec.json.encode(disagreement).decode(), seq)
    _tell_rest(writer, "disagreements-left-out", found, seq)


def _tell_rest(writer: TraceWriter, rule: str, items: Sequence[object], seq: int | None = None) -> None:
    """What is not told one by one is told as a number."""
    if (rest := len(items) - _ALERTS_PER_FILE) > 0:
        _alert(writer, rule, f"{rest} more", seq)


def _name(disagreement: Disagreement) -> str:
    return str(disagreement.__struct_config__.tag)


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
