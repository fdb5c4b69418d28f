"""The processes below keepers, on the host itself: no namespace shows only them, and numbers come again.

Found by walking down from the keepers, which adopt every orphan; and signaled only if what has the number
now is still what was found. Needs only the standard library (`_boot`).
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

from repotrial.sandbox._launch_server._processes import ProcessRow, ProcessTable, find_descendants, load_row

__all__ = ["KeptTable"]

_PROC: Final = "/proc"


class KeptTable(ProcessTable):
    """What runs below some keepers; the keepers themselves are not listed."""

    def __init__(self) -> None:
        super().__init__(os.open(_PROC, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        # Not every kernel was built with it; the list of everything does as well, and takes longer.
        self._has_children = os.path.exists(f"{_PROC}/thread-self/children")  # noqa: PTH110 - stays lean
        self._keepers: dict[int, int] = {}
        self._known: dict[int, int] = {}

    def add_keeper(self, pid: int) -> None:
        """Look below this process from now on; it is not waited for before it is taken out again.

        Raises:
            OSError: It has ended.
        """
        self._keepers = {**self._keepers, pid: self._load_row(str(pid)).started_ticks}

    def remove_keeper(self, pid: int) -> None:
        self._keepers = {number: ticks for number, ticks in self._keepers.items() if number != pid}

    def list_processes(self) -> dict[int, ProcessRow]:
        """Everything below the keepers, by number."""
        rows = self._walk() if self._has_children else self._select()
        self._known = {pid: row.started_ticks for pid, row in rows.items()}
        return rows

    def prefer_as_victim(self, pid: int) -> None:
        """Every program says so of itself before it begins (`_keep_process`)."""

    def _is_ours(self, pid: int, handle: int) -> bool:
        ticks = self._known.get(pid, self._keepers.get(pid))
        return ticks is not None and load_row("stat", handle).started_ticks == ticks

    def _select(self) -> dict[int, ProcessRow]:
        everything = super().list_processes()
        return {row.pid: row for keeper in self._keepers for row in find_descendants(everything, keeper)}

    def _walk(self) -> dict[int, ProcessRow]:
        rows: dict[int, ProcessRow] = {}
        pending = [*self._keepers]
        while pending:
            parent = pending.pop()
            for pid in _list_children(parent):
                with contextlib.suppress(OSError):
                    row = self._load_row(str(pid))
                    # Its number may have gone to a stranger since; an orphan has gone to a keeper.
                    if pid not in rows and (row.parent == parent or row.parent in self._keepers):
                        rows[pid] = row
                        pending.append(pid)
        return rows


def _list_children(pid: int) -> list[int]:
    """Of all threads; a list that is being changed may lack some."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"{_PROC}/{pid}/task"):  # noqa: PTH208 - names, not paths
            with (
                contextlib.suppress(OSError),
                open(f"{_PROC}/{pid}/task/{thread}/children", "rb") as stream,  # noqa: PTH123 - stays lean
            ):
                found += map(int, stream.read().split())
    return found
