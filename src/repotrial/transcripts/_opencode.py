"""opencode: `opencode run --format json`."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial.trace import ResponseUsage
from repotrial.transcripts._draft import Origin, TranscriptDraft, build_origin
from repotrial.transcripts._model import ToolOutput
from repotrial.transcripts._values import (
    Fields,
    as_count,
    as_decimal,
    as_object,
    as_text,
    build_exclusive,
    encode_value,
    read_path,
)


def read_opencode(entries: Iterator[Fields], draft: TranscriptDraft) -> None:
    """Parts of messages; a call comes once, when it is done."""
    answer = ""
    for entry in entries:
        kind, part = as_text(entry.get("type")), as_object(entry.get("part"))
        draft.see(session=entry.get("sessionID"))
        origin = build_origin(message_id=part.get("messageID"), timestamp=entry.get("timestamp"))
        if kind == "text":
            answer = as_text(part.get("text")) or ""
            draft.add_message("assistant", text=answer, origin=origin)
        elif kind == "reasoning":
            draft.add_message("assistant", text="", reasoning=as_text(part.get("text")) or "", origin=origin)
        elif kind == "tool_use":
            _read_call(part, origin, draft)
        elif kind == "step_finish":
            _read_step(part, origin, answer, draft)
        elif kind == "error":
            error = as_object(entry.get("error"))
            draft.state("error", word=error.get("name"), text=read_path(error, "data", "message"))
        elif kind != "step_start":
            draft.skip("unknown-kind")


def _read_call(part: Fields, origin: Origin, draft: TranscriptDraft) -> None:
    state = as_object(part.get("state"))
    begun = build_origin(
        message_id=origin.message_id,
        timestamp=read_path(state, "time", "start") or origin.timestamp,
    )
    call = draft.add_call(part.get("callID"), part.get("tool"), state.get("input"), begun)
    status = state.get("status")
    if call is None or status not in ("completed", "error"):
        return
    output = state.get("output") if status == "completed" else state.get("error")
    draft.finish_call(
        call,
        ToolOutput(raw=encode_value(output)),
        is_error=status == "error",
        finished=read_path(state, "time", "end"),
    )


def _read_step(part: Fields, origin: Origin, answer: str, draft: TranscriptDraft) -> None:
    tokens = as_object(part.get("tokens"))
    if tokens:
        draft.set_usage(origin.message_id, _read_tokens(tokens), cost_usd=as_decimal(part.get("cost")))
    if part.get("reason") == "stop":
        draft.state("success", word="stop", text=answer)


def _read_tokens(tokens: Fields) -> ResponseUsage:
    """Releases differ in whether reasoning is a part of the output; the total tells which."""
    cache = as_object(tokens.get("cache"))
    output, reasoning, total = (as_count(tokens.get(key)) for key in ("output", "reasoning", "total"))
    asked = sum(
        as_count(value) or 0 for value in (tokens.get("input"), cache.get("read"), cache.get("write"))
    )
    if output is not None and reasoning and total is not None and asked + output + reasoning <= total:
        output += reasoning
    return build_exclusive(
        fresh_input=tokens.get("input"),
        cache_read=cache.get("read"),
        cache_write_5m=cache.get("write"),
        output=output,
        reasoning=reasoning,
    )
