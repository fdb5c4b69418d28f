"""Cline: `cline --json`, and `messages.json` of a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from repotrial.trace import ResponseUsage
from repotrial.transcripts._draft import Draft, Origin, build_origin
from repotrial.transcripts._json import encode_value
from repotrial.transcripts._lines import OBJECTS, iter_entries
from repotrial.transcripts._model import ReportedTotals
from repotrial.transcripts._usage import build_undeclared
from repotrial.transcripts._values import (
    as_count,
    as_decimal,
    as_micros,
    as_object,
    as_text,
    iter_objects,
    read_path,
)

_IGNORED = frozenset({"hook_event", "run_start", "session_event"})
_IGNORED_EVENTS = frozenset({"content_update", "done", "error", "iteration_end", "notice"})


def read_cline_run(lines: Iterator[bytes], draft: Draft) -> None:
    """The event stream."""
    iteration = 0
    for entry in iter_entries(lines, OBJECTS, draft):
        kind, event = as_text(entry.get("type")), as_object(entry.get("event"))
        if kind == "agent_event" and event.get("type") == "iteration_start":
            iteration += 1
        elif kind == "agent_event":
            _read_event(event, entry, f"iteration-{iteration}", draft)
        elif kind == "run_result":
            _read_end(entry, draft)
        elif kind not in _IGNORED:
            draft.skip("unknown-kind")


def _read_event(
    event: Mapping[str, object], entry: Mapping[str, object], message_id: str, draft: Draft
) -> None:
    kind, content = as_text(event.get("type")), event.get("contentType")
    origin = build_origin(message_id=message_id, timestamp=entry.get("ts"))
    if kind == "usage":
        draft.set_usage(message_id, _build_usage(event), model=draft.model)
    elif kind == "content_end" and content in ("text", "reasoning"):
        text = as_text(event.get("text")) or as_text(event.get("reasoning")) or ""
        spoken, thought = (text, "") if content == "text" else ("", text)
        draft.add_message("assistant", text=spoken, reasoning=thought, origin=origin)
    elif kind == "content_start" and content == "tool":
        draft.add_call(event.get("toolCallId"), event.get("toolName"), event.get("input"), origin)
    elif kind == "content_end" and content == "tool":
        output = event.get("output")
        draft.add_result(
            event.get("toolCallId"),
            encode_value(event.get("error") if output is None else output),
            is_error=_is_failed(output, event.get("error")),
            finished=origin.timestamp,
        )
    elif kind != "content_start" and kind not in _IGNORED_EVENTS:
        draft.skip("unknown-kind")


def _is_failed(output: object, error: object = None) -> bool | None:
    """A tool that does several things failed if one of them did."""
    parts = [output] if isinstance(output, dict) else list(iter_objects(output))
    told = [part["success"] for part in parts if isinstance(as_object(part).get("success"), bool)]
    if error is not None:
        return True
    return not all(told) if told else None


def _build_usage(usage: Mapping[str, object]) -> ResponseUsage:
    return build_undeclared(
        some_input=usage.get("inputTokens"),
        cache_read=usage.get("cacheReadTokens"),
        cache_write=usage.get("cacheWriteTokens"),
        output=usage.get("outputTokens"),
    )


def _read_end(entry: Mapping[str, object], draft: Draft) -> None:
    usage = as_object(entry.get("aggregateUsage")) or as_object(entry.get("usage"))
    draft.see(model=read_path(entry, "model", "id"))
    draft.totals = ReportedTotals(
        usage=_build_usage(usage),
        cost_usd=as_decimal(usage.get("totalCost")),
        turns=as_count(entry.get("iterations")),
        duration_us=as_micros(entry.get("durationMs"), per_unit=1000),
    )
    reason = entry.get("finishReason")
    draft.state("success" if reason == "completed" else "error", word=reason, text=entry.get("text"))


def read_cline_messages(document: Mapping[str, object], draft: Draft) -> None:
    """The stored conversation, in blocks like Anthropic's."""
    draft.see(session=document.get("sessionId"), version=read_path(document, "origin", "version"))
    messages = document.get("messages")
    if not isinstance(messages, list):
        draft.skip("wrong-type")
        return
    for message in messages:
        draft.entries += 1
        if isinstance(message, dict):
            _read_message(message, draft)
        else:
            draft.skip("wrong-type")


def _read_message(message: Mapping[str, object], draft: Draft) -> None:
    message_id = as_text(message.get("id"))
    origin = build_origin(message_id=message_id, timestamp=message.get("ts"))
    content = message.get("content")
    if isinstance(content, str):
        draft.add_message(message.get("role"), text=content, origin=origin)
    for block in iter_objects(content):
        _read_block(block, message.get("role"), origin, draft)
    model = read_path(message, "modelInfo", "id")
    draft.see(model=model)
    metrics = as_object(message.get("metrics"))
    if metrics:
        cost = as_decimal(metrics.get("cost"))
        draft.set_usage(message_id, _build_usage(metrics), model=model, cost_usd=cost)


def _read_block(block: Mapping[str, object], role: object, origin: Origin, draft: Draft) -> None:
    kind = as_text(block.get("type"))
    if kind in ("text", "thinking"):
        text, thinking = as_text(block.get("text")) or "", as_text(block.get("thinking")) or ""
        draft.add_message(role, text=text, reasoning=thinking, origin=origin)
    elif kind == "tool_use":
        draft.add_call(block.get("id"), block.get("name"), block.get("input"), origin)
    elif kind == "tool_result":
        content, marked = block.get("content"), block.get("is_error")
        failed = marked if isinstance(marked, bool) else _is_failed(content)
        draft.add_result(
            block.get("tool_use_id"), encode_value(content), is_error=failed, finished=origin.timestamp
        )
    elif kind != "image":
        draft.skip("unknown-kind")
