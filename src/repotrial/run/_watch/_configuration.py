"""The agent's configuration as events: at the first exchange of a conversation, and where it changes (P2)."""

from __future__ import annotations

from typing import Final

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import Digest, digest_bytes
from repotrial.trace import (
    AgentConfiguration,
    MonitorAlert,
    OfferedTool,
    SamplingParameter,
    SystemPrompt,
    TraceWriter,
)
from repotrial.wire import RequestSettings, WireRequest, describe_settings

_MOST_NAME: Final = 200
_MOST_TOOLS: Final = 500
_MOST_PROMPTS: Final = 50
_MOST_CHANGES: Final = 200
"""Later ones are in the prompts only; an alert says so. An agent can change its mind without end."""

_NOT_SET: Final = Unknown(reason="the request does not set it: the provider's default")
_NO_CONTEXT: Final = Unknown(reason="no wire format carries it, and the adapter states none")
_NO_NAME: Final = Unknown(reason="the answer names none")


class OpenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one request tells, until its answer is there."""

    conversation: str
    wire: str
    model: str
    settings: RequestSettings


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    exact: Digest
    """Over the bytes that settings are read from."""
    settings: RequestSettings


class ConfigurationLog:
    """Compares each request with the one before it in its conversation. Used by one thread at a time."""

    def __init__(self, writer: TraceWriter, *, context_tokens: int | None) -> None:
        self._writer = writer
        self._context_tokens = context_tokens
        self._seen: dict[str, _Seen] = {}
        self._told: dict[str, AgentConfiguration] = {}
        self._changes = 0

    def read(self, conversation: str, request: WireRequest) -> OpenSettings:
        """What a request says about how the agent is configured."""
        exact = digest_bytes(b"\0".join((request.envelope, *_list_setting(request))))
        seen = self._seen.get(conversation)
        if seen is None or seen.exact != exact:  # reading digests every tool and every prompt
            seen = _Seen(exact=exact, settings=describe_settings(request))
            self._seen[conversation] = seen
        return OpenSettings(
            conversation=conversation,
            wire=request.dialect,
            model=clean_name(request.model),
            settings=seen.settings,
        )

    def record(
        self, opened: OpenSettings, answering: str | None, *, prompt: int | None, response: int | None
    ) -> None:
        """Put a configuration on record that this conversation did not have before."""
        found = self._build(opened, answering)
        told = self._told.get(opened.conversation)
        if told == found:
            return
        if told is not None and answering is None and told == self._build(opened, _known(told)):
            return  # an answer that broke off names no model, and changes nothing
        self._told[opened.conversation] = found
        if told is not None:
            self._changes += 1
            if self._changes == _MOST_CHANGES + 1:
                self._announce_end()
            if self._changes > _MOST_CHANGES:
                return
        placed = msgspec.structs.replace(found, prompt=prompt, response=response)
        self._writer.append(placed, actor="harness")

    def _build(self, opened: OpenSettings, answering: str | None) -> AgentConfiguration:
        return _build(opened, answering, self._context_tokens)

    def _announce_end(self) -> None:
        alert = MonitorAlert(
            monitor="manifest", rule="configuration-changes", severity="warning", phase="act"
        )
        self._writer.alert(alert, f"more than {_MOST_CHANGES} changes; later ones are in the prompts")


def _list_setting(request: WireRequest) -> list[bytes]:
    return [message.data for message in request.messages if message.role in {"system", "developer"}]


def _build(opened: OpenSettings, answering: str | None, context_tokens: int | None) -> AgentConfiguration:
    given = opened.settings
    return AgentConfiguration(
        conversation=opened.conversation,
        prompt=None,
        response=None,
        wire=opened.wire,
        model_asked=opened.model,
        model_answering=clean_name(answering) if answering else _NO_NAME,
        temperature=given.temperature or _NOT_SET,
        effort=clean_name(given.effort) if given.effort else _NOT_SET,
        max_output_tokens=_NOT_SET if given.max_output_tokens is None else given.max_output_tokens,
        context_tokens=context_tokens or _NO_CONTEXT,
        parameters=tuple(
            SamplingParameter(name=name, value=clean_name(value)) for name, value in given.parameters.items()
        ),
        tools=tuple(
            OfferedTool(name=clean_name(name), digest=digest) for name, digest in given.tools[:_MOST_TOOLS]
        ),
        tool_count=len(given.tools),
        prompts=tuple(
            SystemPrompt(role=role, digest=digest) for role, digest in given.prompts[:_MOST_PROMPTS]
        ),
    )


def _known(told: AgentConfiguration) -> str | None:
    return None if isinstance(told.model_answering, Unknown) else told.model_answering


def clean_name(name: str) -> str:
    """A name that an agent or a model chose, as the trace can hold it: some, not too long, valid text."""
    return name.encode("utf-8", "backslashreplace").decode()[:_MOST_NAME] or "unnamed"
