"""Sealed history: a tree of ours becomes a repository of exactly one commit that knows nothing else (C2).

The commit has a fixed author, date and message, so its id depends on the files alone. The files are stored
byte for byte, whatever `.gitattributes` says, and the index knows them, so that the first `git status` in a
workspace finds nothing to do. `repository.describe` becomes an annotated tag of just that name on the one
commit: `git describe` prints it as it stands, even if it looks like `v1.2-3-gabcdef0`.
"""

from __future__ import annotations

import contextlib
import re
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from repotrial._core.errors import ContractError, ErrorCode
from repotrial.source._git import GitCommandError, execute_git
from repotrial.source._tree import DEFAULT_OPTIONS, SourceOptions

SEALED_AT_SECONDS = 946_684_800
"""The date of every sealed commit: 2000-01-01, UTC."""

PLAIN_ATTRIBUTES = b"* -text !eol !crlf -ident -filter -merge !working-tree-encoding\n"
"""In `info/attributes`, where it outranks the tree: bytes stay as they are."""

_BRANCH = "refs/heads/main"
_IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (
        ("NAME", "Snapshot"),
        ("EMAIL", "snapshot@repotrial.invalid"),
        ("DATE", f"{SEALED_AT_SECONDS} +0000"),
    )
}
_MESSAGE = b"Snapshot\n"
_MAX_REFS = 2  # the branch and the tag of `describe`
_PACK = re.compile(r"objects/pack/pack-[0-9a-f]{40}\.(pack|idx)")
_ALLOWED = {"HEAD", "config", "index", _BRANCH}
# Configuration that `git init` writes; anything else could name programs, remotes or other objects.
_ALLOWED_SETTINGS = {
    "repositoryformatversion",
    "filemode",
    "bare",
    "logallrefupdates",
    "ignorecase",
    "precomposeunicode",
    "symlinks",
}


DESCRIBE_REFUSED = ErrorCode(
    "describe-refused",
    ContractError,
    "`repository.describe` is no name that a git tag can have, so `git describe` cannot print it.",
    hint="write what `git describe` prints, such as `v1.4.2` or `v1.4.2-3-gabcdef0`",
)


class SealedHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The one commit."""

    commit: str
    tree: str
    """Git's own name for the tree; the original commit's, if that has no submodules."""


class SealProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a history is not sealed."""

    code: str
    """Stable kebab-case name."""
    message: str
    """What was expected and what was found."""


def seal_history(
    tree: Path, *, describe: str | None = None, options: SourceOptions = DEFAULT_OPTIONS
) -> SealedHistory:
    """Make the one-commit repository of a tree that nobody but the harness has written to.

    Raises:
        DESCRIBE_REFUSED: `describe` cannot be the name of a tag.
    """
    git_dir = tree / ".git"
    with _home(options) as home:
        _verify_describe(describe, home, options)
        init = ["init", "--quiet", "--template=", "--object-format=sha1", "--initial-branch=main", "--"]
        execute_git([*init, str(tree)], home=home, options=options)
        (git_dir / "info").mkdir(exist_ok=True)
        (git_dir / "info/attributes").write_bytes(PLAIN_ATTRIBUTES)

        def git(*args: str, stdin: bytes = b"") -> str:
            command = [f"--work-tree={tree}", "-C", str(tree), "-c", "core.logAllRefUpdates=false", *args]
            printed = execute_git(
                command, home=home, git_dir=git_dir, options=options, variables=_IDENTITY, stdin=stdin
            )
            return printed.decode().strip()

        git("add", "--all", "--force", "--", ".")
        written = git("write-tree")
        commit = git("commit-tree", written, stdin=_MESSAGE)
        git("update-ref", _BRANCH, commit)
        if describe is not None:
            tag = ["tag", "--annotate", "--no-sign", "--cleanup=verbatim", "--file=-", "--", describe, commit]
            git(*tag, stdin=_MESSAGE)
        git("-c", "pack.threads=1", "-c", "pack.writeReverseIndex=false", "repack", "-a", "-d", "-q", "-n")
    _tidy(git_dir)
    return SealedHistory(commit=commit, tree=written)


def check_sealed_history(
    tree: Path, *, future_commits: Collection[str] = (), options: SourceOptions = DEFAULT_OPTIONS
) -> list[SealProblem]:
    """Everything that a sealed history must not have, looked for: one commit, and nothing beside it.

    Only for a `.git` that the harness made and nobody else could write: git opens it.

    Args:
        tree: The work tree.
        future_commits: Commits that are known to come after the snapshot.
        options: Limits and places.
    """
    git_dir = tree / ".git"
    if git_dir.is_symlink() or not git_dir.is_dir():
        return [SealProblem(code="history-missing", message=f"expected a directory at {git_dir}")]
    # The files first: only what is on this list is opened by git.
    problems = [*_check_files(git_dir), *_check_settings(git_dir)]
    if problems:
        return problems
    with _home(options) as home:

        def git(*args: str) -> list[str]:
            printed = execute_git(list(args), home=home, git_dir=git_dir, options=options)
            return printed.decode("utf-8", "surrogateescape").splitlines()

        return _check_objects(git, future_commits)


def execute_plain_git(
    args: Sequence[str], *, tree: Path, stdin: bytes = b"", options: SourceOptions = DEFAULT_OPTIONS
) -> bytes:
    """Run git on the files of a tree by way of an empty repository elsewhere: its attributes do not count."""
    with _home(options) as home:
        git_dir = home.parent / "empty.git"
        init = ["init", "--quiet", "--bare", "--template=", "--object-format=sha1", "--"]
        execute_git([*init, str(git_dir)], home=home, options=options)
        (git_dir / "info").mkdir(exist_ok=True)
        (git_dir / "info/attributes").write_bytes(PLAIN_ATTRIBUTES)
        command = ["-c", "core.bare=false", f"--work-tree={tree}", "-C", str(tree), *args]
        return execute_git(command, home=home, git_dir=git_dir, options=options, stdin=stdin)


@contextlib.contextmanager
def _home(options: SourceOptions) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="repotrial-source-", dir=options.scratch) as name:
        home = Path(name).resolve() / "home"
        home.mkdir()
        yield home


def _verify_describe(describe: str | None, home: Path, options: SourceOptions) -> None:
    if describe is None:
        return
    try:
        if describe.startswith("-"):  # git takes it for an option wherever a tag is named
            raise DESCRIBE_REFUSED.error(f"expected the name of a tag, found {describe!r}")
        execute_git(["check-ref-format", f"refs/tags/{describe}"], home=home, options=options)
    except GitCommandError as error:
        raise DESCRIBE_REFUSED.error(f"expected the name of a tag, found {describe!r}") from error


def _tidy(git_dir: Path) -> None:
    """What the making needed and the workspace must not have."""
    for name in ("info/attributes", "COMMIT_EDITMSG", "TAG_EDITMSG"):
        (git_dir / name).unlink(missing_ok=True)
    for name in ("info", "branches", "hooks"):
        with contextlib.suppress(OSError):
            (git_dir / name).rmdir()


# -- proof -----------------------------------------------------------------------------------------------


def _check_files(git_dir: Path) -> Iterator[SealProblem]:
    for path in sorted(git_dir.rglob("*")):
        name = str(path.relative_to(git_dir))
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            continue
        if not stat.S_ISREG(mode):
            yield SealProblem(code="history-odd-file", message=f"expected plain files only, found {name!r}")
        elif name not in _ALLOWED and not _PACK.fullmatch(name) and not name.startswith("refs/tags/"):
            yield SealProblem(code="history-extra-file", message=f"expected no such file, found {name!r}")
    head = git_dir / "HEAD"
    if not head.is_file() or head.read_bytes() != f"ref: {_BRANCH}\n".encode():
        yield SealProblem(code="history-head", message=f"expected HEAD at {_BRANCH}")


def _check_settings(git_dir: Path) -> Iterator[SealProblem]:
    config = git_dir / "config"
    for line in config.read_text("utf-8", "replace").splitlines() if config.is_file() else ():
        text = line.strip()
        name = text.partition("=")[0].strip().lower()
        if text and text != "[core]" and name not in _ALLOWED_SETTINGS:
            yield SealProblem(code="history-setting", message=f"expected no such setting, found {text!r}")


def _check_objects(git: Callable[..., list[str]], future_commits: Collection[str]) -> list[SealProblem]:
    problems = []
    commits = git("rev-list", "--parents", "--all")
    if len(commits) != 1 or " " in commits[0]:
        found = f"{len(commits)} commits" if len(commits) != 1 else "one with parents"
        problems.append(SealProblem(code="history-commits", message=f"expected one commit, found {found}"))
    refs = git("for-each-ref", "--format=%(refname)")
    if len(refs) - len([ref for ref in refs if ref.startswith("refs/tags/")]) != 1 or len(refs) > _MAX_REFS:
        shown = ", ".join(refs)
        problems.append(SealProblem(code="history-refs", message=f"expected {_BRANCH} alone, found {shown}"))
    stored = set(git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)"))
    reachable = {line.partition(" ")[0] for line in git("rev-list", "--objects", "--all")}
    if leftovers := sorted(stored - reachable):
        problems.append(
            SealProblem(
                code="history-leftovers",
                message=f"expected the objects of one commit, found {len(leftovers)} more: {leftovers[0]} …",
            )
        )
    problems += [
        SealProblem(code="history-future", message=f"expected {commit} to be unknown, found it")
        for commit in future_commits
        if commit in stored
    ]
    return problems


PATCH_REFUSED = ErrorCode(
    "patch-refused",
    ContractError,
    "A patch does not apply to the tree, is malformed, or reaches outside of it.",
    hint="make the patch against the very snapshot that it is applied to",
)


def apply_patch(patch: bytes, *, tree: Path, options: SourceOptions = DEFAULT_OPTIONS) -> None:
    """Apply a patch as `git apply` reads it; only for a tree that no agent could write to.

    Args:
        patch: As `git diff --binary` writes it; an empty one changes nothing.
        tree: The files; a `.git` among them is not looked at.
        options: Limits and places.

    Raises:
        PATCH_REFUSED: git refused it; the tree is unchanged.
    """
    if not patch:
        return
    try:
        execute_plain_git(["apply", "--whitespace=nowarn", "-"], tree=tree, stdin=patch, options=options)
    except GitCommandError as error:
        raise PATCH_REFUSED.error(f"expected a patch that applies: {error.message}") from error
