"""A run's own view of a base, whether the kernel keeps the changes apart or a copy does."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from repotrial._core.closing import Closing
from repotrial.trace import FileChange, PathEntry
from repotrial.workspace._base import Base
from repotrial.workspace._delta import ContentSink, Restoration, build_delta, build_restoration
from repotrial.workspace._mark import NOTHING_SEEN, BaseView, Mark, take_mark
from repotrial.workspace._node import Omission, ReadLimits, Touched
from repotrial.workspace._place import WorkspacePlace
from repotrial.workspace._reader import TreeReader


class Look(Protocol):
    """One look at a workspace: what may differ from the base, and the means to read it."""

    @property
    def touched(self) -> Touched: ...
    @property
    def reader(self) -> TreeReader:
        """Reads what the touched paths hold now."""
        ...

    @property
    def omissions(self) -> tuple[Omission, ...]:
        """What was passed over."""
        ...


class Workspace(Closing):
    """A tree that an agent may change, and what it changed.

    Args:
        base: Stays open as long as the workspace does.
        parent: Where it is made, or a place that stays as long; for an overlay on a file system with user
            attributes.
        limits: Bounds for looking at what an agent did.
    """

    def __init__(
        self, base: Base, parent: Path | WorkspacePlace, *, limits: ReadLimits | None = None
    ) -> None:
        self.base = base
        self._limits = limits or ReadLimits()
        self._place = WorkspacePlace(parent, owner=base.owner)
        self._view = BaseView(base)
        self._last = NOTHING_SEEN

    @property
    @abstractmethod
    def path(self) -> Path:
        """What is shown to the sandbox as the workspace."""

    @abstractmethod
    def look(self) -> AbstractContextManager[Look]:
        """Find everything that may differ from the base."""

    def iter_changes(self) -> Iterator[bytes]:
        """Paths that differ from the base now, in byte order."""
        yield from sorted(self.snapshot().entries)

    def snapshot(self) -> Mark:
        """What it holds at this moment."""
        with self.look() as look:
            self._last = take_mark(
                look.reader,
                look.touched,
                view=self._view,
                contents=self._place.contents,
                previous=self._last,
            )
        return self._last

    def delta(self, before: Mark, after: Mark, *, sink: ContentSink) -> tuple[FileChange, ...]:
        """What changed between two marks."""
        return build_delta(
            before, after, view=self._view, contents=self._place.contents, sink=sink, limits=self._limits
        )

    def list_changed(
        self, before: Mark, after: Mark
    ) -> list[tuple[bytes, PathEntry | None, PathEntry | None]]:
        """Paths that differ between two marks, each as it was and as it is, in byte order."""
        found = []
        for path in sorted(before.entries.keys() | after.entries.keys()):
            old, new = (
                mark.entries[path] if path in mark.entries else self._view.find_entry(path)
                for mark in (before, after)
            )
            if old != new:
                found.append((path, old, new))
        return found

    def build_restoration(self, now: Mark, then: Mark) -> Restoration:
        """The way from one mark back to another."""
        return build_restoration(now, then, view=self._view, contents=self._place.contents)

    def close(self) -> None:
        """Remove it; nothing may be mounted any more. Idempotent."""
        self._place.remove()
