"""Marks of an unfinished merge in the lines that a change brings (C10)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from repotrial.change import ChangedFile, ChangeView, Location

_MARK = re.compile(r"(<{7}|\|{7}|={7}|>{7})(?: .*)?\r?", re.DOTALL)


def find_conflict_markers(view: ChangeView) -> tuple[Location, ...]:
    """Lines of groups that a merge leaves: an opening mark, what is between, a closing mark.

    A row of equal signs alone is a heading's underline.
    """
    return tuple(place for file in view.iter_present() for place in _iter_groups(file))


def _iter_groups(file: ChangedFile) -> Iterator[Location]:
    group: list[int] = []
    for line in file.added_lines:
        mark = _MARK.fullmatch(line.text) if line.text[:1] in {"<", "|", "=", ">"} else None
        if mark is None or (mark[1][0] != "<" and not group):
            continue
        if mark[1][0] == "<":
            group = []
        group.append(line.number)
        if mark[1][0] == ">":
            yield from (Location(path=file.path, line=number) for number in group)
            group = []
