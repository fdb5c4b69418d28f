"""The lock: what `contract lock` pinned, and the version id over it (C2, C11; ADR 0003)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from repotrial._core.digest import Digest
from repotrial.contract._repository import SubmodulePin
from repotrial.contract._types import CommitId, ContractPath, Document, Identifier

LOCK_FILE = "contract.lock.json"
LOCK_SCHEMA = "repotrial/lock@1"


class FilePin(Document, frozen=True, kw_only=True):
    """One file beside the contract that the version id depends on."""

    path: ContractPath
    """Relative to the contract directory."""
    digest: Digest
    """Digest over its bytes."""
    is_executable: bool = False
    """Whether it has the executable bit."""


class RepositoryPin(Document, frozen=True, kw_only=True):
    """What the repository resolved to."""

    tree_digest: Digest
    """Digest over paths, modes and contents of the whole tree, submodules included."""
    commit: CommitId | None = None
    """For git sources."""
    submodules: tuple[SubmodulePin, ...] = ()
    """All that the commit has, resolved."""
    archive_digest: Digest | None = None
    """For archives."""


class PartDigests(Document, frozen=True, kw_only=True):
    """One digest for each part that C11 names, so that a new version id can say what changed."""

    repository: Digest
    environment: Digest
    setup: Digest
    oracle: Digest
    policy: Digest
    """Policy and limits."""


class ContractLock(Document, frozen=True, kw_only=True):
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
    """Digest of the reference patch; null where there is none."""
    replay: Literal["replayable", "conditional"]
    """`conditional`: something needs the network and is not recorded (C12)."""
