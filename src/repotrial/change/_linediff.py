"""Which lines changed: in time that no input can make long.

Equal beginnings and ends are cut off; lines that are unique on both sides and in the same order hold the two
texts together (the patience method, n log n); what lies between them is compared by Myers' greedy method
within a budget of steps. Where the budget ends, the piece counts as replaced: a longer patch, never a wrong
one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

_STEPS = 400_000
_MAX_EDITS = 400

Block = tuple[int, int, int, int]
"""A change: lines `[a, b)` of the old text become lines `[c, d)` of the new one."""


def find_blocks(old: Sequence[bytes], new: Sequence[bytes]) -> list[Block]:
    """The changes from one text to another, in order, none touching the next."""
    return _join(_Comparison(old, new).compare())


class _Comparison:
    def __init__(self, old: Sequence[bytes], new: Sequence[bytes]) -> None:
        numbers: dict[bytes, int] = {}
        self._old = [numbers.setdefault(line, len(numbers)) for line in old]
        self._new = [numbers.setdefault(line, len(numbers)) for line in new]
        self._left_steps = _STEPS

    def compare(self) -> list[Block]:
        start, old_end, new_end = self._trim()
        blocks: list[Block] = []
        old_at = new_at = start
        for old_line, new_line in [
            *self._find_anchors(start, old_end, start, new_end),
            (old_end, new_end),
        ]:
            blocks += self._compare_piece(old_at, old_line, new_at, new_line)
            old_at, new_at = old_line + 1, new_line + 1
        return blocks

    def _trim(self) -> tuple[int, int, int]:
        """Where the texts begin to differ, and where each has ended before an equal rest."""
        old, new = self._old, self._new
        start, b, d = 0, len(old), len(new)
        while start < min(b, d) and old[start] == new[start]:
            start += 1
        while min(b, d) > start and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
        return start, b, d

    def _find_anchors(self, a: int, b: int, c: int, d: int) -> list[tuple[int, int]]:
        """Lines that occur once in each piece, as the longest chain that ascends in both."""
        old_places, new_places = _find_unique(self._old, a, b), _find_unique(self._new, c, d)
        pairs = [(place, new_places[line]) for line, place in old_places.items() if line in new_places]
        return _find_longest_chain(sorted(pairs))

    def _compare_piece(self, a: int, b: int, c: int, d: int) -> list[Block]:
        old, new = self._old, self._new
        while a < b and c < d and old[a] == new[c]:
            a, c = a + 1, c + 1
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
        if a == b and c == d:
            return []
        if a == b or c == d:
            return [(a, b, c, d)]
        matches = self._match(a, b, c, d)
        return [(a, b, c, d)] if matches is None else _build_blocks(matches, (a, b, c, d))

    def _match(self, a: int, b: int, c: int, d: int) -> list[tuple[int, int]] | None:
        """Equal lines by the shortest edit script (Myers 1986); None where that would take too long."""
        old, new = self._old[a:b], self._new[c:d]
        furthest = {1: 0}
        history: list[dict[int, int]] = []
        for edits in range(min(len(old) + len(new), _MAX_EDITS) + 1):
            history.append(dict(furthest))
            for diagonal in range(-edits, edits + 1, 2):
                x = _step(furthest, diagonal, edits)
                y = x - diagonal
                while x < len(old) and y < len(new) and old[x] == new[y]:
                    x, y = x + 1, y + 1
                    self._left_steps -= 1
                furthest[diagonal] = x
                if x >= len(old) and y >= len(new):
                    return [(a + i, c + j) for i, j in _trace(history, len(old), len(new))]
            self._left_steps -= 2 * edits + 1
            if self._left_steps < 0:
                return None
        return None


def _step(furthest: dict[int, int], diagonal: int, edits: int) -> int:
    """One more line taken from the old or the new text, whichever leads further."""
    if diagonal == -edits or (
        diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
    ):
        return furthest.get(diagonal + 1, 0)
    return furthest[diagonal - 1] + 1


def _trace(history: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    matches = []
    for edits in range(len(history) - 1, -1, -1):
        furthest, diagonal = history[edits], x - y
        start = _step(furthest, diagonal, edits)
        while x > start and y > start - diagonal:
            x, y = x - 1, y - 1
            matches.append((x, y))
        is_insertion = diagonal == -edits or (
            diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
        )
        x, y = (x, y - 1) if is_insertion else (x - 1, y)
    return matches[::-1]


def _build_blocks(matches: list[tuple[int, int]], piece: Block) -> list[Block]:
    a, b, c, d = piece
    blocks = []
    for old_line, new_line in [*matches, (b, d)]:
        if a < old_line or c < new_line:
            blocks.append((a, old_line, c, new_line))
        a, c = old_line + 1, new_line + 1
    return blocks


def _find_unique(lines: Sequence[int], start: int, end: int) -> dict[int, int]:
    places: dict[int, int] = {}
    repeated: set[int] = set()
    for place in range(start, end):
        line = lines[place]
        if line in places:
            repeated.add(line)
        places[line] = place
    return {line: place for line, place in places.items() if line not in repeated}


def _find_longest_chain(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, sorted by the first, whose second ascends too."""
    tails: list[int] = []
    tail_at: list[int] = []
    before: list[int] = []
    for index, (_, value) in enumerate(pairs):
        length = bisect_left(tails, value)
        before.append(tail_at[length - 1] if length else -1)
        if length == len(tails):
            tails.append(value)
            tail_at.append(index)
        else:
            tails[length], tail_at[length] = value, index
    chain = []
    index = tail_at[-1] if tail_at else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


def _join(blocks: list[Block]) -> list[Block]:
    joined: list[Block] = []
    for block in blocks:
        if joined and joined[-1][1] == block[0] and joined[-1][3] == block[2]:
            joined[-1] = (joined[-1][0], block[1], joined[-1][2], block[3])
        else:
            joined.append(block)
    return joined
