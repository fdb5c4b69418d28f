"""Claude Code's stream and session files, and Qwen Code's stream, which has the same form.

These are the transcripts that come by the gigabyte. So each line is decoded into a type that names only what
is needed; every field accepts every JSON value, which makes one path for right and for wrong entries; and
results stay bytes until they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from repotrial.trace import ResponseUsage
from repotrial.transcripts._draft import Origin, TranscriptDraft
from repotrial.transcripts._lines import iter_entries
from repotrial.transcripts._model import ImportedCall, ReportedTotals
from repotrial.transcripts._values import (
    as_count,
    as_decimal,
    as_micros,
    as_moment,
    as_object,
    as_text,
    build_exclusive,
    build_inclusive,
    decode_leniently,
    join_texts,
)

_Scalar: TypeAlias = str | int | float | bool | None

_SUBAGENT_TOOLS = frozenset({"Agent", "Task", "agent", "task"})
_NOT_A_MODEL = "<synthetic>"
"""The agent's own words in a model's place, such as an error message."""

_IGNORED = frozenset(
    {
        "agent-name",
        "ai-title",
        "attachment",
        "auth_status",
        "control_request",
        "control_response",
        "custom-title",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "progress",
        "queue-operation",
        "rate_limit_event",
        "stream_event",
        "summary",
        "system",
        "tag",
        "tool_progress",
        "tool_use_summary",
    }
)


class _Block(msgspec.Struct, gc=False):
    type: Any = None
    id: Any = None
    name: Any = None
    input: Any = None
    text: Any = None
    thinking: Any = None
    tool_use_id: Any = None
    content: msgspec.Raw = msgspec.Raw()
    is_error: Any = None


_Content: TypeAlias = list[_Block | list[Any] | _Scalar] | dict[str, Any] | _Scalar


class _Lifetimes(msgspec.Struct, gc=False):
    five_minutes: Any = msgspec.field(default=None, name="ephemeral_5m_input_tokens")
    one_hour: Any = msgspec.field(default=None, name="ephemeral_1h_input_tokens")


class _Figures(msgspec.Struct, gc=False):
    input_tokens: Any = None
    cache_read_input_tokens: Any = None
    cache_creation_input_tokens: Any = None
    cache_creation: _Lifetimes | list[Any] | _Scalar = None
    output_tokens: Any = None


class _Message(msgspec.Struct, gc=False):
    id: Any = None
    role: Any = None
    model: Any = None
    content: _Content = None
    stop_reason: Any = None
    usage: _Figures | list[Any] | _Scalar = None


class _Line(msgspec.Struct, gc=False):
    """What every line may have, in the order in which it mostly stands there: that is the fastest."""

    parent_uuid: Any = msgspec.field(default=None, name="parentUuid")
    is_sidechain: Any = msgspec.field(default=None, name="isSidechain")
    agent_id: Any = msgspec.field(default=None, name="agentId")
    type: Any = None
    message: _Message | list[Any] | _Scalar | msgspec.UnsetType = msgspec.UNSET
    parent_tool_use_id: Any = None
    session_id: Any = None
    uuid: Any = None
    cwd: Any = None
    timestamp: Any = None
    session_tool_use_result: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="toolUseResult")
    tool_use_result: msgspec.Raw = msgspec.Raw()
    session: Any = msgspec.field(default=None, name="sessionId")
    version: Any = None
    content: msgspec.Raw = msgspec.Raw()
    model: Any = None
    claude_code_version: Any = None
    qwen_code_version: Any = None
    subtype: Any = None
    is_error: Any = None
    result: Any = None
    errors: Any = None
    num_turns: Any = None
    duration_ms: Any = None
    total_cost_usd: Any = None
    usage: _Figures | list[Any] | _Scalar = None
    model_usage: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="modelUsage")


class _Started(msgspec.Struct):
    agent_id: Any = msgspec.field(default=None, name="agentId")


LINES = msgspec.json.Decoder(_Line)
"""Any line, whatever its fields hold; a bench measures it alone."""

_CONTENT = msgspec.json.Decoder(_Content)
_STARTED = msgspec.json.Decoder(_Started)


def read_claude(lines: Iterator[bytes], draft: TranscriptDraft) -> None:
    """Claude Code: `--output-format stream-json`, or a session file below `projects/`."""
    _Reader(draft, is_qwen=False).read(lines)


def read_qwen_stream(lines: Iterator[bytes], draft: TranscriptDraft) -> None:
    """Qwen Code: `-o stream-json`."""
    _Reader(draft, is_qwen=True).read(lines)


class _Reader:
    def __init__(self, draft: TranscriptDraft, *, is_qwen: bool) -> None:
        self._draft = draft
        self._is_qwen = is_qwen
        self._seen: set[str] = set()
        self._session: object = None
        self._origin = Origin()
        self._usage: dict[str, tuple[_Figures, object, bool, bool]] = {}
        self._parents: dict[str, str] = {}
        self._prompts: dict[str, str] = {}

    def read(self, lines: Iterator[bytes]) -> None:
        for line in iter_entries(lines, LINES, self._draft):
            kind = line.type
            if kind == "user" or kind == "assistant":  # noqa: PLR1714 - this runs for every line
                self._read_message(line)
            elif isinstance(kind, str) and (kind in _IGNORED or kind == "result"):
                self._read_framing(line, is_end=kind == "result")
            else:
                self._draft.skip("unknown-kind")
        for message_id, (figures, model, is_subagent, is_final) in self._usage.items():
            usage = self._build_usage(figures, is_final=is_final)
            # Qwen Code puts zeroes on all blocks but the last.
            if usage.request_input_tokens or usage.output_tokens:
                self._draft.set_usage(message_id, usage, model=model, is_subagent=is_subagent)

    def _read_message(self, line: _Line) -> None:
        message, uuid, draft = line.message, line.uuid, self._draft
        if type(message) is not _Message:
            if message is not msgspec.UNSET:
                draft.skip("wrong-type")
                return
            # Older writers put the message's fields into the entry.
            message = _Message(role=line.type, content=_decode_content(line.content))
        if type(uuid) is str and line.session_id is None:
            if uuid in self._seen:  # a resumed session repeats what it continues
                draft.skip("repeated-entry")
                return
            self._seen.add(uuid)
        session, model = line.session_id or line.session, message.model
        if session != self._session or draft.model is None or draft.agent_version is None:
            self._session = session
            draft.see(session=session, model=None if model == _NOT_A_MODEL else model, version=line.version)
            draft.directory = draft.directory or as_text(line.cwd)
        origin = self._find_origin(line, message)
        self._read_content(message.content, line, message.role or line.type, origin)
        figures, message_id = message.usage, origin.message_id
        if type(figures) is _Figures and message_id and model != _NOT_A_MODEL:
            is_final = self._is_qwen or message.stop_reason is not None
            self._usage[message_id] = (figures, model, origin.is_subagent, is_final)

    def _read_content(self, content: _Content, line: _Line, role: object, origin: Origin) -> None:
        draft = self._draft
        if type(content) is not list:
            if isinstance(content, str):
                draft.add_message(role, text=content, origin=origin)
            else:
                draft.skip("wrong-type")
            return
        for block in content:
            if type(block) is not _Block:
                draft.skip("wrong-type")
                continue
            kind = block.type
            if kind == "tool_use":
                self._read_call(block, origin)
            elif kind == "tool_result":
                self._read_result(block, origin, line)
            elif kind == "text" or kind == "thinking":  # noqa: PLR1714 - this runs for every block
                text = block.text if type(block.text) is str else ""
                thinking = block.thinking if type(block.thinking) is str else ""
                draft.add_message(role, text=text, reasoning=thinking, origin=origin)

    def _read_call(self, block: _Block, origin: Origin) -> None:
        call = self._draft.add_call(block.id, block.name, block.input, origin)
        if call is not None and call.call_id and call.name in _SUBAGENT_TOOLS:
            prompt = as_text(as_object(call.arguments).get("prompt"))
            if prompt is not None:
                self._prompts[prompt] = call.call_id

    def _read_result(self, block: _Block, origin: Origin, line: _Line) -> None:
        call = self._draft.add_result(
            block.tool_use_id,
            bytes(block.content) or b"null",
            is_error=block.is_error,
            finished=origin.timestamp,
        )
        if call is not None and call.name in _SUBAGENT_TOOLS:
            _note_subagent(call, line.tool_use_result or line.session_tool_use_result)

    def _find_origin(self, line: _Line, message: _Message) -> Origin:
        message_id, timestamp, parent = message.id, line.timestamp, line.parent_tool_use_id
        if type(message_id) is not str:
            message_id = None
        if timestamp is not None and type(timestamp) is not str:
            timestamp = as_moment(timestamp)
        if parent is None and line.is_sidechain is not True:
            last = self._origin  # the blocks of a message come one by one
            if last.message_id != message_id or last.timestamp != timestamp:
                last = self._origin = Origin(message_id=message_id or None, timestamp=timestamp or None)
            return last
        return Origin(
            message_id=message_id,
            timestamp=timestamp,
            is_subagent=True,
            parent_call_id=as_text(parent) or self._find_parent(line, message),
            subagent_id=as_text(line.agent_id),
        )

    def _find_parent(self, line: _Line, message: _Message) -> str | None:
        """A sidechain begins with the prompt of the call that started it, and goes on by `parentUuid`."""
        parent = self._parents.get(line.parent_uuid) if isinstance(line.parent_uuid, str) else None
        if parent is None:
            parent = self._prompts.get(_said(message.content))
        if parent is not None and isinstance(line.uuid, str):
            self._parents[line.uuid] = parent
        return parent

    def _build_usage(self, figures: object, *, is_final: bool) -> ResponseUsage:
        """Until a message is complete its figures are those of its beginning: the output is not known."""
        if type(figures) is not _Figures:
            return ResponseUsage()
        output = figures.output_tokens if is_final else None
        fresh, read = figures.input_tokens, figures.cache_read_input_tokens
        if self._is_qwen:
            return build_inclusive(total_input=fresh, cache_read=read, output=output)
        split = figures.cache_creation
        if type(split) is not _Lifetimes:  # then all of it has the default lifetime
            split = _Lifetimes(five_minutes=figures.cache_creation_input_tokens)
        return build_exclusive(
            fresh_input=fresh,
            cache_read=read,
            cache_write_5m=split.five_minutes,
            cache_write_1h=split.one_hour,
            output=output,
        )

    def _read_framing(self, line: _Line, *, is_end: bool) -> None:
        draft = self._draft
        version = line.claude_code_version or line.qwen_code_version or line.version
        draft.see(session=line.session_id or line.session, model=line.model, version=version)
        draft.directory = draft.directory or as_text(line.cwd)
        if not is_end:
            return
        models = as_object(decode_leniently(bytes(line.model_usage) or b"null"))
        draft.totals = ReportedTotals(
            usage=_sum_models(models) or self._build_usage(line.usage, is_final=True),
            cost_usd=as_decimal(line.total_cost_usd),
            turns=as_count(line.num_turns),
            duration_us=as_micros(line.duration_ms, per_unit=1000),
        )
        text = as_text(line.result) or join_texts(line.errors)
        # Qwen Code says success and puts the error into the answer.
        failed = line.is_error is True or line.subtype != "success" or text.startswith("[API Error")
        draft.state("error" if failed else "success", word=line.subtype, text=text)


def _decode_content(raw: msgspec.Raw) -> _Content:
    try:
        return _CONTENT.decode(raw) if raw else None
    except (ValueError, RecursionError):
        return None


def _said(content: object) -> str:
    if isinstance(content, list):
        return next((b.text for b in content if isinstance(b, _Block) and isinstance(b.text, str)), "")
    return content if isinstance(content, str) else ""


def _note_subagent(call: ImportedCall, raw: msgspec.Raw) -> None:
    try:
        started = as_text(_STARTED.decode(raw).agent_id) if raw else None
    except (ValueError, RecursionError):
        return
    force_setattr(call, "started_subagent_id", started)


def _sum_models(models: object) -> ResponseUsage | None:
    """All models together, subagents' and helpers' included; the plain usage knows only one of them."""
    names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
    rows = [as_object(model) for model in as_object(models).values()]
    sums = [[as_count(row.get(name)) for row in rows] for name in names]
    if not rows or any(count is None for column in sums for count in column):
        return None
    fresh, read, written, output = (sum(count or 0 for count in column) for column in sums)
    return build_exclusive(fresh_input=fresh, cache_read=read, cache_write_5m=written, output=output)
