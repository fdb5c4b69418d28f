"""Verification of many edits of one trace, each from the edited line on.

The chain is checked line by line, so what an edit leaves in front of it is verified once, not for each edit.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from io import BytesIO
from itertools import islice

from repotrial.trace import TraceHead
from repotrial.trace._files import LineReader
from repotrial.trace._verify_chain import (
    ChainStatus,
    _check_end,
    _check_head,
    _Walk,
    _walk_lines,
    check_stream,
)


class ResumedCheck:
    """The verdict of `check_stream` on edited copies of an intact trace."""

    def __init__(self, data: bytes, head: TraceHead, *, run_id: str) -> None:
        self._data, self._head, self._run_id = data, head, run_id
        self._walks: list[_Walk] = []
        walk = _Walk(run_id)
        for line in data.split(b"\n")[:-1]:
            stop = (None if self._walks else walk.open(line)) or walk.step(line)
            assert stop is None, stop
            self._walks.append(copy.copy(walk))
        self._offsets = [walk.offset for walk in self._walks]

    def find_status(self, edited: bytes) -> ChainStatus:
        """What is said of this copy, after the lines that it shares with the original."""
        shared = bisect_right(self._offsets, _count_shared_bytes(self._data, edited))
        if not shared:
            return self.find_status_anew(edited)
        walk = copy.copy(self._walks[shared - 1])
        walk._unknown = walk._unknown.copy()
        reader = LineReader(BytesIO(edited[walk.offset :]))
        lines = iter(reader)
        return (
            _walk_lines(islice(lines, self._head.count - walk.count), walk)
            or _check_head(lines, walk, self._head)
            or _check_end(reader, walk, self._head)
        )

    def find_status_anew(self, edited: bytes) -> ChainStatus:
        """The same from the first line on, as everybody else verifies."""
        return check_stream(BytesIO(edited), run_id=self._run_id, expected=self._head).status


def _count_shared_bytes(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
