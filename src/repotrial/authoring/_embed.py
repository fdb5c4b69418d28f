"""A tree as an archive: the same bytes for the same files, and not a word about any other commit."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path


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
