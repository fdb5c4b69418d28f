"""Conversations that grow: each message is stored once, however often it is sent again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial.trace._body import Body
from repotrial.trace._event import Actor, EventRef
from repotrial.trace._payloads.dialogue import Message, Prompt, RepeatedPrefix, digest_messages
from repotrial.trace._reader import iter_events
from repotrial.trace._writer import DroppedEvent, TraceWriter

BROKEN_PREFIX = ErrorCode(
    "broken-prefix",
    EvidenceError,
    "A prompt refers to earlier messages that the trace does not hold, or that are others than it says.",
    hint="verify the run directory; a trace of the writer always holds them",
)


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


def load_messages(path: Path, seq: int) -> tuple[Message, ...]:
    """All messages of the prompt at `seq`, in order; two passes over the trace, one conversation in memory.

    Raises:
        BROKEN_PREFIX: there is no such prompt, or an earlier one does not hold what this one repeats.
        EvidenceError: the trace cannot be read (see `iter_events`).
    """
    prefixes = _load_prefixes(path, seq)
    taken = _plan(prefixes, seq, path)
    messages: list[Message] = []
    for event in iter_events(path, allow_torn_tail=True):
        if event.seq in taken and isinstance(event.payload, Prompt):
            messages.extend(event.payload.messages[: taken[event.seq]])
        if event.seq == seq:
            break
    repeats = prefixes[seq].repeats
    if repeats is not None:
        digest = digest_messages(messages[: repeats.messages])
        if digest != repeats.digest:
            raise BROKEN_PREFIX.error(
                f"{path}: event {seq}: expected repeated messages with {repeats.digest}, found {digest}"
            )
    return tuple(messages)


class _Prefix(msgspec.Struct, frozen=True):
    repeats: RepeatedPrefix | None
    own: int

    @property
    def repeated(self) -> int:
        return 0 if self.repeats is None else self.repeats.messages


def _load_prefixes(path: Path, seq: int) -> dict[int, _Prefix]:
    prefixes = {}
    for event in iter_events(path, allow_torn_tail=True):
        if isinstance(event.payload, Prompt):
            prefixes[event.seq] = _Prefix(event.payload.repeats, len(event.payload.messages))
        if event.seq == seq:
            break
    if seq not in prefixes:
        raise BROKEN_PREFIX.error(f"{path}: expected a prompt as event {seq}, found none")
    return prefixes


def _plan(prefixes: dict[int, _Prefix], seq: int, path: Path) -> dict[int, int]:
    """How many of its own messages each prompt on the way back contributes."""
    taken: dict[int, int] = {}
    at, wanted = seq, prefixes[seq].repeated + prefixes[seq].own
    while wanted:
        here = prefixes[at]
        taken[at] = max(wanted - here.repeated, 0)
        wanted = min(wanted, here.repeated)
        if here.repeats is None:
            break
        earlier = prefixes.get(here.repeats.prompt)
        if (
            earlier is None
            or here.repeats.prompt >= at
            or earlier.repeated + earlier.own < here.repeats.messages
        ):
            detail = f"{here.repeats.messages} messages in event {here.repeats.prompt}"
            raise BROKEN_PREFIX.error(f"{path}: event {at}: expected {detail}, found fewer")
        at = here.repeats.prompt
    return taken
