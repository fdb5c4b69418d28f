"""A repository on this machine, seen as plain files: where its objects are, and whether they are its own."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from repotrial._core.errors import ContractError, ErrorCode
from repotrial.source._git import GitCommandError, execute_git
from repotrial.source._objects import ObjectFormat
from repotrial.source._options import SourceOptions

_REF_BYTES = 4096
_CONFIG_BYTES = 1 << 20
_REF_KINDS = ("heads", "tags", "remotes")
_PACKED_REFS_BYTES = 256 << 20


NOT_A_REPOSITORY = ErrorCode(
    "not-a-repository",
    ContractError,
    "A source is neither a git repository nor a bundle.",
    hint="name the directory that holds `.git`, a bare repository, or a file made by `git bundle create`",
)
REPOSITORY_REFUSED = ErrorCode(
    "repository-refused",
    ContractError,
    "A repository does not stand on its own: parts of it lie behind links or alternates, or are no files.",
    hint="make it whole with `git clone --no-local`, or put a bundle beside the contract",
)
OBJECT_FORMAT_MISMATCH = ErrorCode(
    "object-format-mismatch",
    ContractError,
    "A commit hash and its repository use different object formats (sha1, sha256), or an unknown one.",
    hint="write the commit's full hash as `git rev-parse` prints it in that repository",
)


def find_git_dir(path: Path) -> Path:
    inner = path / ".git"
    if inner.is_symlink() or inner.is_file():
        raise REPOSITORY_REFUSED.error(
            f"expected {inner} to be a directory, found a pointer to one elsewhere",
            hint="name the main repository, not a linked work tree or a submodule's checkout",
        )
    git_dir = inner if inner.is_dir() else path
    if not (git_dir / "objects").is_dir() or not (git_dir / "HEAD").is_file():
        raise NOT_A_REPOSITORY.error(f"expected a git repository, found none in {path}")
    return git_dir


def verify_self_contained(git_dir: Path) -> None:
    """No object may be read from anywhere but this directory."""
    for name in ("commondir", "objects/info/alternates", "objects/info/http-alternates"):
        if (git_dir / name).is_symlink() or (git_dir / name).exists():
            raise REPOSITORY_REFUSED.error(
                f"expected a repository with its own objects, found {git_dir / name}"
            )
    for name in ("objects", "config", "refs", *(f"refs/{kind}" for kind in _REF_KINDS)):
        if (git_dir / name).is_symlink():
            raise REPOSITORY_REFUSED.error(f"expected no symbolic link, found {git_dir / name}")
    with os.scandir(git_dir / "objects") as entries:
        directories = [entry.path for entry in entries if _is_plain_directory(entry)]
    for directory in directories:
        with os.scandir(directory) as entries:
            for entry in entries:
                _is_plain_directory(entry)


def _is_plain_directory(entry: os.DirEntry[str]) -> bool:
    """Whether it is a directory; a pipe in place of an object would hold git until its time is up."""
    if entry.is_dir(follow_symlinks=False):
        return True
    if not entry.is_file(follow_symlinks=False):
        raise REPOSITORY_REFUSED.error(
            f"expected plain files among the objects, found a link or something special: {entry.path}"
        )
    return False


def read_object_format(git_dir: Path, home: Path, options: SourceOptions) -> ObjectFormat:
    """Ask for one value of the configuration file; as a plain file, without includes, it has no effect."""
    config = git_dir / "config"
    try:
        status = config.lstat()
    except FileNotFoundError:
        return ObjectFormat.SHA1
    if not stat.S_ISREG(status.st_mode) or status.st_size > _CONFIG_BYTES:
        raise REPOSITORY_REFUSED.error(
            f"expected {config} to be a plain file of at most {_CONFIG_BYTES} bytes, found something else"
        )
    args = ["config", f"--file={config}", "--no-includes", "--null", "--list"]
    try:
        listing = execute_git(args, home=home, options=options)
    except GitCommandError as error:
        raise NOT_A_REPOSITORY.error(f"expected a readable {config}: {error.message}") from error
    settings = dict(line.partition(b"\n")[::2] for line in listing.split(b"\0"))
    if settings.get(b"extensions.refstorage", b"files") != b"files":
        raise REPOSITORY_REFUSED.error(
            f"expected refs as files in {git_dir}, found another storage",
            hint="put a bundle beside the contract",
        )
    value = settings.get(b"extensions.objectformat", b"sha1").decode(errors="replace").lower()
    try:
        return ObjectFormat(value)
    except ValueError as error:
        raise OBJECT_FORMAT_MISMATCH.error(
            f"expected the object format sha1 or sha256, found {value!r}"
        ) from error


def copy_refs(source: Path, target: Path) -> None:
    """Copy branches, tags and HEAD as plain files; never links, and never replacement refs."""
    for name, limit in (("HEAD", _REF_BYTES), ("packed-refs", _PACKED_REFS_BYTES)):
        _copy_small(source / name, target / name, limit)
    for kind in _REF_KINDS:
        for directory, _, files in os.walk(source / "refs" / kind):
            for name in files:
                origin = Path(directory, name)
                _copy_small(origin, target / origin.relative_to(source), _REF_BYTES)


def _copy_small(origin: Path, copy: Path, limit: int) -> None:
    try:
        status = origin.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISREG(status.st_mode) and status.st_size <= limit:
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(origin.read_bytes())
