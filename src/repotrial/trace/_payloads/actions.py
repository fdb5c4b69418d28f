"""What the agent did: asked a model, called tools, changed files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count, DecimalText
from repotrial._core.digest import Digest
from repotrial._core.pressure import ProcessorPressure
from repotrial.trace._blobs import BlobRef
from repotrial.trace._body import Body
from repotrial.trace._payloads.common import (
    Alternative,
    Command,
    EventPayload,
    EventSeq,
    ExitStatus,
    Instant,
    Name,
    Output,
)

_MESSAGES_TAG = b"repotrial/messages@1\0"


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One message of a conversation."""

    role: Name
    """Who speaks, in the provider's word: `system`, `user`, `assistant`, `tool`."""
    body: Body
    """The exact bytes of the message as sent."""


class RepeatedPrefix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The messages that an earlier prompt of this trace holds already."""

    prompt: EventSeq
    """The earlier prompt."""
    messages: Count
    """How many messages of that prompt, from its first, are repeated."""
    digest: Digest
    """Digest over those messages (see `digest_messages`)."""


class Prompt(EventPayload, frozen=True, kw_only=True):
    """A request to a model; messages that an earlier prompt holds are named, not repeated (P14)."""

    event_type: ClassVar[str] = "prompt"

    model: Name
    """The model that was asked for."""
    conversation: Name
    """Which conversation: the main one or a subagent's."""
    index: Count
    """Number of this request within its conversation, from 0."""
    request: Body
    """The request around the messages: parameters, tool definitions."""
    repeats: RepeatedPrefix | None = None
    """Where the first messages stand; null if all of them stand here."""
    messages: tuple[Message, ...]
    """The messages that follow the repeated ones."""


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Metered tokens of one response; null is unknown and never zero (P21)."""

    input_uncached_tokens: Count | None = None
    """Input that no cache served."""
    cache_read_tokens: Count | None = None
    """Input served from a cache."""
    cache_write_5m_tokens: Count | None = None
    """Input written to a cache for five minutes."""
    cache_write_1h_tokens: Count | None = None
    """Input written to a cache for an hour."""
    output_tokens: Count | None = None
    """Output, reasoning included."""
    reasoning_tokens: Count | None = None
    """The part of the output that was reasoning."""
    request_input_tokens: Count | None = None
    """All input of the request: price tiers depend on it."""
    basis: Literal["reported", "estimated"] | None = None
    """Whether the provider said so or the harness estimated it; null if nothing is known."""


class Response(EventPayload, frozen=True, kw_only=True):
    """A model's answer (P14)."""

    event_type: ClassVar[str] = "response"

    prompt: EventSeq | None
    """The prompt it answers; null if the byte budget dropped that prompt."""
    model: Name
    """The model that says it answered."""
    role: Name
    """Who speaks, in the provider's word."""
    conversation: Name
    """Which conversation."""
    index: Count
    """Number of the request that it answers."""
    body: Body
    """The exact bytes of the answer."""
    stop_reason: str | None = None
    """Why the model stopped, in the provider's word; null if it did not say."""
    status: Count | None = None
    """The wire's status code; null if there is no wire."""
    wall_us: Count | None = None
    """From request sent to answer complete; null for imported conversations."""
    usage: ResponseUsage = msgspec.field(default_factory=ResponseUsage)
    """What it consumed."""
    cost_usd: DecimalText | None = None
    """What it cost by the run's price book; null if that is not known."""
    tool_calls: Count | None = None
    """How many calls it asks for; null if it was offered no tools, is no answer, or was not counted."""


class AgentTranscript(EventPayload, frozen=True, kw_only=True):
    """What an agent wrote about its own work: kept as it is, and not believed (P14)."""

    event_type: ClassVar[str] = "agent-transcript"

    path: Name
    """The file in the agent's home; `stdout` for what it printed."""
    format: Name | None
    """The importer that reads it; null if there is none."""
    body: Body
    """All of it."""


def digest_messages(messages: Iterable[Message]) -> Digest:
    """Digest over a list of messages: a chain of sha256 over each role and original body digest."""
    state = hashlib.sha256(_MESSAGES_TAG).digest()
    for message in messages:
        role = message.role.encode("utf-8", "surrogatepass")
        length = len(role).to_bytes(8, "big")
        state = hashlib.sha256(state + length + role + message.body.digest.encode()).digest()
    return "sha256:" + state.hex()


Mode = Annotated[int, msgspec.Meta(ge=0, le=0o7777)]
"""Permission bits."""


class ToolInvocation(EventPayload, frozen=True, kw_only=True):
    """One call of a tool and what came of it (P14, P23)."""

    event_type: ClassVar[str] = "tool-invocation"

    tool: Name
    """The tool's name as the agent called it."""
    call_id: str | None = None
    """The call's id in the conversation; null if there is none."""
    source: Literal["gateway", "sandbox", "transcript"]
    """Where the harness saw it."""
    arguments: Body
    """The arguments, exactly as given."""
    command: Command | None = None
    """The program that ran; null if the tool is not a command."""
    exit: ExitStatus
    """How it ended."""
    started_at_us: Instant
    """When it began."""
    wall_us: Count
    """How long it took."""
    cpu_us: Count | None = None
    """Processor time of the whole process tree; null if it was not metered."""
    pressure: ProcessorPressure | msgspec.UnsetType = msgspec.UNSET
    """What its sandbox got of the processors meanwhile; absent if it was not metered."""
    stdout: Output | None = None
    """What it printed; null if the tool has no such stream."""
    stderr: Output | None = None
    """What it printed as errors; null if the tool has no such stream."""
    result: Body | None = None
    """What was handed back to the model; null if that is not known."""


class FileEntry(Alternative, frozen=True, kw_only=True, tag="file"):
    """A regular file at one moment."""

    mode: Mode
    """Permission bits."""
    digest: Digest
    """Digest of its content."""
    size_bytes: Count
    """Its size."""


class SymlinkEntry(Alternative, frozen=True, kw_only=True, tag="symlink"):
    """A symbolic link at one moment."""

    target: str
    """Where it points, as written in the link."""


class DirectoryEntry(Alternative, frozen=True, kw_only=True, tag="directory"):
    """A directory at one moment."""

    mode: Mode
    """Permission bits."""


class SpecialEntry(Alternative, frozen=True, kw_only=True, tag="special"):
    """Something that is neither file, link nor directory."""

    nature: Literal["fifo", "socket", "device", "submodule", "other"]
    """What it is."""


PathEntry: TypeAlias = FileEntry | SymlinkEntry | DirectoryEntry | SpecialEntry
"""What stood at a path."""


class PatchContent(Alternative, frozen=True, kw_only=True, tag="patch"):
    """The change as a unified diff."""

    patch: Body
    """The diff of this one path."""


class BinaryContent(Alternative, frozen=True, kw_only=True, tag="binary"):
    """The content after the change, where a diff would not be text."""

    blob: BlobRef
    """The bytes after the change."""


class UnrecordedContent(Alternative, frozen=True, kw_only=True, tag="unrecorded"):
    """Only digests and sizes were kept."""

    reason: Name
    """Why: a deletion, a link, a budget, a generated file."""


FileContent: TypeAlias = PatchContent | BinaryContent | UnrecordedContent
"""How the new content can be rebuilt."""


class FileAdded(Alternative, frozen=True, kw_only=True, tag="added"):
    """A path that was not there before."""

    path: Name
    """Relative to the workspace."""
    after: PathEntry
    """What stands there now."""
    content: FileContent
    """Its content."""


class FileModified(Alternative, frozen=True, kw_only=True, tag="modified"):
    """A path whose content (or kind) changed."""

    path: Name
    """Relative to the workspace."""
    before: PathEntry
    """What stood there."""
    after: PathEntry
    """What stands there now."""
    content: FileContent
    """The change of content."""


class FileDeleted(Alternative, frozen=True, kw_only=True, tag="deleted"):
    """A path that is gone."""

    path: Name
    """Relative to the workspace."""
    before: PathEntry
    """What stood there."""
    content: FileContent
    """The lost content, where it was kept."""


class ModeChanged(Alternative, frozen=True, kw_only=True, tag="mode-changed"):
    """A path of which only the permission bits changed."""

    path: Name
    """Relative to the workspace."""
    before_mode: Mode
    """Permission bits before."""
    after_mode: Mode
    """Permission bits now."""


FileChange: TypeAlias = FileAdded | FileModified | FileDeleted | ModeChanged
"""What happened to one path."""


class ByTool(Alternative, frozen=True, kw_only=True, tag="tool"):
    """A tool call changed the workspace."""

    invocation: EventSeq
    """The tool's event."""


class BySetup(Alternative, frozen=True, kw_only=True, tag="set-up"):
    """A step of Setup changed it, before the agent acted."""

    step: Count
    """Which step, from 0."""


class ByIntervention(Alternative, frozen=True, kw_only=True, tag="intervention"):
    """The harness changed it: a roll-back, a quarantine."""

    intervention: EventSeq
    """The intervention's event."""


class Observed(Alternative, frozen=True, kw_only=True, tag="observed"):
    """A scan found it; no single event explains it."""

    since: EventSeq
    """The event after which the last scan had found the workspace unchanged."""


MutationCause: TypeAlias = ByTool | BySetup | ByIntervention | Observed
"""What changed the workspace."""


class WorkspaceMutation(EventPayload, frozen=True, kw_only=True):
    """Files that changed, with digests before and after (P14, P15); large changes take several events."""

    event_type: ClassVar[str] = "workspace-mutation"

    cause: MutationCause
    """What changed them."""
    changes: tuple[FileChange, ...]
    """One entry per path."""
    tree_digest: Digest | None = None
    """Digest of the whole tree after it; null if it was not taken (more parts follow)."""
