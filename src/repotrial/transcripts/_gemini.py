"""Gemini CLI's stream and session files, and Qwen Code's session files, which store the same parts."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial.trace import ResponseUsage
from repotrial.transcripts._draft import Origin, TranscriptDraft, build_origin
from repotrial.transcripts._lines import OBJECTS, iter_entries, join_document
from repotrial.transcripts._model import ReportedTotals, ToolOutput
from repotrial.transcripts._values import (
    Fields,
    as_count,
    as_micros,
    as_object,
    as_text,
    build_inclusive,
    encode_value,
    iter_objects,
    join_texts,
    read_path,
)

_QWEN_FIGURES = ("prompt", "cachedContent", "candidates", "thoughts", "total")


def read_gemini_stream(entries: Iterator[Fields], draft: TranscriptDraft) -> None:
    """`-o stream-json`; pieces of an answer are put together."""
    pieces: list[str] = []
    begun = Origin()
    for entry in entries:
        kind = as_text(entry.get("type"))
        origin = build_origin(timestamp=entry.get("timestamp"))
        if kind == "message" and entry.get("delta") is True:
            begun = begun if pieces else origin
            pieces.append(as_text(entry.get("content")) or "")
            continue
        draft.add_message("assistant", text="".join(pieces), origin=begun)
        pieces.clear()
        _read_stream_entry(entry, kind, origin, draft)
    draft.add_message("assistant", text="".join(pieces), origin=begun)


def _read_stream_entry(entry: Fields, kind: object, origin: Origin, draft: TranscriptDraft) -> None:
    if kind == "init":
        draft.see(session=entry.get("session_id"), model=entry.get("model"))
    elif kind == "message":
        draft.add_message(entry.get("role"), text=join_texts(entry.get("content")), origin=origin)
    elif kind == "tool_use":
        draft.add_call(entry.get("tool_id"), entry.get("tool_name"), entry.get("parameters"), origin)
    elif kind == "tool_result":
        draft.add_result(
            entry.get("tool_id"),
            encode_value(entry.get("output", read_path(entry, "error", "message"))),
            is_error=_is_failed(entry.get("status")),
            finished=origin.timestamp,
        )
    elif kind == "result":
        _read_end(entry, draft)
    elif kind != "error":
        draft.skip("unknown-kind")


def _read_end(entry: Fields, draft: TranscriptDraft) -> None:
    stats = as_object(entry.get("stats"))
    draft.totals = ReportedTotals(
        usage=build_inclusive(
            total_input=stats.get("input_tokens"),
            cache_read=stats.get("cached"),
            output=stats.get("output_tokens"),
        ),
        tool_calls=as_count(stats.get("tool_calls")),
        duration_us=as_micros(stats.get("duration_ms"), per_unit=1000),
    )
    failed = entry.get("status") != "success"
    spoken = draft.messages[-1].text if draft.messages and not failed else ""
    text = read_path(entry, "error", "message") or spoken
    draft.state("error" if failed else "success", word=entry.get("status"), text=text)


def _is_failed(status: object) -> bool | None:
    return status != "success" if isinstance(status, str) else None


def read_gemini_session(lines: Iterator[bytes], draft: TranscriptDraft) -> None:
    """A file below `chats/`: lines with patches, or one document; the last version of a message stands."""
    messages: dict[str, Fields] = {}
    for entry in iter_entries(join_document(lines, draft), OBJECTS, draft):
        patch = as_object(entry.get("$set"))
        draft.see(session=entry.get("sessionId"))
        added = [*iter_objects(entry.get("messages")), *iter_objects(patch.get("messages"))]
        if "type" in entry and "id" in entry:
            added.append(entry)
        elif not patch and not added and "sessionId" not in entry:
            draft.skip("unknown-kind")
        for message in added:
            messages[as_text(message.get("id")) or f"message-{len(messages)}"] = message
    for message_id, message in messages.items():
        _read_session_message(message_id, message, draft)


def _read_session_message(message_id: str, message: Fields, draft: TranscriptDraft) -> None:
    origin = build_origin(message_id=message_id, timestamp=message.get("timestamp"))
    kind = as_text(message.get("type"))
    thoughts = "\n".join(
        text
        for thought in iter_objects(message.get("thoughts"))
        if (text := as_text(thought.get("description")))
    )
    draft.see(model=message.get("model"))
    draft.add_message(
        "assistant" if kind == "gemini" else kind,
        text=join_texts(message.get("content")),
        reasoning=thoughts,
        origin=origin,
    )
    for call in iter_objects(message.get("toolCalls")):
        added = draft.add_call(call.get("id"), call.get("name"), call.get("args"), origin)
        result = _read_responses(call.get("result"))
        if added is not None and result is not None:
            draft.finish_call(
                added,
                ToolOutput(raw=encode_value(result)),
                is_error=_is_failed(call.get("status")),
                finished=call.get("timestamp"),
            )
    tokens = as_object(message.get("tokens"))
    if tokens:
        draft.set_usage(message_id, _read_tokens(tokens), model=message.get("model"))


def _read_responses(parts: object) -> object:
    """What the function responses of a message hold; None if there are none."""
    found = [
        response.get("output", response)
        for part in iter_objects(parts)
        if (response := as_object(read_path(part, "functionResponse", "response")))
    ]
    return found[0] if len(found) == 1 else found or None


def _read_tokens(tokens: Fields) -> ResponseUsage:
    return _build_usage(*map(tokens.get, ("input", "cached", "output", "thoughts", "total")))


def _build_usage(
    asked: object, cached: object, candidates: object, thoughts: object, total: object
) -> ResponseUsage:
    """Gemini counts thoughts beside the candidates, other models within them; the total tells which."""
    said, thought, whole = as_count(candidates), as_count(thoughts), as_count(total)
    output = None if said is None else said + (thought or 0)
    if output is not None and whole is not None and (as_count(asked) or 0) + output > whole:
        output = said
    return build_inclusive(total_input=asked, cache_read=cached, output=output, reasoning=thought)


def read_qwen_session(entries: Iterator[Fields], draft: TranscriptDraft) -> None:
    """A file below `chats/` of Qwen Code."""
    for entry in entries:
        kind = as_text(entry.get("type"))
        draft.see(session=entry.get("sessionId"), model=entry.get("model"), version=entry.get("version"))
        if kind in ("user", "assistant"):
            _read_qwen_message(entry, draft)
        elif kind == "tool_result":
            _read_qwen_result(entry, draft)
        elif kind != "system":
            draft.skip("unknown-kind")


def _read_qwen_message(entry: Fields, draft: TranscriptDraft) -> None:
    message_id = as_text(entry.get("uuid"))
    origin = build_origin(message_id=message_id, timestamp=entry.get("timestamp"))
    parts = read_path(entry, "message", "parts")
    if not isinstance(parts, list):
        draft.skip("wrong-type")
        return
    for part in iter_objects(parts):
        text = as_text(part.get("text")) or ""
        spoken, thought = ("", text) if part.get("thought") is True else (text, "")
        draft.add_message(entry.get("type"), text=spoken, reasoning=thought, origin=origin)
        call = as_object(part.get("functionCall"))
        if call:
            draft.add_call(call.get("id"), call.get("name"), call.get("args"), origin)
    usage = as_object(entry.get("usageMetadata"))
    if usage:
        figures = [usage.get(f"{name}TokenCount") for name in _QWEN_FIGURES]
        draft.set_usage(message_id, _build_usage(*figures), model=entry.get("model"))


def _read_qwen_result(entry: Fields, draft: TranscriptDraft) -> None:
    parts = read_path(entry, "message", "parts")
    identity = next((as_object(part.get("functionResponse")) for part in iter_objects(parts)), {})
    status = read_path(entry, "toolCallResult", "status")
    draft.add_result(
        read_path(entry, "toolCallResult", "callId") or identity.get("id"),
        encode_value(_read_responses(parts)),
        is_error=_is_failed(status),
        finished=entry.get("timestamp"),
    )
