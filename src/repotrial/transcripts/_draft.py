"""A transcript in the making: calls get their results, repeated notes are taken once, the rest is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec.structs import force_setattr

from repotrial.trace import ResponseUsage
from repotrial.transcripts._model import (
    Arguments,
    ImportedCall,
    ImportedMessage,
    ImportedTranscript,
    MessageUsage,
    ReportedTotals,
    SkippedEntries,
    SkipReason,
    StatedOutcome,
    ToolOutput,
)
from repotrial.transcripts._values import Fields, as_moment, as_text, encode_value, parse_object


class Origin(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where in a transcript something stands."""

    message_id: str | None = None
    timestamp: str | None = None
    is_subagent: bool = False
    parent_call_id: str | None = None
    subagent_id: str | None = None


def build_origin(
    *,
    message_id: object = None,
    timestamp: object = None,
    is_subagent: bool = False,
    parent_call_id: object = None,
    subagent_id: object = None,
) -> Origin:
    """An origin from fields of any type."""
    return Origin(
        message_id=as_text(message_id),
        timestamp=as_moment(timestamp),
        is_subagent=is_subagent,
        parent_call_id=as_text(parent_call_id),
        subagent_id=as_text(subagent_id),
    )


class TranscriptDraft:
    """What an importer has found so far."""

    def __init__(self, *, format_: str, agent: str | None) -> None:
        self._format = format_
        self.agent = agent
        self.agent_version: str | None = None
        self.model: str | None = None
        self.directory: str | None = None
        self.entries = 0
        self.totals = ReportedTotals()
        self.outcome: StatedOutcome | None = None
        self.messages: list[ImportedMessage] = []
        self._continued: dict[int, list[tuple[str, str]]] = {}
        self.calls: list[ImportedCall] = []
        self._sessions: dict[str, None] = {}
        self._usage: dict[str, MessageUsage] = {}
        self._by_id: dict[str, ImportedCall] = {}
        self._skipped: Counter[SkipReason] = Counter()

    def skip(self, reason: SkipReason) -> None:
        self._skipped[reason] += 1

    def iter_parts(self, parts: object, *, are_entries: bool = False) -> Iterator[tuple[int, Fields]]:
        """The objects of a list, each with its place; anything else is counted as being of a wrong type."""
        if not isinstance(parts, list):
            self.skip("wrong-type")
            return
        for number, part in enumerate(parts):
            self.entries += are_entries
            if isinstance(part, dict):
                yield number, part
            else:
                self.skip("wrong-type")

    def see(self, *, session: object = None, model: object = None, version: object = None) -> None:
        """Note who speaks; the first model and version stand, every session is kept."""
        if isinstance(session, str) and session:
            self._sessions[session] = None
        if self.model is None and model is not None:
            self.model = as_text(model)
        if self.agent_version is None and version is not None:
            self.agent_version = as_text(version)

    def add_message(self, role: object, *, text: str, origin: Origin, reasoning: str = "") -> None:
        """Note something said; what follows with the same id and role continues it."""
        if not text and not reasoning:
            return
        spoken = role if isinstance(role, str) and role else "unknown"
        last = self.messages[-1] if self.messages else None
        if last and origin.message_id and (last.message_id, last.role) == (origin.message_id, spoken):
            more = self._continued.setdefault(len(self.messages) - 1, [(last.text, last.reasoning)])
            more.append((text, reasoning))
            return
        self.messages.append(
            ImportedMessage(
                role=spoken,
                text=text,
                reasoning=reasoning,
                message_id=origin.message_id,
                timestamp=origin.timestamp,
                is_subagent=origin.is_subagent,
            )
        )

    def add_call(
        self, call_id: object, name: object, arguments: object, origin: Origin
    ) -> ImportedCall | None:
        """Note a tool call; None, and counted, if it names no tool or repeats one of the same message."""
        if type(name) is not str or not name:
            self.skip("call-without-name")
            return None
        known_id = call_id if type(call_id) is str and call_id else None
        earlier = self._by_id.get(known_id) if known_id else None
        # Ids start anew in some conversations; within one message the same id is the same call.
        if earlier and origin.message_id and earlier.message_id == origin.message_id:
            self.skip("repeated-call")
            return None
        call = ImportedCall(
            order=len(self.calls),
            call_id=known_id,
            name=name,
            arguments=_normalize_arguments(arguments),
            timestamp=origin.timestamp,
            is_subagent=origin.is_subagent,
            parent_call_id=origin.parent_call_id,
            subagent_id=origin.subagent_id,
            message_id=origin.message_id,
        )
        self.calls.append(call)
        if known_id:
            self._by_id[known_id] = call
        return call

    def find_call(self, call_id: object) -> ImportedCall | None:
        """The latest call with this id."""
        return self._by_id.get(call_id) if isinstance(call_id, str) else None

    def add_result(
        self, call_id: object, raw: bytes, *, is_error: object = None, finished: object = None
    ) -> ImportedCall | None:
        """Give a call its result, as JSON; counted where there is no such call or it has one already."""
        call = self._by_id.get(call_id) if type(call_id) is str else None
        if call is None:
            self.skip("result-without-call")
            return None
        return self.finish_call(call, ToolOutput(raw=raw), is_error=is_error, finished=finished)

    def finish_call(
        self,
        call: ImportedCall,
        output: ToolOutput | None,
        *,
        is_error: object = None,
        finished: object = None,
    ) -> ImportedCall | None:
        """Give a call its result; the first one stands."""
        if call.output is not None:
            self.skip("repeated-result")
            return None
        force_setattr(call, "output", output)
        if type(is_error) is bool:
            force_setattr(call, "is_error", is_error)
        if finished is not None:
            force_setattr(call, "finished", as_moment(finished))
        return call

    def mark_call(self, call_id: object, *, is_error: bool) -> None:
        """Note whether a call failed, where that stands apart from its result."""
        call = self.find_call(call_id)
        if call is not None:
            force_setattr(call, "is_error", is_error)

    def set_usage(
        self,
        message_id: str | None,
        usage: ResponseUsage,
        *,
        model: object = None,
        cost_usd: str | None = None,
        is_subagent: bool = False,
    ) -> None:
        """Note what a message consumed; a later note on the same message replaces the earlier one."""
        key = message_id or f"message-{len(self._usage)}"
        self._usage[key] = MessageUsage(
            message_id=key, usage=usage, model=as_text(model), cost_usd=cost_usd, is_subagent=is_subagent
        )

    def state(self, status: Literal["success", "error"], *, word: object, text: object) -> None:
        """Note how the agent says it ended."""
        self.outcome = StatedOutcome(status=status, word=as_text(word) or status, text=as_text(text) or "")

    def build(self) -> ImportedTranscript:
        for index, parts in self._continued.items():
            texts, thoughts = zip(*parts, strict=True)
            force_setattr(self.messages[index], "text", "\n".join(filter(None, texts)))
            force_setattr(self.messages[index], "reasoning", "\n".join(filter(None, thoughts)))
        return ImportedTranscript(
            format=self._format,
            agent=self.agent,
            agent_version=self.agent_version,
            model=self.model,
            session_ids=tuple(self._sessions),
            messages=tuple(self.messages),
            calls=tuple(self.calls),
            usage=tuple(self._usage.values()),
            totals=self.totals,
            outcome=self.outcome,
            entries=self.entries,
            skipped=tuple(
                SkippedEntries(reason=reason, count=count) for reason, count in sorted(self._skipped.items())
            ),
            directory=self.directory,
        )


def _normalize_arguments(value: object) -> Arguments:
    if isinstance(value, dict):
        return value
    if value is None:
        return {}
    if isinstance(value, str):
        parsed = parse_object(value)
        return value if parsed is None else parsed
    return encode_value(value).decode()
