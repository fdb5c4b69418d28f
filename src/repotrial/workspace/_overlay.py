"""A workspace as an overlay over the base: the kernel keeps every change in a directory of its own.

What that upper directory holds is the log of mutations; its size does not depend on the repository's. Only
the kernel can write its language: programs inside the mount can make neither a whiteout (mknod is refused)
nor an overlay attribute (the kernel stores theirs under another name).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from repotrial.isolation import OverlayMount
from repotrial.workspace._base import UNBOUNDED, Base
from repotrial.workspace._node import Node, Omission, ReadLimits, Touched, join_path
from repotrial.workspace._place import WorkspacePlace
from repotrial.workspace._reader import TreeReader
from repotrial.workspace._workspace import Workspace

_OPAQUE = "user.overlay.opaque"
_WHITEOUT = "user.overlay.whiteout"


class _Below(Enum):
    """What lies under a directory of the upper layer."""

    MERGED = "a directory of the base that shows through"
    HIDDEN = "a directory of the base that does not"
    NOTHING = "no directory of the base"


class OverlayWorkspace(Workspace):
    """The changes of one run over a shared base."""

    def __init__(
        self, base: Base, parent: Path | WorkspacePlace, *, limits: ReadLimits | None = None
    ) -> None:
        super().__init__(base, parent, limits=limits)
        root = self._place.path
        # Only the kernel uses the work directory, so the mount may cover it.
        work = root / "work"
        self.mount = OverlayMount(lower=base.path, upper=root / "upper", work=work, target=work)
        mode = stat.S_IMODE(base.path.stat().st_mode)
        for path in (self.mount.upper, self.mount.work):
            self._place.make_directory(path, mode=mode)

    @property
    def path(self) -> Path:
        """Where the overlay is to be mounted."""
        return self.mount.target

    @property
    def upper(self) -> Path:
        """The changes, as the kernel keeps them."""
        return self.mount.upper

    @contextlib.contextmanager
    def look(self) -> Iterator[_OverlayLook]:
        """Read the upper directory; what shows through from the base is not looked at."""
        with (
            TreeReader(self.upper, limits=self._limits) as upper,
            TreeReader(self.base.path, limits=UNBOUNDED) as lower,
        ):
            yield _OverlayLook(upper, lower)

    def close(self) -> None:
        _remove_marks(os.fspath(self.mount.work))
        super().close()


def _remove_marks(work: str) -> None:
    """Remove what the kernel leaves in a work directory, if it is what it always leaves.

    No program can write there: the mount covers it. To look into each of these directories costs more than
    all else that removing a small workspace takes.
    """
    # Where it was never mounted, or there is more, the removal of the rest looks.
    with contextlib.suppress(OSError):
        os.unlink(f"{work}/work/incompat/volatile/dirty")  # noqa: PTH108 - a path object costs more than the call
        for name in ("work/incompat/volatile", "work/incompat", "work"):
            os.rmdir(f"{work}/{name}")  # noqa: PTH106


def take_whiteout(path: Path) -> bool:
    """Take away what stands in an upper directory for something deleted; whether there was such a thing."""
    try:
        status = path.lstat()
    except OSError:
        return False
    if not stat.S_ISCHR(status.st_mode) or status.st_rdev:
        return False
    path.unlink()
    return True


def hide_base(directory: Path) -> None:
    """Let nothing of the base show through a directory that was deleted and made again."""
    os.setxattr(directory, _OPAQUE, b"y")


class _OverlayLook:
    def __init__(self, upper: TreeReader, lower: TreeReader) -> None:
        self.reader = upper
        self._lower = lower
        self.touched: Touched = {}
        self._scan()

    @property
    def omissions(self) -> tuple[Omission, ...]:
        return self.reader.omissions

    def _scan(self) -> None:
        pending = [(b"", _Below.MERGED)]
        while pending:
            directory, below = pending.pop()
            names = set()
            for name, node in self.reader.list_directory(directory):
                names.add(name)
                path = join_path(directory, name)
                if self._is_whiteout(path, node):
                    self._remove(path)
                    continue
                self.touched[path] = node
                found = self._find_below(path, node, below)
                if node.is_directory:
                    pending.append((path, found))
                elif found is _Below.HIDDEN:
                    self._remove_children(path, set())
            if below is _Below.HIDDEN:
                self._remove_children(directory, names)

    def _find_below(self, path: bytes, node: Node, parent: _Below) -> _Below:
        if parent is _Below.NOTHING:
            return _Below.NOTHING
        lower = self._lower.look(path)
        if lower is None or not lower.is_directory:
            return _Below.NOTHING
        if parent is _Below.HIDDEN or not node.is_directory or self.reader.has_attribute(path, _OPAQUE, b"y"):
            return _Below.HIDDEN
        return _Below.MERGED

    def _is_whiteout(self, path: bytes, node: Node) -> bool:
        if stat.S_ISCHR(node.mode):
            return node.device == 0
        return node.is_file and node.size_bytes == 0 and self.reader.has_attribute(path, _WHITEOUT)

    def _remove(self, path: bytes) -> None:
        """A path of the base that is gone, with all that was below it."""
        self.touched[path] = None
        self._remove_children(path, set())

    def _remove_children(self, directory: bytes, kept: set[bytes]) -> None:
        for name, node in self._lower.list_directory(directory):
            if name not in kept:
                path = join_path(directory, name)
                self.touched[path] = None
                if node.is_directory:
                    self.touched.update((below, None) for below, _ in self._lower.walk(path))
