"""A script: what a canned model does, step by step."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.schema import build_document_schema

SCRIPT_SCHEMA: Final = "repotrial/script@1"

_Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Delay: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=600_000)]


class ScriptedUsage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a turn says it consumed; a count that is left out is made from the bytes of the exchange."""

    input_uncached: Count | None = None
    """Input that no cache served."""
    cache_read: Count = 0
    """Input served from a cache."""
    cache_write_5m: Count = 0
    """Input written to a cache for five minutes."""
    cache_write_1h: Count = 0
    """Input written to a cache for an hour."""
    output: Count | None = None
    """Output, reasoning included."""
    reasoning: Count = 0
    """The part of the output that was reasoning."""


class _Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    usage: ScriptedUsage | None = None
    """What the turn says it consumed."""
    delay_ms: _Delay = 0
    """How long the model thinks before it answers."""


class ShellStep(_Step, frozen=True, kw_only=True, tag="shell"):
    """Run a command with the agent's shell tool."""

    command: _Text
    """For a POSIX shell, in the workspace."""


class ReadStep(_Step, frozen=True, kw_only=True, tag="read"):
    """Read a file with the agent's own tool, or with its shell."""

    path: _Text
    """Relative to the workspace, or absolute."""


class EditStep(_Step, frozen=True, kw_only=True, tag="edit"):
    """Replace a text that stands in a file once, with the agent's own tool or with its shell."""

    path: _Text
    """Relative to the workspace, or absolute."""
    old: _Text
    """The text as it stands."""
    new: str
    """The text in its place."""


class WriteStep(_Step, frozen=True, kw_only=True, tag="write"):
    """Write a whole file with the agent's own tool, or with its shell; few agents make directories."""

    path: _Text
    """Relative to the workspace, or absolute."""
    content: str
    """All of it."""


class SayStep(_Step, frozen=True, kw_only=True, tag="say"):
    """Say something along with the next step: a turn that only speaks ends most agents."""

    text: _Text
    """What is said."""


class FinishStep(_Step, frozen=True, kw_only=True, tag="finish"):
    """Say that the task is done, in the way of the agent; repeated as often as the agent asks."""

    text: _Text = "Done."
    """The last words."""


class RawStep(_Step, frozen=True, kw_only=True, tag="raw"):
    """Call a tool exactly so, whether the agent offers it or not."""

    tool: _Text
    """Its name."""
    arguments: dict[str, Any] = {}
    """What it is called with."""
    arguments_text: str | None = None
    """In place of the table: goes out as it is, JSON or not."""


Act: TypeAlias = ShellStep | ReadStep | EditStep | WriteStep | FinishStep | RawStep
"""A step that makes a turn of its own."""

Step: TypeAlias = ShellStep | ReadStep | EditStep | WriteStep | SayStep | FinishStep | RawStep
"""Any step."""


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a canned model does."""

    schema: Literal["repotrial/script@1"]
    """Which version of this form it is."""
    description: str = ""
    """For readers."""
    model: str | None = None
    """The name under which it answers; the one that was asked for where this is left out."""
    steps: Annotated[tuple[Step, ...], msgspec.Meta(min_length=1)]
    """In order; after the last one it says that it is done."""


def build_script_schema() -> dict[str, Any]:
    """The schema of `repotrial/script@1`."""
    return build_document_schema(Script, "script@1", title="Script of a canned model")
