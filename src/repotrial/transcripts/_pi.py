"""pi: `pi --mode json`, and session files below `sessions/`."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial.transcripts._draft import Origin, TranscriptDraft, build_origin
from repotrial.transcripts._values import (
    Fields,
    as_decimal,
    as_moment,
    as_object,
    as_text,
    build_exclusive,
    encode_value,
    iter_objects,
    join_texts,
    read_path,
)

_IGNORED = frozenset(
    {
        "agent_start",
        "auto_compaction_end",
        "auto_compaction_start",
        "auto_retry_end",
        "auto_retry_start",
        "branch_summary",
        "compaction",
        "custom",
        "custom_message",
        "label",
        "message_start",
        "message_update",
        "queue_update",
        "session_info",
        "thinking_level_change",
        "tool_execution_end",
        "tool_execution_start",
        "tool_execution_update",
        "turn_start",
    }
)


def read_pi(entries: Iterator[Fields], draft: TranscriptDraft) -> None:
    """Events and session files have the same messages; a message that comes again counts once."""
    _Reader(draft).read(entries)


class _Reader:
    def __init__(self, draft: TranscriptDraft) -> None:
        self._draft = draft
        self._seen: set[tuple[object, ...]] = set()

    def read(self, entries: Iterator[Fields]) -> None:
        for entry in entries:
            kind = as_text(entry.get("type"))
            if kind in ("message", "message_end", "turn_end"):
                self._read_message(entry.get("message"))
                self._read_messages(entry.get("toolResults"))
            elif kind == "agent_end":
                self._read_messages(entry.get("messages"))
            elif kind == "session":
                self._draft.see(session=entry.get("id"))
                self._draft.directory = self._draft.directory or as_text(entry.get("cwd"))
            elif kind == "model_change":
                self._draft.see(model=entry.get("modelId"))
            elif kind not in _IGNORED:
                self._draft.skip("unknown-kind")

    def _read_messages(self, messages: object) -> None:
        for message in iter_objects(messages):
            self._read_message(message)

    def _read_message(self, value: object) -> None:
        if not isinstance(value, dict):
            self._draft.skip("wrong-type")
            return
        role = value.get("role")
        names = ("role", "responseId", "toolCallId")
        key = (as_moment(value.get("timestamp")), *(as_text(value.get(name)) for name in names))
        if role == "assistant":
            self._note_end(value)
        if key in self._seen:
            return
        self._seen.add(key)
        message_id = as_text(value.get("responseId")) or f"message-{len(self._seen)}"
        origin = build_origin(message_id=message_id, timestamp=value.get("timestamp"))
        if role == "toolResult":
            self._draft.add_result(
                value.get("toolCallId"),
                encode_value(value.get("content")),
                is_error=value.get("isError"),
                finished=origin.timestamp,
            )
        elif role == "assistant":
            self._read_assistant(value, origin)
        else:
            self._draft.add_message(role, text=join_texts(value.get("content")), origin=origin)

    def _read_assistant(self, message: Fields, origin: Origin) -> None:
        draft = self._draft
        text = join_texts(message.get("content"))
        thinking = join_texts(message.get("content"), "thinking")
        draft.add_message("assistant", text=text, reasoning=thinking, origin=origin)
        for block in iter_objects(message.get("content")):
            if block.get("type") == "toolCall":
                draft.add_call(block.get("id"), block.get("name"), block.get("arguments"), origin)
        draft.see(model=message.get("model"))
        usage = as_object(message.get("usage"))
        if usage and message.get("stopReason") != "error":
            draft.set_usage(
                origin.message_id,
                build_exclusive(
                    fresh_input=usage.get("input"),
                    cache_read=usage.get("cacheRead"),
                    cache_write_5m=usage.get("cacheWrite"),
                    output=usage.get("output"),
                ),
                model=message.get("model"),
                cost_usd=as_decimal(read_path(usage, "cost", "total")),
            )

    def _note_end(self, message: Fields) -> None:
        """The last assistant message says how it ended; where messages are repeated, it is last again."""
        reason = as_text(message.get("stopReason"))
        if reason == "stop":
            self._draft.state("success", word=reason, text=join_texts(message.get("content")))
        elif reason in ("error", "aborted", "length"):
            self._draft.state("error", word=reason, text=message.get("errorMessage"))
        else:
            self._draft.outcome = None
