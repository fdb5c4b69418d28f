"""What the authoring verbs take and give back: data only, the command line renders it."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.authoring._ecosystem import EcosystemName
from repotrial.authoring._template import Guess
from repotrial.contract import Problem, TaskKind

CONTRACT_OPTION_INVALID = ErrorCode(
    "contract-option-invalid",
    UsageError,
    "An option of `contract new` has a value that a contract cannot hold.",
    hint="see `repotrial contract new --help` for what each option takes",
)


class NewContract(msgspec.Struct, frozen=True, kw_only=True):
    """A contract to be written by its author, on a commit of a repository."""

    source: str
    """A path, a URL or a bundle file."""
    directory: Path
    """Where the contract goes: absent, or empty."""
    title: str
    revision: str = "HEAD"
    """The commit on which the agent starts: a hash, a branch or a tag."""
    id: str | None = None
    kind: TaskKind = "bug-fix"
    ecosystem: EcosystemName | None = None
    """Guessed from the files at the top of the tree unless told."""
    command: str | None = None
    """The command line that judges the change; guessed from the ecosystem unless told."""
    is_embedded: bool = False
    """Put the tree beside the contract, as an archive without history, in place of naming the repository."""
    python_lock: Path | None = None
    """A requirements file with hashes: what the check needs, pytest included."""


class CommitContract(msgspec.Struct, frozen=True, kw_only=True):
    """A contract from a merged change: the commit's first parent is where the agent starts."""

    source: str
    directory: Path
    revision: str
    """The change: a hash, a branch or a tag; a merge is compared with its first parent."""
    id: str | None = None
    title: str | None = None
    """The subject of the commit message unless told."""
    kind: TaskKind | None = None
    """Guessed from the commit message unless told."""
    ecosystem: EcosystemName | None = None
    command: str | None = None
    is_embedded: bool = False
    python_lock: Path | None = None
    """A requirements file with hashes: what the check needs, pytest included."""
    test_globs: tuple[str, ...] = ()
    """Which files of the change are tests; the conventions of the common ecosystems unless told."""


Options: TypeAlias = NewContract | CommitContract


class CreatedContract(msgspec.Struct, frozen=True, kw_only=True):
    """What was written, and what is left to do."""

    directory: str
    id: str
    title: str
    base_commit: str
    """The commit on which the agent starts."""
    files: tuple[str, ...]
    """Relative to the directory, sorted."""
    guesses: tuple[Guess, ...]
    problems: tuple[Problem, ...]
    """What the author has to look at before the contract can be used."""
