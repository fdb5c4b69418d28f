"""The tree on which a contract starts: found, read and, where asked, put beside the contract."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from repotrial._core.errors import MACHINE
from repotrial.authoring._text import build_slug
from repotrial.contract import ArchiveRepository, GitRepository
from repotrial.source import ARCHIVE_DIGEST_MISMATCH, materialize_snapshot, resolve_snapshot


def write_archive(tree: Path, archive: Path) -> None:
    """Write the files and links of `tree`, sorted by path, without owners and times.

    Plain tar: compressed bytes would depend on the release of the compressor.
    """
    with (
        archive.open("xb") as stream,
        tarfile.open(
            fileobj=stream, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
        ) as tar,
    ):
        for path in sorted(_iter_paths(tree), key=os.fsencode):
            _add(tar, tree / path, path)


def _iter_paths(tree: Path) -> Iterator[str]:
    for directory, names, files in os.walk(tree):
        # A link to a directory is a leaf of the tree, whatever it points to.
        links = [name for name in names if Path(directory, name).is_symlink()]
        for name in (*files, *links):
            yield os.path.relpath(os.path.join(directory, name), tree)  # noqa: PTH118 - keeps odd bytes as they are


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    info = tarfile.TarInfo(name)
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        info.type = tarfile.SYMTYPE
        info.linkname = os.readlink(path)  # noqa: PTH115 - the text of the link, not a path made of it
        info.mode = 0o777
        tar.addfile(info)
        return
    info.size = status.st_size
    info.mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
    with path.open("rb") as stream:
        tar.addfile(info, stream)


ARCHIVE_FILE = "repository.tar"
_TEXT_BYTES = 2 << 20
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a commit, on disk for as long as they are needed."""

    root: Path
    commit: str
    tree_digest: str

    def list_top(self) -> list[str]:
        """Names of the files at the top."""
        with os.scandir(self.root) as entries:
            return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))

    def list_top_directories(self) -> list[str]:
        """Names of the directories at the top."""
        with os.scandir(self.root) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    def list_files(self) -> list[str]:
        """Every file of the tree that people can name, sorted; links and unprintable names are left out."""
        found = []
        for directory, _, names in os.walk(self.root):
            paths = [Path(directory, name) for name in names]
            found += [path.relative_to(self.root).as_posix() for path in paths if not path.is_symlink()]
        return sorted(path for path in found if path.isprintable())

    def read_text(self, path: str) -> str | None:
        """A file's text; absent where it is missing, no plain file, binary, or too large for people."""
        place = self.root / path
        try:
            status = place.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_size > _TEXT_BYTES:
                return None
            data = place.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if b"\0" in data:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None


def is_local_source(source: str) -> bool:
    """Whether a source names a place on this machine: something that is there, and no URL."""
    # `Path.exists` would raise for names that are too long.
    return not _URL.match(source) and os.path.exists(source)  # noqa: PTH110


def build_git_repository(source: str, commit: str) -> GitRepository:
    """The repository as a contract may name it: paths outside its directory stand there as `file://` URLs."""
    address = Path(source).resolve().as_uri() if is_local_source(source) else source
    repository = GitRepository(source=address, commit=commit)
    if not address.lower().startswith("file://"):
        return repository
    return msgspec.structs.replace(repository, protocols=("file", *repository.protocols))


def guess_name(source: str) -> str:
    """What the project is called, by the last part of its address; empty where that has no usable letters."""
    path = str(Path(source).resolve()) if is_local_source(source) else source
    last = re.split(r"[/:\\]", path.rstrip("/"))[-1]
    return build_slug(re.sub(r"\.(git|bundle)$", "", last), limit=40)


@contextlib.contextmanager
def open_tree(source: str, commit: str) -> Iterator[Tree]:
    """The files of a commit, in a temporary directory."""
    try:
        place = Path(tempfile.mkdtemp(prefix="repotrial-tree-"))
    except OSError as error:
        raise MACHINE.error(f"expected a directory for temporary files, found: {error}") from error
    try:
        root = place / "tree"
        snapshot = materialize_snapshot(build_git_repository(source, commit), base=place, into=root)
        yield Tree(root=root, commit=commit, tree_digest=snapshot.tree_digest)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def embed_tree(tree: Tree, directory: Path) -> ArchiveRepository:
    """Put the tree beside the contract and make sure that it reads back as the same tree."""
    write_archive(tree.root, directory / ARCHIVE_FILE)
    repository = ArchiveRepository(source=ARCHIVE_FILE)
    found = resolve_snapshot(repository, base=directory).tree_digest
    if found != tree.tree_digest:
        raise ARCHIVE_DIGEST_MISMATCH.error(
            f"expected the archive to hold the tree {tree.tree_digest}, found {found}"
        )
    return repository
