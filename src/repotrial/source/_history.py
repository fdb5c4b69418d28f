"""History, for authors: what a name means, what a commit changed, and the change as a patch.

Authors point this at their own repositories, so any path may be named; the repository's configuration has
no effect all the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from pathlib import Path

import msgspec

from repotrial._core.errors import ContractError, ErrorCode, UsageError
from repotrial.source._address import parse_address
from repotrial.source._git import GitCommandError
from repotrial.source._gittree import parse_commit_headers
from repotrial.source._objects import GIT_OBJECT_MISSING, ObjectFormat
from repotrial.source._store import COMMIT_NOT_FOUND, ObjectStore, open_store, verify_full_hash
from repotrial.source._tree import DEFAULT_OPTIONS, SourceOptions

AUTHORING_PROTOCOLS = ("file", "https", "ssh")
"""What authors may fetch through, unless told otherwise."""

# Git knows the empty tree without storing it.
_EMPTY_TREE = {
    ObjectFormat.SHA1: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    ObjectFormat.SHA256: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}


REVISION_REFUSED = ErrorCode(
    "revision-refused",
    UsageError,
    "A revision is empty, looks like an option, or is a range where one commit is needed.",
    hint="name one commit: a hash, a branch, a tag, or an expression such as `main~2`",
)


class ChangeStatus(Enum):
    """What happened to a file, in git's letters."""

    ADDED = "A"
    MODIFIED = "M"
    DELETED = "D"
    TYPE_CHANGED = "T"


class CommitChange(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a change; a rename is a deletion and an addition."""

    path: str
    """Bytes that are not UTF-8 are kept as surrogates (`os.fsencode` gives them back)."""
    status: ChangeStatus
    old_mode: str
    """Git's six digits; `000000` where there was no file."""
    new_mode: str


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A commit: its message, and what it changed against its first parent."""

    commit: str
    parents: tuple[str, ...]
    message: str
    changes: tuple[CommitChange, ...]
    committed_at_seconds: int = 0
    """Since 1970, as the committer's machine said."""


class FileCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many lines of a file a commit adds and removes; both are 0 for binary files."""

    path: str
    added: int
    removed: int


class CommitSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of a walk along first parents."""

    commit: str
    parents: tuple[str, ...]
    committed_at_seconds: int
    """Since 1970, as the committer's machine said."""
    message: str
    files: tuple[FileCount, ...]
    """Against its first parent; a rename is a removal and an addition."""


class _SourceHistory:
    """The history of one source, fetched once and read as often as needed."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def resolve_commit(self, revision: str) -> str:
        """The full hash of the commit that a branch, tag, abbreviation or expression names at this moment.

        Raises:
            REVISION_REFUSED: the text cannot name one commit.
            COMMIT_NOT_FOUND: there is no such commit.
        """
        if not revision.strip() or revision.startswith("-") or ".." in revision or not revision.isprintable():
            raise REVISION_REFUSED.error(f"expected a revision that names one commit, found {revision!r}")
        args = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
        try:
            commit = self._store.execute(args).decode().strip()
        except GitCommandError as error:
            raise COMMIT_NOT_FOUND.error(
                f"expected {revision!r} to name a commit, found no such branch, tag or object"
            ) from error
        self._read(commit)
        return commit

    def read_commit(self, commit: str) -> CommitInfo:
        """A commit's parents, message and changed files; a merge is compared with its first parent.

        Raises:
            COMMIT_NOT_PINNED: `commit` is not a full hash.
            COMMIT_NOT_FOUND: the source does not hold it.
            GIT_OBJECT_MISSING: the source does not hold its first parent.
        """
        verify_full_hash(commit)
        data = self._find(commit)
        headers = parse_commit_headers(data)
        parents = tuple(headers.get("parent", ()))
        before = parents[0] if parents else _EMPTY_TREE[self._store.object_format]
        if parents:
            self._read(before)
        return CommitInfo(
            commit=commit,
            parents=parents,
            message=_decode(data.partition(b"\n\n")[2], headers.get("encoding", ["utf-8"])[0]),
            changes=_list_changes(self._store, before, commit),
            committed_at_seconds=_read_time(headers.get("committer", [""])[0]),
        )

    def list_first_parents(self, commit: str, *, most: int) -> tuple[CommitSummary, ...]:
        """A commit and its first parents, newest first, each with what it changed."""
        verify_full_hash(commit)
        listing = self._store.execute(
            [
                *("log", "--first-parent", "-m", "--no-renames", "--numstat", "-z", "--no-color"),
                *(f"--max-count={most}", "--encoding=UTF-8"),
                "--format=format:%x01%H%x02%P%x02%ct%x02%B%x02",
                *("--end-of-options", commit, "--"),
            ]
        )
        return tuple(map(_parse_summary, listing.split(b"\x01")[1:]))

    def build_patch(
        self, before: str, after: str, *, paths: Collection[str] = (), excluded: Collection[str] = ()
    ) -> bytes:
        """The change between two commits as a patch for `git apply`: binary files whole, renames spelled out.

        Args:
            before: Full hash of one commit.
            after: Full hash of the other.
            paths: Only these files and directories; all unless told.
            excluded: Not these files and directories.

        Raises:
            COMMIT_NOT_PINNED: a commit is not given as a full hash.
            COMMIT_NOT_FOUND: the source does not hold one of them.
        """
        verify_full_hash(before)
        verify_full_hash(after)
        self._find(before)
        self._find(after)
        return _diff(self._store, before, after, paths=paths, excluded=excluded)

    def _find(self, commit: str) -> bytes:
        try:
            return self._read(commit)
        except ContractError as error:
            if error.code != GIT_OBJECT_MISSING:
                raise
            raise COMMIT_NOT_FOUND.error(f"expected the commit {commit} in the source, found none") from error

    def _read(self, commit: str) -> bytes:
        with self._store.open_reader() as reader:
            return reader.read(commit, kind="commit")


@contextlib.contextmanager
def open_history(
    source: str,
    *,
    base: Path,
    protocols: Sequence[str] = AUTHORING_PROTOCOLS,
    options: SourceOptions = DEFAULT_OPTIONS,
) -> Iterator[_SourceHistory]:
    """Make the history of a source readable while the block lasts.

    Args:
        source: A URL, a bundle, or any path.
        base: Where a relative path starts.
        protocols: Transports that may be used.
        options: Limits and places.
    """
    address = parse_address(source, base=base, protocols=protocols, is_confined=False)
    with open_store(address, commit=None, options=options, protocols=protocols) as store:
        yield _SourceHistory(store)


def resolve_commit(
    source: str, revision: str, *, base: Path, options: SourceOptions = DEFAULT_OPTIONS
) -> str:
    """`History.resolve_commit` for a single question."""
    with open_history(source, base=base, options=options) as history:
        return history.resolve_commit(revision)


def _parse_summary(record: bytes) -> CommitSummary:
    commit, parents, seconds, message, rest = record.split(b"\x02", 4)
    return CommitSummary(
        commit=commit.decode(),
        parents=tuple(parents.decode().split()),
        committed_at_seconds=int(seconds),
        message=message.decode("utf-8", "replace"),
        files=tuple(_parse_count(line) for line in rest.strip(b"\n\0").split(b"\0") if b"\t" in line),
    )


def _parse_count(line: bytes) -> FileCount:
    added, removed, path = line.strip(b"\n").split(b"\t", 2)
    numbers = (int(each) if each.isdigit() else 0 for each in (added, removed))
    return FileCount(path=path.decode("utf-8", "surrogateescape"), added=next(numbers), removed=next(numbers))


def _list_changes(store: ObjectStore, before: str, after: str) -> tuple[CommitChange, ...]:
    listing = store.execute(
        [
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-abbrev",
            "--end-of-options",
            before,
            after,
            "--",
        ]
    )
    fields = listing.split(b"\0")[:-1]
    return tuple(_parse_change(fields[index], fields[index + 1]) for index in range(0, len(fields), 2))


def _parse_change(header: bytes, path: bytes) -> CommitChange:
    old_mode, new_mode, _, _, status = header.decode().lstrip(":").split(" ")
    return CommitChange(
        path=path.decode("utf-8", "surrogateescape"),
        status=ChangeStatus(status),
        old_mode=old_mode,
        new_mode=new_mode,
    )


def _diff(
    store: ObjectStore, before: str, after: str, *, paths: Collection[str], excluded: Collection[str]
) -> bytes:
    # Spelled out, since releases of git differ in their defaults and a patch is digested.
    args: list[str | bytes] = [
        "diff",
        "--binary",
        "--full-index",
        "--no-renames",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--diff-algorithm=myers",
        "--indent-heuristic",
        "--unified=3",
        "--inter-hunk-context=0",
        "--submodule=short",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "--end-of-options",
        before,
        after,
        "--",
    ]
    args += [b":(top,literal)" + path.encode("utf-8", "surrogateescape") for path in paths]
    args += [b":(top,exclude,literal)" + path.encode("utf-8", "surrogateescape") for path in excluded]
    # Newer releases would take attributes from HEAD's tree in a bare repository; the empty tree has none.
    return store.execute(args, GIT_ATTR_SOURCE=_EMPTY_TREE[store.object_format])


def _read_time(committer: str) -> int:
    """The time in a committer's line: `Name <address> seconds zone`."""
    words = committer.split()
    return int(words[-2]) if len(words) > 1 and words[-2].isdigit() else 0


def _decode(message: bytes, encoding: str) -> str:
    try:
        return message.decode(encoding, errors="replace")
    except LookupError:
        return message.decode("utf-8", errors="replace")
