"""Line comparison: right for every pair of texts, and never slow."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from repotrial.change._write import find_blocks

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"}\n", b"\n"]), max_size=30)


@given(old=LINES, new=LINES)
def test_what_lies_between_the_blocks_is_equal(old: list[bytes], new: list[bytes]) -> None:
    rebuilt: list[bytes] = []
    at_old = at_new = 0
    for a, b, c, d in find_blocks(old, new):
        assert old[at_old:a] == new[at_new:c]
        assert (a, c) != (b, d)
        rebuilt += old[at_old:a] + new[c:d]
        at_old, at_new = b, d
    assert old[at_old:] == new[at_new:]
    assert rebuilt + old[at_old:] == new


def test_a_small_edit_is_a_small_block() -> None:
    old = [b"%d\n" % number for number in range(1000)]
    new = [*old[:500], b"new\n", *old[500:700], *old[701:]]
    assert find_blocks(old, new) == [(500, 500, 500, 501), (700, 701, 701, 701)]


def test_repeated_lines_are_matched_by_the_shortest_script() -> None:
    old = [b"x\n", b"}\n", b"y\n", b"}\n"]
    new = [b"x\n", b"}\n", b"z\n", b"}\n", b"y\n", b"}\n"]
    assert sum(b - a + d - c for a, b, c, d in find_blocks(old, new)) == 2


def test_hostile_texts_do_not_take_quadratic_time() -> None:
    source = random.Random(1)
    old = [b"%d\n" % source.randrange(50) for _ in range(100_000)]
    new = [b"%d\n" % source.randrange(50) for _ in range(100_000)]
    # A comparison of all pairs would be ten thousand million steps: hours.
    assert find_blocks(old, new)
