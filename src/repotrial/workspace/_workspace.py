"""A run's own view of a base: one protocol, whether the kernel keeps the changes apart or a copy does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from repotrial.trace import FileChange
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


class Workspace(Protocol):
    """A tree that an agent may change, and what it changed."""

    @property
    def base(self) -> Base: ...
    @property
    def path(self) -> Path:
        """What is shown to the sandbox as the workspace."""
        ...

    def look(self) -> AbstractContextManager[Look]:
        """Find everything that may differ from the base."""
        ...

    def iter_changes(self) -> Iterator[bytes]:
        """Paths that differ from the base now, in byte order."""
        ...

    def snapshot(self) -> Mark:
        """What it holds at this moment."""
        ...

    def delta(self, before: Mark, after: Mark, *, sink: ContentSink) -> tuple[FileChange, ...]:
        """What changed between two marks."""
        ...

    def build_restoration(self, now: Mark, then: Mark) -> Restoration:
        """The way from one mark back to another."""
        ...

    def close(self) -> None:
        """Remove it. Twice is once."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Observer:
    """What both kinds of workspaces do alike."""

    def __init__(
        self,
        base: Base,
        place: WorkspacePlace,
        *,
        limits: ReadLimits,
        look: Callable[[], AbstractContextManager[Look]],
    ) -> None:
        self._base = base
        self._place = place
        self._limits = limits
        self._look = look
        self._view = BaseView(base)
        self._last = NOTHING_SEEN

    def iter_changes(self) -> Iterator[bytes]:
        yield from sorted(self.snapshot().entries)

    def snapshot(self) -> Mark:
        with self._look() as look:
            self._last = take_mark(
                look.reader,
                look.touched,
                view=self._view,
                contents=self._place.contents,
                previous=self._last,
            )
        return self._last

    def delta(self, before: Mark, after: Mark, sink: ContentSink) -> tuple[FileChange, ...]:
        return build_delta(
            before, after, view=self._view, contents=self._place.contents, sink=sink, limits=self._limits
        )

    def build_restoration(self, now: Mark, then: Mark) -> Restoration:
        return build_restoration(now, then, view=self._view, contents=self._place.contents)
