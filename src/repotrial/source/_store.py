"""Object stores: a private, empty repository of ours through which the objects of a source are read.

A repository on this machine lends its object directory and nothing else. Its configuration, hooks, filters,
alternates, replacement refs and work tree have no effect, since git never opens it as a repository; what
would make git read elsewhere (alternates, links, `.git` files) is refused: a source stands on its own. A
bundle is unpacked and a remote is fetched into the private repository. All of it is removed at the end.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from repotrial._core.errors import ContractError, ErrorCode, MachineError
from repotrial.contract import TRANSPORTS
from repotrial.source._address import Address, LocalAddress, RemoteAddress, render_address
from repotrial.source._git import GitCommandError, execute_git
from repotrial.source._objects import (
    GIT_OBJECT_MISSING,
    NOT_A_REPOSITORY,
    OBJECT_FORMAT_MISMATCH,
    ObjectFormat,
    ObjectReader,
    copy_refs,
    find_git_dir,
    open_reader,
    read_object_format,
    verify_self_contained,
)
from repotrial.source._tree import TREE_LIMIT, SourceOptions

_BUNDLE_MAGIC = re.compile(rb"# v[23] git bundle\n")
_FULL_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


BUNDLE_UNREADABLE = ErrorCode(
    "bundle-unreadable",
    ContractError,
    "A bundle is damaged, or builds on commits that it does not hold.",
    hint="make it anew with `git bundle create FILE --all`",
)
FETCH_FAILED = ErrorCode(
    "fetch-failed",
    MachineError,
    "A repository could not be fetched: no connection, no such repository, or access refused.",
    hint="check the URL and the connection; private repositories are best put beside the contract as a "
    "bundle",
)
COMMIT_NOT_FOUND = ErrorCode(
    "commit-not-found",
    ContractError,
    "A source does not hold the commit that was asked for.",
    hint="check the hash, and that the commit is reachable from a branch or tag of the source",
)
COMMIT_NOT_PINNED = ErrorCode(
    "commit-not-pinned",
    ContractError,
    "A commit is named by a branch, a tag or a shortened hash, which can come to mean another commit.",
    hint="write the full hash, as `git rev-parse NAME^{commit}` prints it",
)
SCRATCH_UNAVAILABLE = ErrorCode(
    "scratch-unavailable",
    MachineError,
    "There is no place for a temporary clone: the directory is missing, full or not writable.",
    hint="set TMPDIR to a directory with room",
)


class ObjectStore(msgspec.Struct, frozen=True, kw_only=True):
    """The private repository: what it was made from, and where it is while it lives."""

    address: Address
    git_dir: Path
    home: Path
    object_format: ObjectFormat
    options: SourceOptions

    @contextlib.contextmanager
    def open_reader(self) -> Iterator[ObjectReader]:
        """Read objects, each checked against its name."""
        with open_reader(
            self.git_dir, home=self.home, object_format=self.object_format, options=self.options
        ) as reader:
            yield reader

    def execute(self, args: Sequence[str | bytes], *, stdin: bytes = b"", **variables: str) -> bytes:
        """Run git in the private repository, without any transport."""
        return execute_git(
            args, home=self.home, git_dir=self.git_dir, options=self.options, stdin=stdin, variables=variables
        )


@contextlib.contextmanager
def open_store(
    address: Address, *, commit: str | None, options: SourceOptions, protocols: Sequence[str] = ()
) -> Iterator[ObjectStore]:
    """Make the objects of a source readable while the block lasts.

    Args:
        address: Where the source is.
        commit: The full hash that is needed; None to have all branches and tags, for authoring.
        options: Limits and places.
        protocols: Transports that may be used, redirects included.

    Raises:
        COMMIT_NOT_FOUND: the source does not hold `commit`.
        NOT_A_REPOSITORY: there is no repository.
        REPOSITORY_REFUSED: there is one that does not stand on its own.
        OBJECT_FORMAT_MISMATCH: its hashes are of another kind.
        BUNDLE_UNREADABLE: the bundle is damaged or incomplete.
        FETCH_FAILED: the remote did not deliver.
    """
    with _scratch(options) as place:
        if isinstance(address, RemoteAddress):
            store = _fetch(address, place, commit=commit, options=options, protocols=protocols)
        elif os.path.isdir(address.path):  # noqa: PTH112 - `Path.is_dir` raises for names that are too long
            store = _borrow(address, place, commit=commit, options=options)
        else:
            store = _unbundle(address, place, commit=commit, options=options)
        if commit is not None:
            _verify_commit(store, commit)
        yield store


def verify_full_hash(commit: str) -> None:
    """Refuse branches, tags and abbreviations where a commit is pinned (C2).

    Raises:
        COMMIT_NOT_PINNED: it is not a whole hash.
    """
    if not _FULL_HASH.fullmatch(commit):
        raise COMMIT_NOT_PINNED.error(f"expected a full commit hash (40 or 64 hex digits), found {commit!r}")


@contextlib.contextmanager
def _scratch(options: SourceOptions) -> Iterator[Path]:
    try:
        place = Path(tempfile.mkdtemp(prefix="repotrial-source-", dir=options.scratch)).resolve()
    except OSError as error:
        raise SCRATCH_UNAVAILABLE.error(f"expected room for a temporary clone, found: {error}") from error
    try:
        (place / "home").mkdir()
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _create(
    address: Address, place: Path, *, object_format: ObjectFormat, options: SourceOptions
) -> ObjectStore:
    git_dir, home = place / "store.git", place / "home"
    args = ["init", "--quiet", "--bare", "--template=", f"--object-format={object_format.value}"]
    execute_git([*args, "--", str(git_dir)], home=home, options=options)
    return ObjectStore(
        address=address, git_dir=git_dir, home=home, object_format=object_format, options=options
    )


def _verify_commit(store: ObjectStore, commit: str) -> None:
    with store.open_reader() as reader:
        try:
            reader.read(commit, kind="commit")
        except ContractError as error:
            if error.code != GIT_OBJECT_MISSING:
                raise
            where = render_address(store.address)
            raise COMMIT_NOT_FOUND.error(
                f"expected the commit {commit}, found that {where} does not hold it ({_render_heads(store)})"
            ) from error


def _render_heads(store: ObjectStore) -> str:
    args = ["for-each-ref", "--count=6", "--format=%(refname:short) %(objectname)"]
    refs = store.execute([*args, "refs/heads", "refs/tags"]).decode(errors="replace").splitlines()
    return "looked for it by its hash" + ("; branches and tags there: " + ", ".join(refs) if refs else "")


def _expect_format(found: ObjectFormat, commit: str | None) -> None:
    if commit is not None and ObjectFormat.from_commit(commit) is not found:
        raise OBJECT_FORMAT_MISMATCH.error(
            f"expected a {found.value} hash ({found.hex_digits} hex digits), found {commit}"
        )


# -- A repository on this machine ------------------------------------------------------------------------


def _borrow(address: LocalAddress, place: Path, *, commit: str | None, options: SourceOptions) -> ObjectStore:
    try:
        git_dir = find_git_dir(address.path)
        verify_self_contained(git_dir)
    except OSError as error:
        raise NOT_A_REPOSITORY.error(
            f"expected a readable repository at {address.path}, found: {error}"
        ) from error
    object_format = read_object_format(git_dir, place / "home", options)
    _expect_format(object_format, commit)
    store = _create(address, place, object_format=object_format, options=options)
    # The link spares the alternates file every question of quoting.
    (place / "borrowed").symlink_to(git_dir / "objects", target_is_directory=True)
    (store.git_dir / "objects/info").mkdir(exist_ok=True)
    (store.git_dir / "objects/info/alternates").write_text("../../borrowed\n")
    try:
        copy_refs(git_dir, store.git_dir)
    except OSError as error:
        raise NOT_A_REPOSITORY.error(f"expected readable refs in {git_dir}, found: {error}") from error
    return store


# -- A bundle --------------------------------------------------------------------------------------------


def _unbundle(
    address: LocalAddress, place: Path, *, commit: str | None, options: SourceOptions
) -> ObjectStore:
    object_format = _read_bundle_format(address.path, options)
    _expect_format(object_format, commit)
    store = _create(address, place, object_format=object_format, options=options)
    try:
        printed = store.execute(["bundle", "unbundle", str(address.path)])
    except GitCommandError as error:
        raise BUNDLE_UNREADABLE.error(
            f"expected a whole bundle at {address.path}: {error.message}"
        ) from error
    refs = [line.partition(b" ")[::2] for line in printed.splitlines()]
    wanted = [(name, value) for value, name in refs if name.startswith((b"refs/heads/", b"refs/tags/"))]
    head = [value for value, name in refs if name == b"HEAD"]
    updates = b"".join(b"update %s\0%s\0\0" % ref for ref in wanted)
    updates += b"".join(b"option no-deref\0update HEAD\0%s\0\0" % value for value in head[:1])
    try:
        store.execute(["update-ref", "--stdin", "-z"], stdin=updates)
    except GitCommandError as error:
        raise BUNDLE_UNREADABLE.error(
            f"expected refs to commits in {address.path}: {error.message}"
        ) from error
    return store


def _read_bundle_format(path: Path, options: SourceOptions) -> ObjectFormat:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for somebody to write into it
            raise NOT_A_REPOSITORY.error(f"expected a repository or bundle, found a special file: {path}")
        with path.open("rb") as stream:
            lines = stream.read(1000).splitlines(keepends=True)
    except OSError as error:
        raise NOT_A_REPOSITORY.error(
            f"expected a repository or bundle at {path}, found: {error.strerror}"
        ) from error
    if not lines or not _BUNDLE_MAGIC.fullmatch(lines[0]):
        raise NOT_A_REPOSITORY.error(f"expected a git bundle, found another kind of file: {path}")
    if status.st_size > options.limits.package_bytes:
        raise TREE_LIMIT.error(
            f"expected a bundle of at most {options.limits.package_bytes} bytes, found {status.st_size}"
        )
    return ObjectFormat.SHA256 if b"@object-format=sha256\n" in lines else ObjectFormat.SHA1


# -- A remote --------------------------------------------------------------------------------------------


def _fetch(
    address: RemoteAddress,
    place: Path,
    *,
    commit: str | None,
    options: SourceOptions,
    protocols: Sequence[str],
) -> ObjectStore:
    object_format = ObjectFormat.SHA1 if commit is None else ObjectFormat.from_commit(commit)
    store = _create(address, place, object_format=object_format, options=options)
    if commit is not None:
        # Not every server hands out a commit by its hash; then all branches and tags are fetched.
        with contextlib.suppress(GitCommandError):
            _fetch_refs(store, [commit], protocols=protocols, args=("--depth=1",))
            return store
    refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
    try:
        _fetch_refs(store, refs, protocols=protocols)
        if commit is None:
            _fetch_refs(store, ["+HEAD:refs/repotrial/head"], protocols=protocols)
            store.execute(["update-ref", "--no-deref", "HEAD", "refs/repotrial/head"])
    except GitCommandError as error:
        raise FETCH_FAILED.error(f"expected to fetch {address.url}: {error.message}") from error
    return store


def _fetch_refs(
    store: ObjectStore, refs: Sequence[str], *, protocols: Sequence[str], args: Sequence[str] = ()
) -> None:
    command = [
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-recurse-submodules",
        "--no-auto-gc",
    ]
    execute_git(
        [*command, *args, "--", render_address(store.address), *refs],
        home=store.home,
        git_dir=store.git_dir,
        options=store.options,
        # What lies on this machine is never fetched, so no transport may lead back to it.
        protocols=[name for name in protocols if name in TRANSPORTS and name != "file"],
    )
