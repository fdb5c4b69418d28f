"""What a run stands on: repository, dependencies, programs, files, workspace (C2, C3)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from repotrial._core.absence import Unknown
from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial.trace._payloads.common import Name

Commit = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?(?!\n)$", description="a full commit id")
]


class Submodule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Name
    """Where it lies in the tree."""
    commit: Commit
    """What it was at."""


class GitIdentity(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="git"
):
    """A snapshot that came from git."""

    commit: Commit
    """The base commit."""
    tree_digest: Digest
    """Over paths, modes and contents, as found on disk."""
    submodules: tuple[Submodule, ...] = ()
    """All of them, resolved."""


class ArchiveIdentity(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="archive"
):
    """A snapshot that came from an archive."""

    archive_digest: Digest
    """Over the archive's bytes."""
    tree_digest: Digest
    """Over paths, modes and contents, as found on disk."""


class DirectoryIdentity(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="directory"
):
    """A snapshot that came from plain files."""

    tree_digest: Digest
    """Over paths, modes and contents, as found on disk."""


RepositoryIdentity: TypeAlias = GitIdentity | ArchiveIdentity | DirectoryIdentity


class Lockfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Name
    """Where it was found."""
    digest: Digest
    """Over its bytes."""
    origin: Literal["contract", "tree"] | UnsetType = UNSET
    """Whether it lies beside the contract or in the prepared tree."""


class SetupProduct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a Setup with network made (C12): the same commands may make another one tomorrow."""

    product_digest: Digest
    """Over the tree as Setup left it, without its history, and over everything that steps keep elsewhere."""
    hosts: tuple[str, ...]
    """Who answered, live or from a recording: host and port, in order of name."""


class DependencySpecification(
    # Left out where there is none: manifests of other runs stay what they were.
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """What the dependencies were resolved to, and from where."""

    lockfiles: tuple[Lockfile, ...] | Unknown
    """What fixed the dependencies."""
    mirrors: tuple[str, ...] | Unknown
    """Indexes and proxies that answered; empty if everything was vendored or cached."""
    setup: SetupProduct | None = None
    """What Setup fetched and made; absent where it had no network."""


class ImageEnvironment(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="image"
):
    """The run happened in an image."""

    reference: Name
    """How the image was named."""
    image_digest: Digest
    """Which image it was."""


class CoveredTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool of the machine, to the byte."""

    name: Name
    """The tool, as the contract names it."""
    digest: Digest
    """Over paths, modes and contents of everything below."""
    places: tuple[str, ...]
    """Files and directories that were read: the program, its shared libraries, its standard library."""
    files: Count
    """How many files these are; compiled bytecode is not among them."""


class HostEnvironment(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="host"
):
    """The run happened on the machine's own file system."""

    observed_id: Digest
    """Digest over what was observed of it: equal ids mean equal bytes of the covered tools."""
    pins: Literal["constraints"] | UnsetType = UNSET
    """What the contract pins of it (C3): versions that must be met. The id is what this run had."""
    covers: tuple[CoveredTool, ...] | UnsetType = UNSET
    """What the id covers: every tool that the contract declares, and the shell that starts commands. Other
    programs of the machine are not covered."""


RunEnvironment: TypeAlias = ImageEnvironment | HostEnvironment


class DeclaredFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Name
    """Where programs find it."""
    digest: Digest
    """Over its bytes."""


class ConfigurationFiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration files that the tree does not contain (C3); the contract declares each."""

    present: tuple[DeclaredFile, ...]
    """Put into the sandbox."""
    absent: tuple[str, ...]
    """Declared to be absent, and seen to be."""


class PreparedWorkspace(
    # Left out where there is none: manifests of other runs stay what they were.
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """W: the tree as every phase finds it."""

    digest: Digest | Unknown
    """Over paths, modes and contents after Setup, the one commit of the history included."""
    files: Count | Unknown
    """How many files it has."""
    outputs: Digest | None = None
    """Over paths, modes and contents of all that Setup keeps outside of the tree; absent if nothing."""
