"""OpenHands: events (a file for each, JSON lines, or `--json` output among prose) and `base_state.json`."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial.trace import ResponseUsage
from repotrial.transcripts._draft import TranscriptDraft, build_origin
from repotrial.transcripts._lines import OBJECTS, iter_entries, join_document
from repotrial.transcripts._model import ReportedTotals
from repotrial.transcripts._values import (
    Fields,
    as_decimal,
    as_object,
    as_text,
    build_inclusive,
    encode_value,
    iter_objects,
    join_texts,
    read_path,
)

_IGNORED = frozenset(
    {
        "Condensation",
        "CondensationRequest",
        "CondensationSummaryEvent",
        "ConversationStateUpdateEvent",
        "PauseEvent",
        "TokenEvent",
    }
)
_ERRORS = frozenset({"AgentErrorEvent", "ConversationErrorEvent", "ServerErrorEvent"})


def read_openhands(lines: Iterator[bytes], draft: TranscriptDraft) -> None:
    """Events in order; what else stands in the output is counted."""
    for entry in iter_entries(join_document(lines, draft), OBJECTS, draft):
        read_openhands_entry(entry, draft)


def read_openhands_entry(entry: Fields, draft: TranscriptDraft) -> None:
    """One event, or the state of the conversation."""
    kind = as_text(entry.get("kind"))
    if kind == "ActionEvent":
        _read_action(entry, draft)
    elif kind in ("ObservationEvent", "UserRejectObservation"):
        _read_observation(entry, draft)
    elif kind == "MessageEvent":
        message = as_object(entry.get("llm_message"))
        origin = build_origin(message_id=entry.get("id"), timestamp=entry.get("timestamp"))
        draft.add_message(message.get("role"), text=join_texts(message.get("content")), origin=origin)
    elif kind == "SystemPromptEvent":
        origin = build_origin(message_id=entry.get("id"), timestamp=entry.get("timestamp"))
        draft.add_message("system", text=join_texts(entry.get("system_prompt")), origin=origin)
    elif kind in _ERRORS:
        _read_error(entry, draft)
    elif "execution_status" in entry or "stats" in entry:
        _read_state(entry, draft)
    elif kind not in _IGNORED:
        draft.skip("unknown-kind")


def _read_action(entry: Fields, draft: TranscriptDraft) -> None:
    message_id = as_text(entry.get("llm_response_id")) or as_text(entry.get("id"))
    origin = build_origin(message_id=message_id, timestamp=entry.get("timestamp"))
    reasoning = as_text(entry.get("reasoning_content")) or ""
    thinking = join_texts(entry.get("thinking_blocks"), "thinking")
    draft.add_message(
        "assistant", text=join_texts(entry.get("thought")), reasoning=reasoning or thinking, origin=origin
    )
    # The call as the model made it; `action` is what OpenHands made of it.
    arguments = read_path(entry, "tool_call", "arguments")
    if arguments is None:
        arguments = {key: value for key, value in as_object(entry.get("action")).items() if key != "kind"}
    draft.add_call(entry.get("tool_call_id"), entry.get("tool_name"), arguments, origin)


def _read_observation(entry: Fields, draft: TranscriptDraft) -> None:
    observation = as_object(entry.get("observation"))
    content = observation.get("content", entry.get("rejection_reason"))
    draft.add_result(
        entry.get("tool_call_id"),
        encode_value(content),
        is_error=observation.get("is_error"),
        finished=entry.get("timestamp"),
    )
    if observation.get("kind") == "FinishObservation":
        draft.state("success", word="finish", text=join_texts(content))


def _read_error(entry: Fields, draft: TranscriptDraft) -> None:
    text = entry.get("detail") or entry.get("error")
    if entry.get("kind") != "AgentErrorEvent":
        draft.state("error", word=entry.get("code"), text=text)
    else:  # a call that could not be carried out; the agent goes on
        draft.add_result(
            entry.get("tool_call_id"), encode_value(text), is_error=True, finished=entry.get("timestamp")
        )


def _read_state(state: Fields, draft: TranscriptDraft) -> None:
    draft.see(session=state.get("id"))
    metrics = as_object(read_path(state, "stats", "usage_to_metrics", "agent"))
    draft.see(model=metrics.get("model_name"))
    draft.totals = ReportedTotals(
        usage=_read_usage(as_object(metrics.get("accumulated_token_usage"))),
        cost_usd=as_decimal(metrics.get("accumulated_cost")),
    )
    for usage in iter_objects(metrics.get("token_usages")):
        draft.set_usage(as_text(usage.get("response_id")), _read_usage(usage), model=usage.get("model"))
    status = as_text(state.get("execution_status"))
    if status in ("finished", "error", "stuck"):
        text = draft.outcome.text if draft.outcome else ""
        draft.state("success" if status == "finished" else "error", word=status, text=text)


def _read_usage(usage: Fields) -> ResponseUsage:
    return build_inclusive(
        total_input=usage.get("prompt_tokens"),
        cache_read=usage.get("cache_read_tokens"),
        cache_write=usage.get("cache_write_tokens"),
        output=usage.get("completion_tokens"),
        reasoning=usage.get("reasoning_tokens"),
    )
