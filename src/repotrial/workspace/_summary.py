"""A tree in a few figures: what is in it, and whether it was touched since."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from repotrial._core.digest import Digest
from repotrial.workspace._node import HISTORY, Node, ReadLimits
from repotrial.workspace._reader import Contents, TreeReader

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
    """What `lstat` says of everything: the same for as long as nobody writes, in this place."""
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
