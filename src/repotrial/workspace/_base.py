"""A prepared base: the tree that every run of a contract starts from, shared and never written again.

<entry>/tree      the files with their sealed history, and what Setup made of them
<entry>/outputs   what Setup was told to keep beyond the tree
<entry>/tracked   paths of the snapshot: part of the change whatever ignore rules say
<entry>/ignores   paths of the `.gitignore` files that count
<entry>/network   what Setup reached, where it had a network, and the digest of what it made
<entry>/executions  the steps of Setup that made it, as Setup wrote them down
<entry>/recordings  what hosts answered to steps that want it recorded, one directory for each
<entry>/label     what it is and how it came about
<entry>/used      its time says when it was last asked for
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from repotrial._core.canonical import Count, JsonValue, canonical_digest
from repotrial._core.closing import Closing
from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, EvidenceError, UsageError
from repotrial.contract import LoadedContract, Repository
from repotrial.isolation import Account
from repotrial.source import HistoryProblem, check_sealed_history
from repotrial.workspace._node import HISTORY, Node, ReadLimits
from repotrial.workspace._reader import Contents, TreeReader
from repotrial.workspace._setup_record import SetupAttempts, SetupNetworkRecord, load_setup_record

_BLOCK_BYTES = 4096


class TreeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole tree amounts to."""

    digest: Digest
    """Names, kinds, permissions and contents; names and permissions alone where contents were not read."""
    size_bytes: int
    """Disk space, by whole blocks."""
    file_count: int
    """Everything that is not a directory."""
    special_files: tuple[bytes, ...]
    """Pipes, sockets and devices."""
    ignore_files: tuple[bytes, ...]
    """`.gitignore` files that are plain files, shallow ones first."""
    nested_histories: tuple[str, ...]
    """`.git` anywhere but at the top."""


def summarize_tree(
    root: Path, *, limits: ReadLimits, contents_read: bool = True, history_included: bool = True
) -> TreeFigures:
    """Look at all of a tree of ours."""
    state = hashlib.sha256(b"repotrial/prepared@1\0")
    with TreeReader(root, limits=limits, history_included=history_included) as reader:
        found = sorted(reader.walk())
        for path, node in found:
            content = _read(reader, path, node) if contents_read else b""
            state.update(b"%o %d %d " % (node.mode, len(path), len(content)) + path + content)
    leaves = [(path, node) for path, node in found if not node.is_directory]
    return TreeFigures(
        digest="sha256:" + state.hexdigest(),
        size_bytes=sum(-(-node.size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES for _, node in found),
        file_count=len(leaves),
        special_files=tuple(path for path, node in leaves if not (node.is_file or node.is_link)),
        ignore_files=tuple(sorted(_iter_ignore_files(leaves), key=lambda path: (path.count(b"/"), path))),
        nested_histories=tuple(path.decode("utf-8", "backslashreplace") for path in _iter_nested(found)),
    )


def build_fingerprint(root: Path, *, limits: ReadLimits) -> Digest:
    """What `lstat` says of everything: the same as long as nothing is written, in this place."""
    state = hashlib.sha256(b"repotrial/fingerprint@1\0")
    with TreeReader(root, limits=limits, history_included=True) as reader:
        for path, node in sorted(reader.walk()):
            state.update(b"%d " % len(path) + path + repr(msgspec.structs.astuple(node)).encode())
    return "sha256:" + state.hexdigest()


def _read(reader: TreeReader, path: bytes, node: Node) -> bytes:
    if node.is_link:
        return reader.read_link(path) or b""
    if not node.is_file:
        return b""
    reading = reader.read_file(path, kept_bytes=0)
    return reading.digest.encode() if isinstance(reading, Contents) else b"?"


def _iter_ignore_files(leaves: list[tuple[bytes, Node]]) -> Iterator[bytes]:
    for path, node in leaves:
        parts = path.split(b"/")
        if parts[-1] == b".gitignore" and node.is_file and HISTORY not in parts:
            yield path


def _iter_nested(found: list[tuple[bytes, Node]]) -> Iterator[bytes]:
    return (path for path, _ in found if path.endswith(b"/" + HISTORY))


_FORMAT = "repotrial/base@1"


CONTRACT_UNLOCKED = ErrorCode(
    "contract-unlocked",
    UsageError,
    "A contract without a lock says nothing for certain about its repository.",
    hint="run `repotrial contract lock` first",
)
BASE_TAMPERED = ErrorCode(
    "base-tampered",
    EvidenceError,
    "A prepared base is no longer what was put into the cache.",
    hint="remove it with `repotrial cache prune`, and find out what wrote there",
)


class SetupPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where Setup works; both of its directories may be written."""

    tree: Path
    """The snapshot with a history; what becomes of `.git` is not kept."""
    outputs: Path
    """Empty: for what is declared beyond the tree."""
    recordings: Path
    """Not there yet: the harness's own, for what hosts answer."""
    executions: Path
    """Not there yet: the harness's own, for the record of its steps."""


class Setup(Protocol):
    """Setup as the cache sees it: something that runs once (C4)."""

    @property
    def digest(self) -> Digest:
        """Over everything that decides what it makes."""
        ...

    def execute(self, place: SetupPlace) -> SetupAttempts | None:
        """Make it; in a sandbox. Returns what it tried to reach; None if it had no network."""
        ...


class BaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which base is wanted."""

    repository: Repository
    directory: Path
    """The contract directory, where sources that are paths start."""
    tree_digest: Digest
    """What the repository must resolve to."""
    environment_id: str = ""
    """What Setup ran in; empty where nothing of it can show in the tree."""

    @classmethod
    def from_contract(cls, loaded: LoadedContract, *, environment_id: str = "") -> BaseRequest:
        """The base of a locked contract.

        Raises:
            CONTRACT_UNLOCKED: it is not locked.
        """
        if loaded.lock is None:
            raise CONTRACT_UNLOCKED.error(f"{loaded.directory}: expected a locked contract, found no lock")
        return cls(
            repository=loaded.contract.repository,
            directory=loaded.directory,
            tree_digest=loaded.lock.repository.tree_digest,
            environment_id=environment_id,
        )

    def build_key(self, *, setup_digest: Digest | None, owner: Account | None) -> Digest:
        """One digest for everything that the prepared tree depends on; where it came from is not part."""
        order: list[JsonValue] = list(self.repository.mtime_order)
        return canonical_digest(
            {
                "format": _FORMAT,
                "tree_digest": self.tree_digest,
                "describe": self.repository.describe,
                "mtime_order": order,
                "environment_id": self.environment_id,
                "setup_digest": setup_digest,
                "uid": None if owner is None else owner.uid,
                "gid": None if owner is None else owner.gid,
            }
        )


class BaseLabel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a cache entry says about itself."""

    schema: Literal["repotrial/base@1"] = "repotrial/base@1"
    key: Digest
    tree_digest: Digest
    """Of the snapshot."""
    environment_id: str
    setup_digest: Digest | None
    commit: str
    """The one commit of the sealed history."""
    prepared_digest: Digest
    """Of everything in the tree, Setup's work and the history included."""
    size_bytes: Count
    """Disk space that the entry takes."""
    file_count: Count
    made_by: str
    made_at_us: Count


class Base(Closing):
    """A base in use: as long as it is open, nothing removes it from the cache."""

    def __init__(self, entry: Path, label: BaseLabel, *, owner: Account | None, lock: int) -> None:
        self.path = entry / "tree"
        self.outputs = entry / "outputs"
        self.recordings = entry / "recordings"
        self.label = label
        self.owner = owner
        self._entry = entry
        self._lock: int | None = lock

    @cached_property
    def outputs_digest(self) -> Digest | None:
        """Over everything that Setup keeps outside of the tree; None if nothing."""
        if not self.outputs.is_dir():
            return None
        found = summarize_tree(self.outputs, limits=UNBOUNDED)
        return found.digest if found.file_count else None

    @cached_property
    def tracked(self) -> frozenset[bytes]:
        """Paths of the snapshot."""
        return frozenset(parse_paths((self._entry / "tracked").read_bytes()))

    @cached_property
    def ignore_files(self) -> tuple[bytes, ...]:
        """Paths of the `.gitignore` files, shallow ones first."""
        return tuple(parse_paths((self._entry / "ignores").read_bytes()))

    @cached_property
    def network(self) -> SetupNetworkRecord | None:
        """What Setup reached and made; None if it had no network.

        Raises:
            SETUP_RECORD_UNREADABLE: it cannot be read.
        """
        return load_setup_record(self._entry / "network")

    @property
    def executions(self) -> Path:
        """Where Setup wrote down its steps; not there where an older release made the base."""
        return self._entry / "executions"

    def verify(self) -> None:
        """Read everything again.

        Raises:
            BASE_TAMPERED: it is not what it was.
        """
        found = summarize_tree(self.path, limits=UNBOUNDED).digest
        if found != self.label.prepared_digest:
            raise BASE_TAMPERED.error(
                f"{self.path}: expected the tree {self.label.prepared_digest}, found {found}"
            )

    def close(self) -> None:
        """Let go of it. Idempotent."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def check_sealed(base: Base, future_commits: Sequence[str] = ()) -> list[HistoryProblem]:
    """Prove that a base holds one commit and no way to another one.

    Args:
        base: In use.
        future_commits: Hashes that must not be found, such as the one that solved the issue.
    """
    return check_sealed_tree(base.path, future_commits)


def check_sealed_tree(tree: Path, future_commits: Sequence[str] = ()) -> list[HistoryProblem]:
    """The same for a tree that is not in the cache yet: its history, and no other history anywhere in it."""
    nested = [
        HistoryProblem(code="history-nested", message=f"expected no other repository, found {path!r}")
        for path in summarize_tree(tree, limits=UNBOUNDED, contents_read=False).nested_histories
    ]
    return [*check_sealed_history(tree, future_commits=future_commits), *nested]


UNBOUNDED = ReadLimits(entries=10_000_000, total_bytes=2**50, file_bytes=2**45, depth=4000)
"""For trees of our own making."""


def render_paths(paths: Sequence[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def parse_paths(data: bytes) -> list[bytes]:
    return data.split(b"\0")[:-1]
