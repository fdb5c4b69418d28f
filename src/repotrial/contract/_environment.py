"""E: the environment (C3), and Setup (C4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.words import Level, SandboxPhase
from repotrial.contract._types import (
    AnyPath,
    ContractPath,
    EnvName,
    FutureRecordingPath,
    HostName,
    Identifier,
    ImageArchivePath,
    ImageLayoutPath,
    Megabytes,
    NonNegative,
    Positive,
    RecordingPath,
    SandboxPath,
    Seconds,
    Shell,
    StrictDocument,
    ToolConstraint,
    ToolName,
    WorkspacePath,
)


class ImageReference(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="reference"):
    """An OCI image in a registry."""

    reference: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    """`name@sha256:…`; a tag alone is not a pin and `contract lock` refuses it."""
    platform: str = "linux/amd64"
    """Which of a multi-platform image's manifests."""

    @property
    def is_pinned(self) -> bool:
        """Whether the reference ends in a digest, so that it always means the same image."""
        return re.fullmatch(r".+@sha256:[0-9a-f]{64}", self.reference) is not None


class ImageArchive(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="archive"):
    """An `oci-archive` file beside the contract."""

    path: ImageArchivePath
    """The archive."""
    digest: Digest | None = None
    """Digest of the image manifest inside; `contract lock` pins the file's bytes in any case."""


class DockerArchive(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="docker-archive"):
    """A file that `docker save` or `podman save` wrote, beside the contract."""

    path: ImageArchivePath
    """The archive."""
    digest: Digest | None = None
    """Digest of the image's configuration, which is its id; `contract lock` pins the file's bytes anyway."""


class ImageLayout(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="layout"):
    """An unpacked OCI layout directory beside the contract."""

    path: ImageLayoutPath
    """The directory that holds `index.json`."""
    digest: Digest
    """Digest of the image manifest to take from the layout's index."""


Image: TypeAlias = Literal["host"] | ImageReference | ImageArchive | DockerArchive | ImageLayout
"""`"host"`: the machine's own tools, read-only, held against `tools`. In one word: `"oci:FILE"`,
`"docker-archive:FILE"` or `"NAME@sha256:…"`."""


class AllowListNetwork(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="allow-list"):
    """Named hosts through the gateway, recorded (P9)."""

    hosts: Annotated[tuple[HostName, ...], msgspec.Meta(min_length=1)]
    """Host names, optionally with `:port`; no wildcards above a registered domain."""
    recording: FutureRecordingPath | None = None
    """Where the recorded exchanges are kept, so that the next run can replay them."""
    provider_tools: tuple[Identifier, ...] = ()
    """What a model's provider may do by itself for the agent: hosted tools by name without their date, as in
    `web_search`; `address` for images and files that are fetched by one."""


class ReplayNetwork(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="replay"):
    """Recorded answers only (P9)."""

    recording: RecordingPath
    """The recorded exchanges."""


Network: TypeAlias = Literal["none"] | AllowListNetwork | ReplayNetwork


class PythonEnvironment(StrictDocument, frozen=True, kw_only=True):
    """A Python environment from a lock file: built once, read-only, offline ever after."""

    lock: ContractPath
    """A requirements file with hashes for every package."""
    version: ToolConstraint | None = None
    """Which interpreter may build it."""


class NodeEnvironment(StrictDocument, frozen=True, kw_only=True):
    """`node_modules` from a lock file: built once, read-only, offline ever after."""

    lock: ContractPath
    """A `package-lock.json` with integrity hashes."""
    manifest: ContractPath
    """The `package.json` that belongs to it."""
    workspaces: tuple[ContractPath, ...] = ()
    """In a monorepo: the workspaces' own manifests, laid out beside `manifest` as in the repository."""
    version: ToolConstraint | None = None
    """Which Node.js may build it."""
    scripts: Literal["ignore", "run"] = "ignore"
    """Whether packages may run their install scripts."""


class Secret(StrictDocument, frozen=True, kw_only=True):
    """A secret that something needs: named here, given by the operator, never ambient (C3)."""

    name: EnvName
    """The variable that carries it."""
    reason: Annotated[str, msgspec.Meta(min_length=1)]
    """What it is for."""
    phases: tuple[SandboxPhase, ...] = ("accept",)
    """Where it may be seen; the agent sees it only if `act` is listed."""
    is_required: bool = True
    """Whether a run without it is refused."""


class EnvironmentFile(StrictDocument, frozen=True, kw_only=True):
    """A configuration file that the tree does not contain (C3)."""

    source: ContractPath
    """The file beside the contract."""
    target: SandboxPath
    """Where programs find it."""
    is_executable: bool = False
    """Whether it gets the executable bit."""


class Artifact(StrictDocument, frozen=True, kw_only=True):
    """A download pinned by digest: a data file, a vendored cache, a tool."""

    id: Identifier
    """Its name in this contract."""
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    """A URL or a path beside the contract."""
    digest: Digest
    """Digest over its bytes."""
    target: SandboxPath
    """Where it appears, read-only."""
    unpack: Literal["none", "tar", "zip"] = "none"
    """Whether the target is the file or what it contains."""
    strip_components: NonNegative = 0
    """With `unpack`: leading path components to drop from each member."""


class Mount(StrictDocument, frozen=True, kw_only=True):
    """A directory that the sandbox adds."""

    target: SandboxPath
    """Where it appears."""
    kind: Literal["tmpfs", "cache", "host-read-only"]
    """Scratch space, a cache filled by Setup, or a directory of the host."""
    source: str | None = None
    """The host's directory, for `host-read-only`."""
    size_mb: Megabytes | None = None
    """A bound, for `tmpfs`."""


class CommandReadiness(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="command"):
    """Ready when a command succeeds."""

    run: Shell
    """A command line that ends with 0 once the service answers."""
    interval_ms: Positive = 200
    """Pause between two tries."""
    timeout_seconds: Seconds = 60
    """After this long without success the phase is in error."""


class PortReadiness(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="port"):
    """Ready when a TCP port of the sandbox answers."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    """The port on 127.0.0.1 inside the sandbox."""
    interval_ms: Positive = 200
    """Pause between two tries."""
    timeout_seconds: Seconds = 60
    """After this long without an answer the phase is in error."""


class Service(StrictDocument, frozen=True, kw_only=True):
    """A program that runs beside the work: a database, a broker."""

    id: Identifier
    """Its name; checks ask for it under `services`."""
    run: Shell
    """Runs in the foreground until it is told to stop."""
    image: Image | None = None
    """Its own image, where the back end can; otherwise the environment's."""
    readiness: CommandReadiness | PortReadiness
    """When the work may begin."""
    variables: dict[EnvName, str] = {}
    """Environment of the service alone."""
    data: SandboxPath | None = None
    """Its state; fresh for every phase."""
    initialize: Shell | None = None
    """Runs once, before the service, on empty state."""
    phases: tuple[SandboxPhase, ...] = ("setup", "act", "accept")
    """Where it runs."""
    stop_seconds: Seconds = 10
    """Grace between asking it to stop and killing it."""


class Environment(StrictDocument, frozen=True, kw_only=True):
    """Everything outside the tree that the work depends on."""

    image: Image
    """Where programs come from."""
    tools: dict[ToolName, ToolConstraint] = {}
    """With `image = "host"`: which tools must be there, in which versions. Part of the version id."""
    python: PythonEnvironment | None = None
    """Packages for Python, from a lock file."""
    node: NodeEnvironment | None = None
    """Packages for Node.js, from a lock file."""
    variables: dict[EnvName, str] = {}
    """Set for every program."""
    absent: tuple[EnvName, ...] = ()
    """Variables that must not be set, whatever the machine has."""
    secrets: tuple[Secret, ...] = ()
    """Secrets that something needs, by name."""
    files: tuple[EnvironmentFile, ...] = ()
    """Configuration files that the tree does not contain."""
    absent_files: tuple[SandboxPath, ...] = ()
    """Files that must not exist in the sandbox."""
    artifacts: tuple[Artifact, ...] = ()
    """Downloads pinned by digest."""
    mounts: tuple[Mount, ...] = ()
    """Directories that the sandbox adds."""
    services: tuple[Service, ...] = ()
    """Programs that run beside the work."""
    system_calls: tuple[str, ...] = ()
    """System calls allowed beyond the default profile (sanitizers need `ptrace`, for example)."""
    isolation: Level = Level.L3
    """The weakest isolation level under which this contract may run."""

    def iter_image_references(self) -> Iterator[tuple[str, ImageReference]]:
        """Every image that comes from a registry, with its field."""
        images = [("environment.image", self.image)]
        images += [
            (f"environment.services[{index}].image", service.image)
            for index, service in enumerate(self.services)
            if service.image is not None
        ]
        yield from ((field, image) for field, image in images if isinstance(image, ImageReference))


class SetupStep(StrictDocument, frozen=True, kw_only=True):
    """One step before the agent; its product is cached (C4)."""

    run: Shell
    """The command line."""
    id: Identifier | None = None
    """A name for messages; the position counts where it is left out."""
    cwd: WorkspacePath = "."
    """Where it runs."""
    scripts: tuple[ContractPath, ...] = ()
    """Files beside the contract that the step uses, found under `$REPOTRIAL_SETUP`."""
    variables: dict[EnvName, str] = {}
    """Environment of this step alone."""
    outputs: tuple[AnyPath, ...] = ()
    """What it writes beyond the tracked tree and is therefore kept: `node_modules`, `/opt/cargo-home`."""
    network: Network = "none"
    """What this step may reach; without a recording the contract becomes conditional (C12)."""
    timeout_seconds: Seconds | None = None
    """No default: how long a step may take is a promise that the author makes."""
