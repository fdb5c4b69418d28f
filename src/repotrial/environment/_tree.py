"""Trees in a store: what is in one (digest), and whether it was touched (fingerprint).

The digest is over names, kinds, permissions and contents and is the same on every machine. The fingerprint is
over what `lstat` says, the change time included, which no program can set: it costs no reading, holds only
for this copy, and a difference means "read it again", not "it is wrong".
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, MachineError


class StoredTree(msgspec.Struct, frozen=True, kw_only=True):
    """What a tree holds."""

    digest: Digest
    size_bytes: int
    """Contents of files; a file with several names counts once for each."""
    entries: int


STORE_UNEXPECTED_ENTRY = ErrorCode(
    "store-unexpected-entry",
    MachineError,
    "A tree in the store holds something that is neither file, directory nor symbolic link.",
    hint="remove the entry with `repotrial cache prune` and make it anew",
)


def summarize_tree(root: Path) -> StoredTree:
    """Read a whole tree."""
    total = hashlib.sha256()
    size_bytes = entries = 0
    for path, entry, status in _walk(root):
        kind, content = _read(entry, status)
        total.update(b"%s %o %d " % (kind, stat.S_IMODE(status.st_mode) & 0o777, len(path)) + path)
        total.update(content)
        entries += 1
        size_bytes += status.st_size if kind == b"file" else 0
    return StoredTree(digest="sha256:" + total.hexdigest(), size_bytes=size_bytes, entries=entries)


def take_fingerprint(root: Path) -> Digest:
    """Look at every entry without reading any."""
    total = hashlib.sha256()
    for path, _, status in _walk(root):
        facts = (
            len(path),
            status.st_ino,
            status.st_mode,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        total.update(path + repr(facts).encode())
    return "sha256:" + total.hexdigest()


def protect_tree(root: Path) -> None:
    """Take away all write permissions, and let everyone read: nothing in a store is private."""
    for _, entry, status in _walk(root):
        if not stat.S_ISLNK(status.st_mode):
            is_executable = stat.S_ISDIR(status.st_mode) or status.st_mode & 0o111
            Path(os.fsdecode(entry)).chmod(0o555 if is_executable else 0o444)


def _walk(root: Path) -> Iterator[tuple[bytes, bytes, os.stat_result]]:
    """Every entry in byte order, the root itself first: path from the root, full path, `lstat`."""
    base = os.fsencode(root)
    pending = [b""]
    while pending:
        path = pending.pop()
        full = base + b"/" + path if path else base
        status = os.lstat(full)
        yield path, full, status
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(full) as found:
                names = sorted((item.name for item in found), reverse=True)
            pending += [path + b"/" + name if path else name for name in names]


def _read(entry: bytes, status: os.stat_result) -> tuple[bytes, bytes]:
    """Kind and content digest; a directory's content are the entries that follow."""
    if stat.S_ISDIR(status.st_mode):
        return b"directory", bytes(32)
    path = Path(os.fsdecode(entry))
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(entry)  # noqa: PTH115 - pathlib would tidy the text up
        return b"link", hashlib.sha256(target).digest()
    if stat.S_ISREG(status.st_mode):
        with path.open("rb") as stream:
            return b"file", hashlib.file_digest(stream, "sha256").digest()
    raise STORE_UNEXPECTED_ENTRY.error(f"{path}: expected a file, directory or link, found another kind")
