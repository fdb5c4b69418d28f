"""Conversations that grow: each message is stored once, however often it is sent again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial.trace._body import Body
from repotrial.trace._event import Actor, EventRef
from repotrial.trace._payloads.actions import Message, Prompt, RepeatedPrefix, digest_messages
from repotrial.trace._writer import DroppedEvent, TraceWriter


class RawMessage(msgspec.Struct, frozen=True):
    """A message as it was sent."""

    role: str
    """Who speaks, in the provider's word."""
    data: bytes
    """Its exact bytes."""


class Conversation:
    """Records the prompts of one conversation, naming what the prompt before already holds."""

    def __init__(self, writer: TraceWriter, *, name: str) -> None:
        self._writer = writer
        self._name = name
        self._index = 0
        self._last: int | None = None
        self._messages: list[Message] = []

    def append(
        self, messages: Sequence[RawMessage], *, model: str, request: bytes, actor: Actor = "agent"
    ) -> EventRef | DroppedEvent:
        """Record a request with all its messages; only those that are new take space."""
        shared = self._count_shared(messages)
        new = [Message(role=item.role, body=self._body(item.data)) for item in messages[shared:]]
        kept = self._messages[:shared]
        prompt = Prompt(
            model=model,
            conversation=self._name,
            index=self._index,
            request=self._body(request),
            repeats=self._prefix(kept),
            messages=tuple(new),
        )
        result = self._writer.append(prompt, actor=actor)
        self._index += 1
        if isinstance(result, EventRef):
            self._last, self._messages = result.seq, kept + new
        return result

    def _count_shared(self, messages: Sequence[RawMessage]) -> int:
        shared = 0
        for old, new in zip(self._messages, messages, strict=False):
            # The length comes first: most messages that differ are told apart without hashing.
            if old.role != new.role or old.body.length_bytes != len(new.data):
                break
            if old.body.digest != digest_bytes(new.data):
                break
            shared += 1
        return shared

    def _prefix(self, kept: list[Message]) -> RepeatedPrefix | None:
        if not kept or self._last is None:
            return None
        return RepeatedPrefix(prompt=self._last, messages=len(kept), digest=digest_messages(kept))

    def _body(self, data: bytes) -> Body:
        return self._writer.body(data, of=Prompt)
