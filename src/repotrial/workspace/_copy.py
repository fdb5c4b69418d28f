"""A workspace as a copy of the base, where overlays cannot be had: slower to make, the same to look at."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from repotrial.trace import FileChange
from repotrial.workspace._base import Base
from repotrial.workspace._copying import copy_tree
from repotrial.workspace._delta import ContentSink
from repotrial.workspace._mark import Mark, is_settled
from repotrial.workspace._node import Node, Omission, ReadLimits, Touched
from repotrial.workspace._place import WorkspacePlace
from repotrial.workspace._reader import TreeReader
from repotrial.workspace._restore import Restoration
from repotrial.workspace._workspace import Observer


class CopyWorkspace:
    """A copy of a base, and what `lstat` said of it when it was new.

    Args:
        base: Stays open as long as the workspace does.
        parent: Where the copy is made.
        limits: Bounds for looking at what an agent did.
    """

    def __init__(
        self, base: Base, parent: Path | WorkspacePlace, *, limits: ReadLimits | None = None
    ) -> None:
        self.base = base
        self._limits = limits or ReadLimits()
        self._place = WorkspacePlace(parent, owner=base.owner)
        try:
            copy_tree(base.path, self.path, owner=base.owner)
            taken_ns = time.time_ns()
            with TreeReader(self.path, limits=self._limits) as reader:
                self._fresh = dict(reader.walk())
        except BaseException:
            self._place.remove()
            raise
        # Files whose times are too young to tell a change from the copying are read at the first look.
        self._settled = {path: node for path, node in self._fresh.items() if is_settled(node, taken_ns)}
        self._observer = Observer(base, self._place, limits=self._limits, look=self.look)

    @property
    def path(self) -> Path:
        """The copy."""
        return self._place.path / "tree"

    @contextlib.contextmanager
    def look(self) -> Iterator[_CopyLook]:
        """Compare the whole copy with what it was, by what `lstat` says."""
        with TreeReader(self.path, limits=self._limits) as reader:
            yield _CopyLook(reader, paths=self._fresh, settled=self._settled)

    def iter_changes(self) -> Iterator[bytes]:
        """Paths that differ from the base now, in byte order."""
        return self._observer.iter_changes()

    def snapshot(self) -> Mark:
        """What it holds at this moment."""
        return self._observer.snapshot()

    def delta(self, before: Mark, after: Mark, *, sink: ContentSink) -> tuple[FileChange, ...]:
        """What changed between two marks."""
        return self._observer.delta(before, after, sink)

    def build_restoration(self, now: Mark, then: Mark) -> Restoration:
        """The way from one mark back to another."""
        return self._observer.build_restoration(now, then)

    def close(self) -> None:
        """Remove it. Twice is once."""
        self._place.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _CopyLook:
    def __init__(
        self, reader: TreeReader, *, paths: Mapping[bytes, Node], settled: Mapping[bytes, Node]
    ) -> None:
        self.reader = reader
        found = dict(reader.walk())
        self.touched: Touched = {path: node for path, node in found.items() if settled.get(path) != node}
        # Looked at once more: the walk may have ended at one of its bounds.
        self.touched.update((path, reader.look(path)) for path in paths.keys() - found.keys())

    @property
    def omissions(self) -> tuple[Omission, ...]:
        return self.reader.omissions
