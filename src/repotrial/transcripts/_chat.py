"""Trajectories that are a list of chat messages: mini-swe-agent and SWE-agent."""

from __future__ import annotations

import re

from repotrial.transcripts._draft import Origin, TranscriptDraft, build_origin
from repotrial.transcripts._model import ReportedTotals, ToolOutput
from repotrial.transcripts._values import (
    Fields,
    as_count,
    as_decimal,
    as_object,
    as_text,
    build_inclusive,
    encode_value,
    iter_objects,
    join_texts,
    read_openai,
    read_path,
)

_FENCED = re.compile(r"```(?:bash|sh|mswea_bash_command)[ \t]*\n(.*?)\n?```", re.DOTALL)
_RETURN_CODE = re.compile(r"<returncode>(-?\d+)</returncode>")


def read_mini_swe_agent(document: Fields, draft: TranscriptDraft) -> None:
    """mini-swe-agent's `.traj.json`: with tool calls, or (v1) with one fenced command for each answer."""
    info = as_object(document.get("info"))
    draft.see(
        model=read_path(info, "config", "model", "model_name"),
        version=info.get("mini_version"),
    )
    draft.totals = ReportedTotals(
        cost_usd=as_decimal(read_path(info, "model_stats", "instance_cost")),
        turns=as_count(read_path(info, "model_stats", "api_calls")),
    )
    _MiniReader(draft).read(document.get("messages"))
    status = as_text(info.get("exit_status"))
    if status is not None:
        last = draft.messages[-1].text if draft.messages and draft.messages[-1].role == "exit" else ""
        text = info.get("submission") or last
        draft.state("success" if status == "Submitted" else "error", word=status, text=text)


class _MiniReader:
    def __init__(self, draft: TranscriptDraft) -> None:
        self._draft = draft
        self._fenced: str | None = None

    def read(self, messages: object) -> None:
        for number, message in self._draft.iter_parts(messages, are_entries=True):
            self._read_message(message, number)

    def _read_message(self, message: Fields, number: int) -> None:
        extra = as_object(message.get("extra"))
        response = as_object(extra.get("response"))
        message_id = as_text(response.get("id")) or f"message-{number}"
        origin = build_origin(message_id=message_id, timestamp=extra.get("timestamp"))
        role, text = message.get("role"), join_texts(message.get("content"))
        if role == "tool":
            self._read_result(message, extra)
            return
        if role == "user" and self._fenced is not None:
            self._read_fenced_result(text)
            return
        self._draft.add_message(role, text=text, origin=origin)
        if role == "assistant":
            self._draft.see(model=response.get("model"))
            if response.get("usage") is not None:
                cost = as_decimal(extra.get("cost"))
                usage = read_openai(response["usage"])
                self._draft.set_usage(message_id, usage, model=response.get("model"), cost_usd=cost)
            self._read_calls(message, text, origin)

    def _read_calls(self, message: Fields, text: str, origin: Origin) -> None:
        self._fenced = None
        calls = message.get("tool_calls")
        if calls is not None:
            add_openai_calls(calls, origin, self._draft)
            return
        commands = _FENCED.findall(text)
        if len(commands) == 1:  # the agent itself runs an answer only if it has exactly one
            self._fenced = f"{origin.message_id}/command"
            self._draft.add_call(self._fenced, "bash", {"command": commands[0]}, origin)

    def _read_result(self, message: Fields, extra: Fields) -> None:
        code = extra.get("returncode")
        self._draft.add_result(
            message.get("tool_call_id"),
            encode_value(join_texts(message.get("content"))),
            is_error=bool(code) if isinstance(code, int) else None,
            finished=extra.get("timestamp"),
        )

    def _read_fenced_result(self, text: str) -> None:
        code = _RETURN_CODE.search(text)
        failed = None if code is None else code[1] != "0"
        self._draft.add_result(self._fenced, encode_value(text), is_error=failed)
        self._fenced = None


def add_openai_calls(calls: object, origin: Origin, draft: TranscriptDraft) -> None:
    """The `tool_calls` of a Chat Completions message."""
    for _, call in draft.iter_parts(calls):
        function = as_object(call.get("function"))
        draft.add_call(call.get("id"), function.get("name"), function.get("arguments"), origin)


def read_swe_agent(document: Fields, draft: TranscriptDraft) -> None:
    """SWE-agent's `.traj`: calls from the history, or from the trajectory where that has no tool calls."""
    info = as_object(document.get("info"))
    stats = as_object(info.get("model_stats"))
    draft.see(version=info.get("swe_agent_version"))
    draft.totals = ReportedTotals(
        usage=build_inclusive(total_input=stats.get("tokens_sent"), output=stats.get("tokens_received")),
        cost_usd=as_decimal(stats.get("instance_cost")),
        turns=as_count(stats.get("api_calls")),
    )
    for number, message in enumerate(iter_objects(document.get("history"))):
        draft.entries += 1
        _read_history(message, number, draft)
    if not draft.calls:
        _read_steps(document.get("trajectory"), draft)
    status = as_text(info.get("exit_status"))
    if status is not None:
        succeeded = status.startswith("submitted")
        draft.state("success" if succeeded else "error", word=status, text=info.get("submission"))


def _read_history(message: Fields, number: int, draft: TranscriptDraft) -> None:
    origin = Origin(message_id=f"message-{number}")
    text = join_texts(message.get("content")).removeprefix("OBSERVATION:\n")
    ids = message.get("tool_call_ids")
    if message.get("role") == "tool":
        for call_id in ids if isinstance(ids, list) else [None]:
            draft.add_result(call_id, encode_value(text))
        return
    draft.add_message(message.get("role"), text=text, origin=origin)
    if message.get("tool_calls") is not None:
        add_openai_calls(message["tool_calls"], origin, draft)


def _read_steps(steps: object, draft: TranscriptDraft) -> None:
    for number, step in draft.iter_parts(steps, are_entries=True):
        action = as_text(step.get("action"))
        if action is None:
            draft.skip("wrong-type")
            continue
        call = draft.add_call(None, "action", {"command": action}, Origin(message_id=f"step-{number}"))
        if call is not None:
            draft.finish_call(call, ToolOutput(raw=encode_value(step.get("observation"))))
