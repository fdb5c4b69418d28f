"""Copilot CLI: `--output-format json`, and `events.jsonl` below `session-state/`, which alone has tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from repotrial.trace import ResponseUsage
from repotrial.transcripts._draft import Draft, build_origin
from repotrial.transcripts._json import encode_value
from repotrial.transcripts._lines import OBJECTS, iter_entries
from repotrial.transcripts._model import ReportedTotals
from repotrial.transcripts._usage import build_undeclared
from repotrial.transcripts._values import as_decimal, as_micros, as_object, as_text, iter_objects, read_path

_IGNORED = frozenset(
    {
        "abort",
        "assistant.turn_end",
        "assistant.turn_start",
        "hook.end",
        "hook.start",
        "session.info",
        "session.model_change",
        "session.resume",
        "session.truncation",
        "subagent.completed",
        "subagent.started",
        "tool.execution_start",
    }
)


def read_copilot(lines: Iterator[bytes], draft: Draft) -> None:
    """Both forms hold the same events."""
    for entry in iter_entries(lines, OBJECTS, draft):
        if entry.get("ephemeral") is True:  # pieces of what comes whole later
            continue
        kind, data = as_text(entry.get("type")), as_object(entry.get("data"))
        if kind in ("user.message", "system.message", "assistant.message"):
            _read_message(kind, data, entry, draft)
        elif kind == "tool.execution_complete":
            _read_result(data, entry, draft)
        elif kind is not None and kind.startswith(("session.", "result")):
            _read_session(kind, data, entry, draft)
        elif kind not in _IGNORED:
            draft.skip("unknown-kind")


def _read_message(kind: str, data: Mapping[str, object], entry: Mapping[str, object], draft: Draft) -> None:
    parent = as_text(data.get("parentToolCallId"))
    message_id = as_text(data.get("apiCallId")) or as_text(data.get("messageId"))
    origin = build_origin(
        message_id=message_id,
        timestamp=entry.get("timestamp"),
        is_subagent=parent is not None,
        parent_call_id=parent,
    )
    draft.see(model=data.get("model"))
    draft.add_message(
        kind.partition(".")[0],
        text=as_text(data.get("content")) or "",
        reasoning=as_text(data.get("reasoningText")) or "",
        origin=origin,
    )
    for request in iter_objects(data.get("toolRequests")):
        draft.add_call(request.get("toolCallId"), request.get("name"), request.get("arguments"), origin)


def _read_result(data: Mapping[str, object], entry: Mapping[str, object], draft: Draft) -> None:
    succeeded = data.get("success")
    content = read_path(data, "result", "content")
    draft.add_result(
        data.get("toolCallId"),
        encode_value(read_path(data, "error", "message") if content is None else content),
        is_error=not succeeded if isinstance(succeeded, bool) else None,
        finished=entry.get("timestamp"),
    )


def _read_session(kind: str, data: Mapping[str, object], entry: Mapping[str, object], draft: Draft) -> None:
    draft.see(session=data.get("sessionId") or entry.get("sessionId"))
    if kind == "session.start":
        draft.see(model=data.get("selectedModel"), version=data.get("copilotVersion"))
        draft.directory = as_text(as_object(data.get("context")).get("cwd"))
    elif kind == "session.usage_record":
        usage = as_object(data.get("usage"))
        draft.set_usage(
            as_text(usage.get("apiCallId")),
            _build_usage(usage),
            model=usage.get("model"),
            cost_usd=as_decimal(usage.get("cost")),
        )
    elif kind == "session.error":
        draft.state("error", word=data.get("errorType"), text=data.get("message"))
    elif kind == "session.shutdown":
        _read_shutdown(data, draft)
    elif kind == "result":
        _read_end(entry, draft)


def _build_usage(usage: Mapping[str, object]) -> ResponseUsage:
    return build_undeclared(
        some_input=usage.get("inputTokens"),
        cache_read=usage.get("cacheReadTokens"),
        cache_write=usage.get("cacheWriteTokens"),
        output=usage.get("outputTokens"),
    )


def _read_shutdown(data: Mapping[str, object], draft: Draft) -> None:
    metrics = data.get("modelMetrics") or read_path(data, "accountingSnapshot", "modelMetrics")
    models = [as_object(as_object(model).get("usage")) for model in as_object(metrics).values()]
    if len(models) == 1:
        draft.totals = ReportedTotals(usage=_build_usage(models[0]))
    if draft.outcome is None:
        routine = data.get("shutdownType") == "routine"
        draft.state("success" if routine else "error", word=data.get("shutdownType"), text=_answer(draft))


def _read_end(entry: Mapping[str, object], draft: Draft) -> None:
    duration = as_micros(read_path(entry, "usage", "sessionDurationMs"), per_unit=1000)
    draft.totals = ReportedTotals(usage=draft.totals.usage, duration_us=duration)
    code = entry.get("exitCode")
    if code == 0 and code is not False:
        draft.state("success", word="exit 0", text=_answer(draft))
    elif draft.outcome is None or draft.outcome.status == "success":
        draft.state("error", word=f"exit {code}" if isinstance(code, int) else "result", text="")


def _answer(draft: Draft) -> str:
    return next((m.text for m in reversed(draft.messages) if m.role == "assistant"), "")
