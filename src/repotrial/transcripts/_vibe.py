"""Mistral Vibe: `--output streaming`, and `export.json`, which has the totals and the end."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial.transcripts._draft import Origin, TranscriptDraft, build_origin
from repotrial.transcripts._model import ReportedTotals, ToolOutput
from repotrial.transcripts._values import (
    Fields,
    as_count,
    as_decimal,
    as_moment,
    as_object,
    as_text,
    build_inclusive,
    encode_value,
    join_texts,
    parse_moment,
    read_path,
)


def read_vibe_stream(entries: Iterator[Fields], draft: TranscriptDraft) -> None:
    """Entries of the journal; an entry that comes again, changed, replaces the earlier one."""
    latest: dict[str, Fields] = {}
    for entry in entries:
        latest[as_text(entry.get("id")) or f"entry-{len(latest)}"] = entry
    for entry_id, entry in latest.items():
        kind = as_text(entry.get("type"))
        draft.see(session=entry.get("sessionId"))
        origin = build_origin(message_id=entry_id, timestamp=entry.get("createdAt"))
        if kind == "message":
            draft.add_message(entry.get("role"), text=join_texts(entry.get("content")), origin=origin)
        elif kind == "reasoning":
            text = join_texts(entry.get("content")) or as_text(entry.get("text")) or ""
            draft.add_message("assistant", text="", reasoning=text, origin=origin)
        elif kind == "effect":
            _read_effect(entry, origin, draft)
        else:
            draft.skip("unknown-kind")


def _read_effect(entry: Fields, origin: Origin, draft: TranscriptDraft) -> None:
    detail, state = as_object(entry.get("detail")), as_object(entry.get("state"))
    call_id = detail.get("toolCallId") or entry.get("id")
    call = draft.add_call(call_id, detail.get("toolName"), detail.get("input"), origin)
    status = state.get("status")
    if call is None or status in ("pending", "running", None):
        return
    output = as_text(state.get("outputText")) or state.get("output")
    succeeded = read_path(state, "display", "success")
    draft.finish_call(
        call,
        ToolOutput(raw=encode_value(output)),
        is_error=status != "completed" or succeeded is False,
        finished=entry.get("updatedAt"),
    )


def read_vibe_export(document: Fields, draft: TranscriptDraft) -> None:
    """Totals and the end; no messages."""
    usage = as_object(document.get("usage"))
    draft.see(session=document.get("session_id"), version=document.get("vibe_version"))
    begun, ended = (parse_moment(as_moment(document.get(key))) for key in ("started_at", "ended_at"))
    has_times = begun is not None and ended is not None and ended >= begun
    draft.totals = ReportedTotals(
        usage=build_inclusive(
            total_input=usage.get("input_tokens"),
            cache_read=usage.get("cached_input_tokens"),
            output=usage.get("output_tokens"),
        ),
        cost_usd=as_decimal(document.get("cost_usd")),
        turns=as_count(document.get("steps")),
        duration_us=ended - begun if has_times and ended is not None and begun is not None else None,
    )
    outcome = as_text(document.get("outcome"))
    if outcome is None:
        draft.skip("wrong-type")
        return
    text = read_path(document, "error", "message") or document.get("stop_reason")
    draft.state("success" if outcome == "finished" else "error", word=outcome, text=text)
