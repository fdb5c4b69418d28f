"""The contract: (R, E, Setup, Oracle, Policy) and a statement (C1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
import orjson

from repotrial._core.digest import Digest
from repotrial.contract._environment import Environment, SetupStep
from repotrial.contract._oracle import Check, Inventory
from repotrial.contract._policy import Limits, Policy, Scoring
from repotrial.contract._problems import Problem
from repotrial.contract._types import (
    CommitId,
    ContractPath,
    Identifier,
    NonNegative,
    ReferencePath,
    SnapshotArchivePath,
    SnapshotDirectoryPath,
    StatementPath,
    StrictDocument,
    WorkspacePath,
)

TRANSPORTS = ("file", "git", "http", "https", "ssh")
"""All that a contract may allow git to use; `ext` would run a program."""


class SubmodulePin(StrictDocument, frozen=True, kw_only=True):
    """One submodule, resolved."""

    path: WorkspacePath
    """Where the submodule lies in the tree."""
    commit: CommitId
    """The commit that the superproject records for it."""
    source: str | None = None
    """Where to fetch it from, if not from the URL in `.gitmodules`."""


class GitRepository(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="git"):
    """A commit of a git repository."""

    source: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    """A URL, a path relative to the contract directory, or a bundle file there."""
    commit: CommitId
    """The full hash of the base commit."""
    submodules: tuple[SubmodulePin, ...] = ()
    """Overrides and pins; `contract lock` records all that the commit has."""
    protocols: tuple[str, ...] = ("https", "ssh")
    """Transports that git may use for the repository and its submodules; paths need none."""
    describe: str | None = None
    """What `git describe` has to print in the workspace, for builds that ask it for the version."""
    mtime_order: tuple[WorkspacePath, ...] = ()
    """Files whose modification times must ascend in this order (autotools rebuilds what looks stale)."""


class ArchiveRepository(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="archive"):
    """A tar or zip archive."""

    source: SnapshotArchivePath
    """The archive file, beside the contract."""
    digest: Digest | None = None
    """Digest over the archive's bytes; `contract lock` pins it where it is left out."""
    strip_components: NonNegative = 0
    """Leading path components to drop from each member."""
    describe: str | None = None
    """What `git describe` has to print in the workspace."""
    mtime_order: tuple[WorkspacePath, ...] = ()
    """Files whose modification times must ascend in this order."""


class DirectoryRepository(StrictDocument, frozen=True, kw_only=True, tag_field="kind", tag="directory"):
    """Plain files in a directory beside the contract; identified by their tree digest alone."""

    source: SnapshotDirectoryPath
    """The directory."""
    describe: str | None = None
    """What `git describe` has to print in the workspace."""
    mtime_order: tuple[WorkspacePath, ...] = ()
    """Files whose modification times must ascend in this order."""


Repository: TypeAlias = GitRepository | ArchiveRepository | DirectoryRepository


CONTRACT_SCHEMA = "repotrial/contract@2"
OLDER_CONTRACT_SCHEMAS = ("repotrial/contract@1",)
"""Read for ever: what version 2 refuses is a warning in them (ADR 0043)."""
STATEMENT_FILE = "statement.md"

TaskKind: TypeAlias = Literal[
    "bug-fix",
    "refactor",
    "dependency-upgrade",
    "api-migration",
    "documentation",
    "operational-hardening",
    "feature",
]
"""C8."""


class Clarification(StrictDocument, frozen=True, kw_only=True):
    """Disambiguation metadata (C9)."""

    modules: tuple[WorkspacePath, ...] = ()
    """Where the change belongs."""
    entry_points: tuple[str, ...] = ()
    """What users call."""
    behavior: tuple[str, ...] = ()
    """What must be true afterwards, one sentence each."""
    hints: tuple[str, ...] = ()
    """Tool hints for the briefing (P6)."""


class Contract(StrictDocument, frozen=True, kw_only=True):
    """All of `contract.toml`."""

    schema: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^repotrial/contract@[12](\.[0-9]+)?$(?!\n)",
            extra={"expected": f'"{CONTRACT_SCHEMA}"'},
        ),
    ]
    """Which version of this format."""
    id: Identifier
    """The contract's name."""
    title: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^(?=.*\S)[^\x00-\x1f\x7f]+$(?!\n)",
            max_length=200,
            extra={"expected": "one line of text"},
        ),
    ]
    """One line for people."""
    kind: TaskKind
    """The kind of work."""
    labels: tuple[Identifier, ...] = ()
    """Free labels for selection and strata."""
    ecosystem: Identifier | None = None
    """Language ecosystem, for strata (B7)."""
    statement: StatementPath = STATEMENT_FILE
    """What the agent is told."""
    reference: ReferencePath | None = None
    """A change that satisfies the contract; never shown to an agent."""
    clarify: Clarification = Clarification()
    """What removes doubt about the task."""
    repository: Repository
    """R: where the snapshot comes from."""
    environment: Environment
    """E: everything outside the tree."""
    setup: tuple[SetupStep, ...] = ()
    """Steps before the agent, in order."""
    checks: Annotated[tuple[Check, ...], msgspec.Meta(min_length=1)]
    """The Oracle: checks, in order."""
    policy: Policy = Policy()
    """What the agent may do, and what its change may touch."""
    limits: Limits = Limits()
    """Caps on one run."""
    scoring: Scoring = Scoring()
    """How a run that passes all gates is graded."""


LOCK_FILE = "contract.lock.json"
LOCK_SCHEMA = "repotrial/lock@1"


class FilePin(StrictDocument, frozen=True, kw_only=True):
    """One file beside the contract that the version id depends on."""

    path: ContractPath
    """Relative to the contract directory."""
    digest: Digest
    """Digest over its bytes."""
    is_executable: bool = False
    """Whether it has the executable bit."""


class RepositoryPin(StrictDocument, frozen=True, kw_only=True):
    """What the repository resolved to."""

    tree_digest: Digest
    """Digest over paths, modes and contents of the whole tree, submodules included."""
    commit: CommitId | None = None
    """For git sources."""
    submodules: tuple[SubmodulePin, ...] = ()
    """All that the commit has, resolved."""
    archive_digest: Digest | None = None
    """For archives."""


class PartDigests(StrictDocument, frozen=True, kw_only=True):
    """One digest for each part that C11 names, so that a new version id can say what changed."""

    repository: Digest
    environment: Digest
    setup: Digest
    oracle: Digest
    policy: Digest
    """Policy and limits."""


class ContractLock(StrictDocument, frozen=True, kw_only=True):
    """All of `contract.lock.json`."""

    schema: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^repotrial/lock@1(\.[0-9]+)?$(?!\n)",
            extra={"expected": f'"{LOCK_SCHEMA}"'},
        ),
    ]
    """Which version of this format."""
    id: Identifier
    """The contract's id."""
    version_id: Digest
    """Digest over the canonical form of R, E, Setup, Oracle and Policy, with every pin (C11)."""
    parts: PartDigests
    """What the version id is made of."""
    repository: RepositoryPin
    """What R resolved to."""
    files: tuple[FilePin, ...]
    """Check files, inventories, setup scripts, lockfiles, configuration files: sorted by path."""
    statement_digest: Digest
    """What the agent is told (title, statement, clarification): compared beside the version id (P30)."""
    scoring_digest: Digest
    """The parameters of the score: compared beside the version id, too."""
    reference_digest: Digest | None = None
    """Digest of the reference patch; null if there is none."""
    replay: Literal["replayable", "conditional"]
    """`conditional`: something needs the network and is not recorded (C12)."""

    def to_bytes(self) -> bytes:
        """The lock as a file: indented, sorted, defaults written out, a newline at the end."""
        options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
        return orjson.dumps(msgspec.to_builtins(self), option=options)


CONTRACT_FILE = "contract.toml"


def _nowhere(_field: str) -> int | None:
    return None


@dataclass(frozen=True, kw_only=True)
class LoadedContract:
    """Everything that a contract directory says, read once; nothing in it was executed."""

    directory: Path
    contract: Contract
    statement: str
    """The text of the statement file."""
    reference: bytes | None
    """The bytes of the reference patch."""
    inventories: Mapping[str, Inventory]
    """By check id."""
    files: tuple[FilePin, ...]
    """Every file beside the contract that the version id depends on, sorted by path."""
    lock: ContractLock | None
    locate: Callable[[str], int | None] = field(default=_nowhere, compare=False)
    """Line of a field of `contract.toml`, by its dotted path."""
    _found: dict[object, tuple[Problem, ...]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def find_once(self, check: Callable[[LoadedContract], Iterable[Problem]]) -> list[Problem]:
        """What a check finds in it; made once, since all that it looks at is in here."""
        if check not in self._found:
            self._found[check] = tuple(check(self))
        return [*self._found[check]]
