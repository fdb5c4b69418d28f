"""One form for every foreign transcript: what an agent wrote about itself, recorded and not believed."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial.trace import ResponseUsage
from repotrial.transcripts._values import decode_leniently, parse_moment

Arguments: TypeAlias = "dict[str, Any] | str"
"""A JSON object; the raw text where the transcript has something else."""

SkipReason: TypeAlias = Literal[
    "call-without-name",
    "not-an-object",
    "not-json",
    "repeated-call",
    "repeated-entry",
    "repeated-result",
    "result-without-call",
    "too-deep",
    "too-long",
    "trimmed",
    "unknown-kind",
    "wrong-type",
]
"""Why an entry, or a part of one, was not taken."""

_TEXT_KEYS = ("text", "result", "output")
_MAX_LEVELS = 4
"""Of blocks within blocks; deeper ones are shown as JSON."""


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a tool gave back, decoded only when it is asked for."""

    raw: bytes
    """The content as JSON, as the transcript writes it."""
    is_trimmed: bool = False
    """Whether it was cut before it came to us."""

    @property
    def content(self) -> object:
        """The decoded JSON; a text of the bytes where they are none."""
        return decode_leniently(self.raw)

    @property
    def text(self) -> str:
        """What a model would have read: a text as it is, blocks joined by newlines, anything else as JSON."""
        return _render(self.content, _MAX_LEVELS)


class ImportedMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something said, without the tool calls in it."""

    role: str
    """Who speaks, in the transcript's word."""
    text: str
    """What was said; texts of one message are joined by newlines."""
    reasoning: str = ""
    """What the model showed of its thinking; empty where it showed none."""
    message_id: str | None = None
    """The message's id; None if the transcript gives none."""
    timestamp: str | None = None
    """When, as the transcript writes it."""
    is_subagent: bool = False
    """Whether it belongs to a subagent's conversation."""

    @property
    def at_us(self) -> int | None:
        """When, in microseconds since the epoch; None if it cannot be read."""
        return parse_moment(self.timestamp)


class ImportedCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One use of a tool."""

    order: Count
    """Number of the call within the transcript, from 0, whatever its tool."""
    call_id: str | None
    """The call's id in the conversation; None if there is none."""
    name: str
    """The tool, in the agent's word."""
    arguments: Arguments
    """What it was called with."""
    output: ToolOutput | None = None
    """What came back; None if the transcript has no result."""
    is_error: bool | None = None
    """Whether the agent marked the result as failed; None if it does not say."""
    timestamp: str | None = None
    """When it was asked for, as the transcript writes it."""
    finished: str | None = None
    """When the result was there, as the transcript writes it."""
    is_subagent: bool = False
    """Whether a subagent made the call."""
    parent_call_id: str | None = None
    """The call that started that subagent; None if it is not known."""
    subagent_id: str | None = None
    """The subagent that made the call, where the transcript names it."""
    started_subagent_id: str | None = None
    """The subagent that this call started, where the transcript names it."""
    message_id: str | None = None
    """The model's message that asked for it."""

    @property
    def started_at_us(self) -> int | None:
        """When it was asked for, in microseconds since the epoch; None if it cannot be read."""
        return parse_moment(self.timestamp)


class MessageUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens of one message of a model, as the agent noted them; the last note counts."""

    message_id: str
    """The message; made up from the position where the transcript has no ids."""
    usage: ResponseUsage
    """What it consumed; None is unknown."""
    model: str | None = None
    """The model that answered."""
    cost_usd: str | None = None
    """What the agent believes it cost, as a decimal."""
    is_subagent: bool = False
    """Whether it belongs to a subagent's conversation."""


class ReportedTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent says about its whole run."""

    usage: ResponseUsage = msgspec.field(default_factory=ResponseUsage)
    """Tokens; None is unknown."""
    cost_usd: str | None = None
    """What it believes it cost, as a decimal."""
    turns: Count | None = None
    """Turns or model calls, as the agent counts them."""
    tool_calls: Count | None = None
    """Tool calls, as the agent counts them."""
    duration_us: Count | None = None
    """How long it took, by the agent's own clock."""


class StatedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How the agent says it ended."""

    status: Literal["success", "error"]
    """Success or error; never evidence of either."""
    word: str
    """The agent's own word for it, such as `error_max_turns` or `Submitted`."""
    text: str
    """What it says about it: the final answer or the error message."""


class SkippedEntries(msgspec.Struct, frozen=True, kw_only=True):
    """How many entries were left out for one reason."""

    reason: SkipReason
    """Why."""
    count: Count
    """How many."""


class ImportedTranscript(msgspec.Struct, frozen=True, kw_only=True):
    """A foreign transcript, read as far as it can be read."""

    format: str
    """The importer that read it."""
    agent: str | None
    """The agent's name."""
    agent_version: str | None
    """Its version, as it says."""
    model: str | None
    """The first model named; single messages may name others."""
    session_ids: tuple[str, ...]
    """Every session named, in order of appearance."""
    messages: tuple[ImportedMessage, ...]
    """What was said, in order."""
    calls: tuple[ImportedCall, ...]
    """Every tool call, in order."""
    usage: tuple[MessageUsage, ...]
    """Tokens of each message, in order of appearance, each message once."""
    totals: ReportedTotals
    """What the agent reports about itself."""
    outcome: StatedOutcome | None
    """How the agent says it ended; None if the transcript has no end."""
    entries: Count
    """Lines or entries seen, blank ones left out."""
    skipped: tuple[SkippedEntries, ...]
    """What was not taken, by reason."""
    directory: str | None = None
    """Where the agent says it began to work; None if it does not."""

    @property
    def total_usage(self) -> ResponseUsage:
        """The sum over `usage`; a part that one message leaves open is None."""
        parts = [name for name in ResponseUsage.__struct_fields__ if name.endswith("_tokens")]
        sums = {part: _sum_known([getattr(each.usage, part) for each in self.usage]) for part in parts}
        return msgspec.convert(sums, ResponseUsage)


def _sum_known(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def _render(value: object, levels: int) -> str:
    match value:
        case str():
            return value
        case None:
            return ""
        case list() if levels:
            return "\n".join(filter(None, (_render(item, levels - 1) for item in value)))
        case {"type": "image" | "audio" | "document"}:
            return ""
        case {"content": list() as blocks} if levels:
            return _render(blocks, levels - 1)
        case dict():
            texts = (value.get(key) for key in _TEXT_KEYS)
            return next((text for text in texts if isinstance(text, str)), None) or _dump(value)
        case _:
            return _dump(value)


def _dump(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return ""
