"""What the agent did: tools and files."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial.trace._blobs import BlobRef
from repotrial.trace._body import Body
from repotrial.trace._payloads.common import (
    Command,
    EventPayload,
    EventSeq,
    ExitStatus,
    Instant,
    Name,
    Output,
    Part,
)

Mode = Annotated[int, msgspec.Meta(ge=0, le=0o7777)]
"""Permission bits."""


class ToolInvocation(EventPayload, frozen=True, kw_only=True):
    """One call of a tool and what came of it (P14, P23)."""

    event_type: ClassVar[str] = "tool-invocation"

    tool: Name
    """The tool's name as the agent called it."""
    call_id: str | None = None
    """The call's id in the conversation; null where there is none."""
    source: Literal["gateway", "sandbox", "transcript"]
    """Where the harness saw it."""
    arguments: Body
    """The arguments, exactly as given."""
    command: Command | None = None
    """The program that ran; null where the tool is not a command."""
    exit: ExitStatus
    """How it ended."""
    started_at_us: Instant
    """When it began."""
    wall_us: Count
    """How long it took."""
    cpu_us: Count | None = None
    """Processor time of the whole process tree; null where it was not metered."""
    stdout: Output | None = None
    """What it printed; null where the tool has no such stream."""
    stderr: Output | None = None
    """What it printed as errors; null where the tool has no such stream."""
    result: Body | None = None
    """What was handed back to the model; null where that is not known."""


class FileEntry(Part, frozen=True, kw_only=True, tag="file"):
    """A regular file at one moment."""

    mode: Mode
    """Permission bits."""
    digest: Digest
    """Digest of its content."""
    size_bytes: Count
    """Its size."""


class SymlinkEntry(Part, frozen=True, kw_only=True, tag="symlink"):
    """A symbolic link at one moment."""

    target: str
    """Where it points, as written in the link."""


class DirectoryEntry(Part, frozen=True, kw_only=True, tag="directory"):
    """A directory at one moment."""

    mode: Mode
    """Permission bits."""


class SpecialEntry(Part, frozen=True, kw_only=True, tag="special"):
    """Something that is neither file, link nor directory."""

    nature: Literal["fifo", "socket", "device", "submodule", "other"]
    """What it is."""


Entry: TypeAlias = FileEntry | SymlinkEntry | DirectoryEntry | SpecialEntry
"""What stood at a path."""


class PatchContent(Part, frozen=True, kw_only=True, tag="patch"):
    """The change as a unified diff."""

    patch: Body
    """The diff of this one path."""


class BinaryContent(Part, frozen=True, kw_only=True, tag="binary"):
    """The content after the change, where a diff would not be text."""

    blob: BlobRef
    """The bytes after the change."""


class UnrecordedContent(Part, frozen=True, kw_only=True, tag="unrecorded"):
    """Only digests and sizes were kept."""

    reason: Name
    """Why: a deletion, a link, a budget, a generated file."""


FileContent: TypeAlias = PatchContent | BinaryContent | UnrecordedContent
"""How the new content can be rebuilt."""


class FileAdded(Part, frozen=True, kw_only=True, tag="added"):
    """A path that was not there before."""

    path: Name
    """Relative to the workspace."""
    after: Entry
    """What stands there now."""
    content: FileContent
    """Its content."""


class FileModified(Part, frozen=True, kw_only=True, tag="modified"):
    """A path whose content (or kind) changed."""

    path: Name
    """Relative to the workspace."""
    before: Entry
    """What stood there."""
    after: Entry
    """What stands there now."""
    content: FileContent
    """The change of content."""


class FileDeleted(Part, frozen=True, kw_only=True, tag="deleted"):
    """A path that is gone."""

    path: Name
    """Relative to the workspace."""
    before: Entry
    """What stood there."""
    content: FileContent
    """The lost content, where it was kept."""


class ModeChanged(Part, frozen=True, kw_only=True, tag="mode-changed"):
    """A path of which only the permission bits changed."""

    path: Name
    """Relative to the workspace."""
    before_mode: Mode
    """Permission bits before."""
    after_mode: Mode
    """Permission bits now."""


FileChange: TypeAlias = FileAdded | FileModified | FileDeleted | ModeChanged
"""What happened to one path."""


class ByTool(Part, frozen=True, kw_only=True, tag="tool"):
    """A tool call changed the workspace."""

    invocation: EventSeq
    """The tool's event."""


class BySetup(Part, frozen=True, kw_only=True, tag="set-up"):
    """A step of Setup changed it, before the agent acted."""

    step: Count
    """Which step, from 0."""


class ByIntervention(Part, frozen=True, kw_only=True, tag="intervention"):
    """The harness changed it: a roll-back, a quarantine."""

    intervention: EventSeq
    """The intervention's event."""


class Observed(Part, frozen=True, kw_only=True, tag="observed"):
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
    """Digest of the whole tree after it; null where it was not taken (more parts follow)."""
