"""goose: `goose run --output-format stream-json`."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial.transcripts._draft import Origin, TranscriptDraft, build_origin
from repotrial.transcripts._model import ReportedTotals
from repotrial.transcripts._values import Fields, as_object, as_text, build_inclusive, encode_value, read_path

_FAILURE = "Ran into this error:"
_IGNORED = frozenset({"model_change", "notification"})
_IGNORED_BLOCKS = frozenset({"image", "redactedThinking", "systemNotification"})


def read_goose(entries: Iterator[Fields], draft: TranscriptDraft) -> None:
    """Messages with their tool requests and responses; a failure is only a text of the assistant."""
    answer = ""
    for entry in entries:
        kind = as_text(entry.get("type"))
        if kind == "message":
            answer = _read_message(as_object(entry.get("message")), draft) or answer
        elif kind == "complete":
            usage = build_inclusive(total_input=entry.get("input_tokens"), output=entry.get("output_tokens"))
            draft.totals = ReportedTotals(usage=usage)
            failed = answer.startswith(_FAILURE)
            draft.state("error" if failed else "success", word=kind, text=answer)
        elif kind == "error":
            draft.state("error", word=kind, text=entry.get("error"))
        elif kind not in _IGNORED:
            draft.skip("unknown-kind")


def _read_message(message: Fields, draft: TranscriptDraft) -> str | None:
    """The blocks of a message; what the assistant said, if it did."""
    content = message.get("content")
    if not isinstance(content, list):
        draft.skip("wrong-type")
        return None
    origin = build_origin(message_id=message.get("id"), timestamp=message.get("created"))
    spoken = None
    for block in content:
        text = _read_block(as_object(block), message.get("role"), origin, draft)
        spoken = text if text and message.get("role") == "assistant" else spoken
    return spoken


def _read_block(block: Fields, role: object, origin: Origin, draft: TranscriptDraft) -> str | None:
    kind = as_text(block.get("type"))
    if kind == "text":
        text = as_text(block.get("text")) or ""
        draft.add_message(role, text=text, origin=origin)
        return text
    if kind == "thinking":
        draft.add_message(role, text="", reasoning=as_text(block.get("thinking")) or "", origin=origin)
    elif kind == "toolRequest":
        call = as_object(read_path(block, "toolCall", "value"))
        draft.add_call(block.get("id"), call.get("name"), call.get("arguments"), origin)
    elif kind == "toolResponse":
        _read_response(block, origin, draft)
    elif kind not in _IGNORED_BLOCKS:
        draft.skip("unknown-kind")
    return None


def _read_response(block: Fields, origin: Origin, draft: TranscriptDraft) -> None:
    result = as_object(block.get("toolResult"))
    value = as_object(result.get("value"))
    content = value.get("content", result.get("error", result.get("value")))
    failed = result.get("status") == "error" or value.get("isError")
    draft.add_result(block.get("id"), encode_value(content), is_error=failed, finished=origin.timestamp)
