"""Git objects, read one by one and checked: each must hash to the name under which it was asked for.

Git does not hash what it reads from disk, and a repository that came with a contract may hold anything under
any name. Here a commit hash stands for its content whoever wrote the object files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import msgspec

from repotrial._core.errors import ContractError, ErrorCode
from repotrial.source._git import GitCommandError, GitProcess, execute_git, open_git
from repotrial.source._tree import TREE_LIMIT, SourceOptions, render_path

_CHUNK_BYTES = 1 << 20
_TREE_BYTES = 64 << 20
_HEADER = re.compile(rb"([0-9a-f]+) (commit|tree|blob|tag) ([0-9]+)\n")


GIT_OBJECT_CORRUPT = ErrorCode(
    "git-object-corrupt",
    ContractError,
    "A git object is malformed, of the wrong kind, or does not hash to its own name.",
    hint="run `git fsck` on the source and make the bundle or clone anew",
)
GIT_OBJECT_MISSING = ErrorCode(
    "git-object-missing",
    ContractError,
    "A commit needs an object that the source does not have, as after a partial or damaged clone.",
    hint="use a complete clone or bundle (no `--filter`, no `--shared`)",
)


class ObjectFormat(Enum):
    """Which hash names a repository's objects."""

    SHA1 = "sha1"
    SHA256 = "sha256"

    @property
    def hex_digits(self) -> int:
        return 40 if self is ObjectFormat.SHA1 else 64

    @classmethod
    def from_commit(cls, commit: str) -> ObjectFormat:
        return cls.SHA256 if len(commit) == cls.SHA256.hex_digits else cls.SHA1


class TreeItem(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a git tree object."""

    mode: int
    name: bytes
    object_id: str

    @property
    def kind(self) -> int:
        """The file type bits alone: old repositories hold permissions that git itself disregards."""
        return stat.S_IFMT(self.mode)


class ObjectReader:
    """Reads objects through one `git cat-file --batch`; one object at a time, each to its end."""

    def __init__(self, process: GitProcess, object_format: ObjectFormat) -> None:
        self._process = process
        self._format = object_format

    def read(self, object_id: str, *, kind: str, max_bytes: int = _TREE_BYTES) -> bytes:
        """The whole object.

        Raises:
            GIT_OBJECT_MISSING: it is not there.
            GIT_OBJECT_CORRUPT: it is of another kind, or not what its name says.
            TREE_LIMIT: it is larger than `max_bytes`.
        """
        return b"".join(self.iter_chunks(object_id, kind=kind, max_bytes=max_bytes))

    def iter_chunks(self, object_id: str, *, kind: str, max_bytes: int) -> Iterator[bytes]:
        """The object bit by bit; it is checked when the last bit has been taken."""
        size = self._request(object_id, kind)
        if size > max_bytes:
            raise TREE_LIMIT.error(
                f"expected at most {max_bytes} bytes in the {kind} {object_id}, found {size}"
            )
        state = hashlib.new(self._format.value, b"%s %d\0" % (kind.encode(), size), usedforsecurity=False)
        left = size
        while left:
            chunk = self._process.answers.read(min(left, _CHUNK_BYTES))
            if not chunk:
                raise self._explain(object_id, kind)
            left -= len(chunk)
            state.update(chunk)
            yield chunk
        if self._process.answers.read(1) != b"\n":
            raise self._explain(object_id, kind)
        if state.hexdigest() != object_id:
            raise GIT_OBJECT_CORRUPT.error(
                f"expected the {kind} {object_id}, found content with the hash {state.hexdigest()}"
            )

    def _request(self, object_id: str, kind: str) -> int:
        try:
            self._process.requests.write(object_id.encode() + b"\n")
            self._process.requests.flush()
        except BrokenPipeError as error:
            raise self._explain(object_id, kind) from error
        answer = self._process.answers.readline(1000)
        if answer == object_id.encode() + b" missing\n":
            raise GIT_OBJECT_MISSING.error(
                f"expected the {kind} {object_id} in the source, found that it is missing"
            )
        header = _HEADER.fullmatch(answer)
        if header is None:
            raise self._explain(object_id, kind)
        if header[2] != kind.encode():
            raise GIT_OBJECT_CORRUPT.error(
                f"expected {object_id} to be a {kind}, found a {header[2].decode()}"
            )
        return int(header[3])

    def _explain(self, object_id: str, kind: str) -> ContractError:
        """Git says nothing about an object that it cannot read: it ends."""
        self._process.verify_in_time()
        return GIT_OBJECT_CORRUPT.error(
            f"expected the {kind} {object_id}, found an object that git cannot read"
        )


@contextlib.contextmanager
def open_reader(
    git_dir: Path, *, home: Path, object_format: ObjectFormat, options: SourceOptions
) -> Iterator[ObjectReader]:
    """A reader over a repository that this package made."""
    with open_git(["cat-file", "--batch"], home=home, git_dir=git_dir, options=options) as process:
        yield ObjectReader(process, object_format)


def parse_tree(data: bytes, object_format: ObjectFormat) -> list[TreeItem]:
    """Take a tree object apart.

    Raises:
        GIT_OBJECT_CORRUPT: it is not well-formed.
    """
    items: list[TreeItem] = []
    width = object_format.hex_digits // 2
    position = 0
    while position < len(data):
        space = data.find(b" ", position, position + 8)
        end = data.find(b"\0", space + 1)
        digits = data[position:space]
        if space < 0 or end < 0 or end + 1 + width > len(data) or not re.fullmatch(rb"[0-7]+", digits):
            raise GIT_OBJECT_CORRUPT.error("expected a git tree, found a malformed entry")
        items.append(
            TreeItem(
                mode=int(digits, 8),
                name=data[space + 1 : end],
                object_id=data[end + 1 : end + 1 + width].hex(),
            )
        )
        position = end + 1 + width
    names = {item.name for item in items}
    if len(names) != len(items) or any(b"/" in name for name in names):
        shown = ", ".join(render_path(item.name) for item in items[:5])
        raise GIT_OBJECT_CORRUPT.error(f"expected different plain names in a git tree, found {shown}")
    return items


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
