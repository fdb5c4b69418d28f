"""ATIF trajectories, v1.0 to v1.8, as they are and as corpora trim them."""

from __future__ import annotations

import re

import msgspec

from repotrial.trace import ResponseUsage
from repotrial.transcripts._draft import Origin, TranscriptDraft, build_origin
from repotrial.transcripts._model import ImportedCall, ReportedTotals, ToolOutput
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
    read_path,
)

_MAX_SUBAGENT_LEVELS = 8
_PREVIEW_CALL = re.compile(
    r'"tool_call_id":\s*"([^"\\]{1,200})",\s*"function_name":\s*"([^"\\]{1,200})",\s*"arguments":\s*'
)
_PREVIEW_RESULT = re.compile(r'"source_call_id":\s*"([^"\\]{1,200})",\s*"content":\s*"')
_CUT_MARK = re.compile(r"\.\.\.\[truncated\]\.\.\.$")
_MAX_ESCAPE = 12
"""A cut can fall into an escaped pair of surrogates, `\\ud83d\\ude00`."""


def read_atif(document: Fields, draft: TranscriptDraft) -> None:
    """A trajectory with the trajectories of its subagents."""
    agent = as_object(document.get("agent"))
    draft.agent = as_text(agent.get("name")) or draft.agent
    draft.see(model=agent.get("model_name"), version=agent.get("version"))
    directories = read_path(agent, "extra", "cwds")
    draft.directory = as_text(directories[0]) if isinstance(directories, list) and directories else None
    _Reader(draft).read(document, Origin(), prefix="", levels=_MAX_SUBAGENT_LEVELS)
    metrics = as_object(document.get("final_metrics"))
    draft.totals = ReportedTotals(
        usage=_read_metrics(
            {
                "prompt_tokens": metrics.get("total_prompt_tokens"),
                "completion_tokens": metrics.get("total_completion_tokens"),
                "cached_tokens": metrics.get("total_cached_tokens"),
                "cache_creation": read_path(metrics, "extra", "total_cache_creation_input_tokens"),
            }
        ),
        cost_usd=as_decimal(metrics.get("total_cost_usd")),
    )


class _Reader:
    def __init__(self, draft: TranscriptDraft) -> None:
        self._draft = draft
        self._subagents: dict[str, str] = {}
        self._call_key: tuple[object, ...] | None = None
        self._call_message = ""

    def read(self, document: Fields, around: Origin, *, prefix: str, levels: int) -> None:
        self._draft.see(session=document.get("session_id"))
        for number, step in self._draft.iter_parts(document.get("steps"), are_entries=True):
            self._read_step(step, f"{prefix}step-{number + 1}", around)
        self._read_subagents(document.get("subagent_trajectories"), prefix, levels)

    def _read_subagents(self, trajectories: object, prefix: str, levels: int) -> None:
        for number, child in enumerate(iter_objects(trajectories)):
            if not levels:
                self._draft.skip("too-deep")
                continue
            name = as_text(child.get("trajectory_id")) or as_text(child.get("session_id"))
            parent = self._subagents.get(name or "")
            around = Origin(is_subagent=True, parent_call_id=parent, subagent_id=name)
            self._call_key = None
            self.read(child, around, prefix=f"{prefix}subagent-{number}/", levels=levels - 1)

    def _read_step(self, step: Fields, step_id: str, around: Origin) -> None:
        extra = as_object(step.get("extra"))
        is_subagent = around.is_subagent or extra.get("is_sidechain") is True
        origin = build_origin(
            message_id=self._read_usage(step, step_id, is_subagent=is_subagent),
            timestamp=step.get("timestamp"),
            is_subagent=is_subagent,
            parent_call_id=around.parent_call_id,
            subagent_id=around.subagent_id,
        )
        calls = self._read_calls(step.get("tool_calls"), origin)
        text = join_texts(step.get("message"))
        # Claude Code's exporter writes a sentence of its own for every call.
        if not (calls and text.startswith("Executed ") and calls[0].call_id and calls[0].call_id in text):
            reasoning = as_text(step.get("reasoning_content")) or ""
            self._draft.add_message(step.get("source"), text=text, reasoning=reasoning, origin=origin)
        self._read_observation(step.get("observation"), calls, extra)

    def _read_usage(self, step: Fields, step_id: str, *, is_subagent: bool) -> str:
        """The message of a step: exporters of Claude Code give each block of a message its own step."""
        metrics = as_object(step.get("metrics"))
        if not metrics:
            self._call_key = None if step.get("source") == "user" else self._call_key
            return step_id
        extra = as_object(metrics.get("extra"))
        created = extra.get("cache_creation_input_tokens")
        key = (metrics.get("prompt_tokens"), metrics.get("cached_tokens"), created, step.get("model_name"))
        has_parts = created is not None or self._draft.agent == "claude-code"
        if not has_parts or key != self._call_key:
            self._call_key, self._call_message = key, step_id
        usage = _read_metrics({**metrics, "cache_creation": created})
        self._draft.see(model=step.get("model_name"))
        self._draft.set_usage(
            self._call_message,
            usage,
            model=step.get("model_name"),
            cost_usd=as_decimal(metrics.get("cost_usd")),
            is_subagent=is_subagent,
        )
        return self._call_message

    def _read_calls(self, value: object, origin: Origin) -> list[ImportedCall]:
        if value is None:
            return []
        if isinstance(value, dict):
            return self._recover_calls(as_text(value.get("preview")) or "", origin)
        calls = []
        for _, item in self._draft.iter_parts(value):
            name = item.get("function_name") or item.get("name")
            call = self._draft.add_call(item.get("tool_call_id"), name, item.get("arguments"), origin)
            if call is not None:
                calls.append(call)
        return calls

    def _recover_calls(self, preview: str, origin: Origin) -> list[ImportedCall]:
        """What a trimmed list still shows: the first call's id, name and the beginning of its arguments."""
        self._draft.skip("trimmed")
        match = _PREVIEW_CALL.search(preview)
        if match is None:
            return []
        call = self._draft.add_call(match[1], match[2], preview[match.end() :], origin)
        return [] if call is None else [call]

    def _read_observation(self, value: object, calls: list[ImportedCall], extra: Fields) -> None:
        if value is None:
            return
        observation = as_object(value)
        failed = extra.get("tool_result_is_error")
        results = observation.get("results")
        if isinstance(results, list):
            for position, result in enumerate(results):
                self._read_result(result, calls, position, failed)
        elif "preview" in observation:
            self._recover_result(as_text(observation.get("preview")) or "", failed)
        elif "content" in observation:  # against the format, but read
            self._finish(calls[:1], observation["content"], failed)
        elif isinstance(value, str):
            self._finish(calls[:1], value, failed)
        else:
            self._draft.skip("wrong-type")

    def _read_result(self, result: object, calls: list[ImportedCall], position: int, failed: object) -> None:
        if not isinstance(result, dict):
            self._draft.skip("wrong-type")
            return
        call_id = result.get("source_call_id")
        if call_id is None:  # allowed; then the position says which
            self._finish(calls[position : position + 1], result.get("content"), failed)
            return
        content = encode_value(result.get("content"))
        call = self._draft.add_result(call_id, content, is_error=failed)
        for reference in iter_objects(result.get("subagent_trajectory_ref")):
            for key in ("trajectory_id", "session_id"):
                name = as_text(reference.get(key))
                if call is not None and call.call_id and name:
                    self._subagents[name] = call.call_id

    def _recover_result(self, preview: str, failed: object) -> None:
        self._draft.skip("trimmed")
        match = _PREVIEW_RESULT.search(preview)
        call = self._draft.find_call(match[1]) if match else None
        if match is not None and call is not None:
            text = _decode_prefix(_CUT_MARK.sub("", preview[match.end() :]))
            output = ToolOutput(raw=encode_value(text), is_trimmed=True)
            self._draft.finish_call(call, output, is_error=failed)

    def _finish(self, calls: list[ImportedCall], content: object, failed: object) -> None:
        if not calls:
            self._draft.skip("result-without-call")
        for call in calls:
            self._draft.finish_call(call, ToolOutput(raw=encode_value(content)), is_error=failed)


def _decode_prefix(text: str) -> str:
    """The text of a JSON string whose end was cut off."""
    for cut in range(min(_MAX_ESCAPE, len(text)) + 1):
        try:
            return msgspec.json.decode(f'"{text[: len(text) - cut]}"', type=str)
        except ValueError:
            continue
    return ""


def _read_metrics(metrics: Fields) -> ResponseUsage:
    """Prompt tokens contain the cached ones, but not what Claude Code's requests stored in the cache."""
    usage = build_inclusive(
        total_input=metrics.get("prompt_tokens"),
        cache_read=metrics.get("cached_tokens"),
        output=metrics.get("completion_tokens"),
    )
    created, whole = as_count(metrics.get("cache_creation")), usage.request_input_tokens
    if created is None or whole is None:
        return usage
    return msgspec.structs.replace(usage, cache_write_5m_tokens=created, request_input_tokens=whole + created)
