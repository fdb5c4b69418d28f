"""Programs beyond the bound, counted by file and command: a build of any size stays small."""

from __future__ import annotations

from typing import Final

from repotrial.syscalls import EndRecord
from repotrial.trace import FoldedPrograms, ProgramStart

_MOST_GROUPS: Final = 64
_OTHERS: Final = ("", None)


class _Group:
    __slots__ = ("cpu_us", "ended", "failed", "from_us", "started", "to_us", "wall_us")

    def __init__(self, at_us: int) -> None:
        self.started = self.ended = self.failed = self.wall_us = self.cpu_us = 0
        self.from_us = self.to_us = at_us


class FoldedStarts:
    """Counts programs that have no events of their own."""

    def __init__(self) -> None:
        self.started = 0
        self._groups: dict[tuple[str, int | None], _Group] = {}
        self._running: dict[int, _Group] = {}

    def start(self, start: ProgramStart) -> None:
        """Count a start."""
        key: tuple[str, int | None] = (start.exe or start.path, start.command)
        if key not in self._groups and len(self._groups) >= _MOST_GROUPS:
            key = _OTHERS
        group = self._groups.setdefault(key, _Group(start.started_at_us))
        group.started += 1
        group.to_us = max(group.to_us, start.started_at_us)
        self._running[start.number] = group
        self.started += 1

    def end(self, record: EndRecord) -> None:
        """Count the end of one that was counted at its start; others are none of ours."""
        group = self._running.pop(record.number, None)
        if group is None:
            return
        group.ended += 1
        group.failed += record.replaced_by is None and record.status not in {0, None}
        group.wall_us += record.wall_us
        group.cpu_us += record.cpu_us or 0
        group.to_us = max(group.to_us, record.at_us)

    def build(self) -> tuple[FoldedPrograms, ...]:
        """The counts, in the order of their first starts."""
        return tuple(
            FoldedPrograms(
                exe=exe,
                command=command,
                started=group.started,
                ended=group.ended,
                failed=group.failed,
                wall_us=group.wall_us,
                cpu_us=group.cpu_us,
                from_us=group.from_us,
                to_us=group.to_us,
            )
            for (exe, command), group in self._groups.items()
        )
