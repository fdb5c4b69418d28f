"""Codex: `codex exec --json`, and rollout files below `sessions/`."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial.trace import ResponseUsage
from repotrial.transcripts._draft import Origin, TranscriptDraft, build_origin
from repotrial.transcripts._model import ReportedTotals, ToolOutput
from repotrial.transcripts._values import (
    Fields,
    as_micros,
    as_object,
    as_text,
    build_inclusive,
    encode_value,
    join_texts,
    read_path,
)

_ITEM_ARGUMENTS = {
    "command_execution": ("command",),
    "file_change": ("changes",),
    "mcp_tool_call": ("arguments",),
    "collab_tool_call": ("prompt",),
    "web_search": ("query", "action"),
}
_IGNORED_ITEMS = frozenset({"error", "plan", "todo_list"})
_IGNORED_EVENTS = frozenset({"turn.started", "item.updated"})
_IGNORED_RECORDS = frozenset({"compacted", "turn_context", "world_state"})
_CALLS = frozenset({"custom_tool_call", "function_call", "local_shell_call"})
_OUTPUTS = frozenset({"custom_tool_call_output", "function_call_output"})


def read_codex_exec(entries: Iterator[Fields], draft: TranscriptDraft) -> None:
    """The event stream: calls in Codex's own words, without the wire's names and ids."""
    answer = ""
    for entry in entries:
        kind = as_text(entry.get("type"))
        item = as_object(entry.get("item"))
        if kind == "thread.started":
            draft.see(session=entry.get("thread_id"))
        elif kind in ("item.started", "item.completed"):
            answer = _read_item(item, draft, is_complete=kind == "item.completed") or answer
        elif kind == "turn.completed":
            draft.totals = ReportedTotals(usage=_read_usage(entry.get("usage")))
            draft.state("success", word=kind, text=answer)
        elif kind == "turn.failed":
            draft.state("error", word=kind, text=read_path(entry, "error", "message"))
        elif kind == "error":
            if draft.outcome is None:
                draft.state("error", word=kind, text=entry.get("message"))
        elif kind not in _IGNORED_EVENTS:
            draft.skip("unknown-kind")


def _read_item(item: Fields, draft: TranscriptDraft, *, is_complete: bool) -> str | None:
    kind = as_text(item.get("type"))
    origin = Origin()
    if kind in ("agent_message", "reasoning"):
        text = as_text(item.get("text")) or "" if is_complete else ""
        spoken, thought = (text, "") if kind == "agent_message" else ("", text)
        draft.add_message("assistant", text=spoken, reasoning=thought, origin=origin)
        return spoken
    keys = _ITEM_ARGUMENTS.get(kind or "")
    if keys is None:
        if kind not in _IGNORED_ITEMS:
            draft.skip("unknown-kind")
        return None
    call = draft.find_call(item.get("id")) or draft.add_call(
        item.get("id"), _name_item(item), _arguments(item, keys), origin
    )
    if call is not None and is_complete:
        output, failed = _read_output(item)
        draft.finish_call(call, output, is_error=failed)
    return None


def _name_item(item: Fields) -> object:
    server, tool = as_text(item.get("server")), as_text(item.get("tool"))
    return f"mcp__{server}__{tool}" if server and tool else item.get("type")


def _arguments(item: Fields, keys: tuple[str, ...]) -> object:
    if item.get("type") == "mcp_tool_call":
        return item.get("arguments")
    return {key: item[key] for key in keys if key in item}


def _read_output(item: Fields) -> tuple[ToolOutput | None, bool | None]:
    status = item.get("status")
    failed = None if status is None else status != "completed"
    for key in ("aggregated_output", "result", "error"):
        if item.get(key) is not None:
            return ToolOutput(raw=encode_value(item[key])), failed
    return None, failed


def _read_usage(value: object) -> ResponseUsage:
    usage = as_object(value)
    return build_inclusive(
        total_input=usage.get("input_tokens"),
        cache_read=usage.get("cached_input_tokens"),
        cache_write=usage.get("cache_write_input_tokens"),
        output=usage.get("output_tokens"),
        reasoning=usage.get("reasoning_output_tokens"),
    )


def read_codex_rollout(entries: Iterator[Fields], draft: TranscriptDraft) -> None:
    """The session file: calls as on the wire, with times."""
    for entry in entries:
        kind, payload = as_text(entry.get("type")), entry.get("payload")
        if not isinstance(payload, dict):
            draft.skip("wrong-type" if "payload" in entry else "unknown-kind")
        elif kind == "response_item":
            _read_response_item(payload, entry, draft)
        elif kind == "event_msg":
            _read_event(payload, draft)
        elif kind == "token_usage_record":
            draft.set_usage(
                as_text(payload.get("response_id")), _read_usage(payload.get("usage")), model=draft.model
            )
        elif kind == "session_meta":
            draft.see(session=payload.get("id"), version=payload.get("cli_version"))
            draft.directory = draft.directory or as_text(payload.get("cwd"))
        elif kind not in _IGNORED_RECORDS:
            draft.skip("unknown-kind")
        elif kind == "turn_context":
            draft.see(model=payload.get("model"))


def _read_response_item(item: Fields, entry: Fields, draft: TranscriptDraft) -> None:
    kind = as_text(item.get("type"))
    origin = build_origin(message_id=item.get("id"), timestamp=entry.get("timestamp"))
    if kind == "message":
        draft.add_message(item.get("role"), text=join_texts(item.get("content")), origin=origin)
    elif kind == "reasoning":
        draft.add_message("assistant", text="", reasoning=join_texts(item.get("summary")), origin=origin)
    elif kind in _CALLS:
        arguments = next((item[key] for key in ("arguments", "input", "action") if key in item), None)
        name = item.get("name") or ("local_shell" if kind == "local_shell_call" else None)
        draft.add_call(item.get("call_id") or item.get("id"), name, arguments, origin)
    elif kind in _OUTPUTS:
        draft.add_result(
            item.get("call_id"),
            encode_value(item.get("output")),
            is_error=_is_failed(item.get("output")),
            finished=origin.timestamp,
        )
    elif kind not in ("compaction", "ghost_snapshot", "web_search_call"):
        draft.skip("unknown-kind")


def _is_failed(output: object) -> bool | None:
    success = as_object(output).get("success")
    return not success if isinstance(success, bool) else None


def _read_event(event: Fields, draft: TranscriptDraft) -> None:
    kind = as_text(event.get("type"))
    if kind == "token_count":
        usage = read_path(event, "info", "total_token_usage")
        if usage is not None:
            draft.totals = ReportedTotals(usage=_read_usage(usage), duration_us=draft.totals.duration_us)
    elif kind == "task_complete":
        draft.totals = ReportedTotals(
            usage=draft.totals.usage, duration_us=as_micros(event.get("duration_ms"), per_unit=1000)
        )
        draft.state("success", word=kind, text=event.get("last_agent_message"))
    elif kind in ("error", "stream_error", "turn_aborted"):
        draft.state("error", word=kind, text=event.get("message") or event.get("reason"))
    elif kind == "item_completed":
        item = as_object(event.get("item"))
        if item.get("type") == "CommandExecution":  # noted before the output that the model sees
            draft.mark_call(item.get("id"), is_error=item.get("status") != "completed")
