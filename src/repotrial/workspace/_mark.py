"""A mark: what a workspace held at one moment, as far as it differs from the base."""

from __future__ import annotations

import stat
import time
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.escaping import escape_bytes
from repotrial.trace import DirectoryEntry, FileEntry, PathEntry, SpecialEntry, SymlinkEntry
from repotrial.workspace._base import UNBOUNDED, Base
from repotrial.workspace._node import Node, Touched
from repotrial.workspace._reader import Contents, NotRead, TreeReader

_TOTAL_BYTES = 2 * 1024**3
_MEMORY_BYTES = 256 * 1024
"""Of small changes; a file for each would cost more than all else that is done with them."""


WORKSPACE_UNUSABLE = ErrorCode(
    "workspace-unusable",
    MachineError,
    "There is no room for a workspace: the directory is missing, full or not writable.",
    hint="name a directory of your own with enough room",
)


class ContentStore:
    """Memory for a little, then a directory of the harness, out of the agent's reach; up to a bound, beyond
    which nothing is kept.
    """

    def __init__(
        self, root: Path, *, total_bytes: int = _TOTAL_BYTES, memory_bytes: int = _MEMORY_BYTES
    ) -> None:
        self._root = root
        self._left_bytes = total_bytes
        self._left_memory_bytes = min(memory_bytes, total_bytes)
        self._held: dict[Digest, bytes] = {}

    def keep(self, digest: Digest, data: bytes) -> None:
        """Keep bytes under their digest."""
        if digest in self._held:
            return
        if len(data) <= self._left_memory_bytes:
            self._left_memory_bytes -= len(data)
            self._held[digest] = data
            return
        path = self._place(digest)
        if not path.exists() and len(data) <= self._left_bytes:
            self._left_bytes -= len(data)
            try:
                self._root.mkdir(mode=0o700, exist_ok=True)
                path.write_bytes(data)
            except OSError as error:
                raise WORKSPACE_UNUSABLE.error(
                    f"{path}: expected to keep a content, found: {error}"
                ) from error

    def load(self, digest: Digest) -> bytes | None:
        """The bytes of that digest; None if they were not kept."""
        if digest in self._held:
            return self._held[digest]
        try:
            data = self._place(digest).read_bytes()
        except FileNotFoundError:
            return None
        return data if digest_bytes(data) == digest else None

    def _place(self, digest: Digest) -> Path:
        return self._root / digest.removeprefix("sha256:")


_RACY_NS = 200_000_000
"""Times of files move in steps of up to a hundredth of a second: within one, a change cannot be seen."""


class Seen(msgspec.Struct, frozen=True):
    """What one look at a path found."""

    node: Node
    entry: PathEntry | None


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The differences to the base at one moment."""

    taken_ns: int
    """When the look began."""
    entries: MappingProxyType[bytes, PathEntry | None]
    """Paths that differ from the base; None: nothing is there."""
    seen: MappingProxyType[bytes, Seen]
    """Every path that was looked at."""


NOTHING_SEEN = Mark(taken_ns=0, entries=MappingProxyType({}), seen=MappingProxyType({}))


class BaseView:
    """What the base holds at a path; it never changes, so each path is read once."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._entries: dict[bytes, PathEntry | None] = {}

    def find_entry(self, path: bytes) -> PathEntry | None:
        if path not in self._entries:
            with TreeReader(self._base.path, limits=UNBOUNDED) as reader:
                node = reader.look(path)
                self._entries[path] = None if node is None else _observe(reader, path, node, None)[1]
        return self._entries[path]

    def read(self, path: bytes, *, kept_bytes: int) -> bytes | None:
        """A file's bytes; None if it is none, or has more."""
        with TreeReader(self._base.path, limits=UNBOUNDED) as reader:
            reading = reader.read_file(path, kept_bytes=kept_bytes)
        return reading.data if isinstance(reading, Contents) else None


def take_mark(
    reader: TreeReader, touched: Touched, *, view: BaseView, contents: ContentStore, previous: Mark
) -> Mark:
    """Look at every touched path, reading only what may have changed since the previous mark."""
    taken_ns = time.time_ns()
    entries: dict[bytes, PathEntry | None] = {}
    seen: dict[bytes, Seen] = {}
    for path, node in touched.items():
        found = None if node is None else _see(reader, path, node, contents=contents, previous=previous)
        if found is not None:
            seen[path] = found
        entry = None if found is None else found.entry
        if entry != view.find_entry(path):
            entries[path] = entry
    return Mark(taken_ns=taken_ns, entries=MappingProxyType(entries), seen=MappingProxyType(seen))


def is_settled(node: Node, taken_ns: int) -> bool:
    """Whether a later change would have to show in the node's change time."""
    return node.changed_ns + _RACY_NS < taken_ns


def _see(reader: TreeReader, path: bytes, node: Node, *, contents: ContentStore, previous: Mark) -> Seen:
    known = previous.seen.get(path)
    if known is not None and known.node == node and is_settled(node, previous.taken_ns):
        return known
    return Seen(*_observe(reader, path, node, contents))


def _observe(
    reader: TreeReader, path: bytes, node: Node, contents: ContentStore | None
) -> tuple[Node, PathEntry | None]:
    if node.is_directory:
        return node, DirectoryEntry(mode=node.permissions)
    if node.is_link:
        target = reader.read_link(path)
        return node, None if target is None else SymlinkEntry(target=escape_bytes(target))
    if not node.is_file:
        return node, SpecialEntry(nature=_find_nature(node))
    reading = reader.read_file(path, kept_bytes=0 if contents is None else reader.limits.kept_bytes)
    match reading:
        case Contents(node=node, digest=digest, size_bytes=size_bytes, data=data):
            if contents is not None and data is not None:
                contents.keep(digest, data)
            return node, FileEntry(mode=node.permissions, digest=digest, size_bytes=size_bytes)
        case NotRead(node=node):
            # Too large to be read, or no file any more; either way its content is not vouched for.
            return node, SpecialEntry(nature=_find_nature(node))
        case None:
            return node, None


def _find_nature(node: Node) -> Literal["fifo", "socket", "device", "other"]:
    if stat.S_ISFIFO(node.mode):
        return "fifo"
    if stat.S_ISSOCK(node.mode):
        return "socket"
    return "device" if stat.S_ISCHR(node.mode) or stat.S_ISBLK(node.mode) else "other"
