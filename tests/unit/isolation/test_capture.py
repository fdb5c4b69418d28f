from __future__ import annotations

import fcntl
import hashlib
import os
import resource

from hypothesis import given
from hypothesis import strategies as st

from repotrial.isolation._resources._capture import OutputBudget, StreamReader


@given(st.lists(st.binary(max_size=300), max_size=10), st.integers(0, 500), st.integers(1, 1000))
def test_the_beginning_is_kept_and_all_is_digested_up_to_the_budget(
    pieces: list[bytes], prefix_bytes: int, limit_bytes: int
) -> None:
    reader, writer = os.pipe()
    budget = OutputBudget(limit_bytes)
    stream = StreamReader(reader, prefix_bytes=prefix_bytes, budget=budget)
    is_open = True
    for piece in pieces:
        os.write(writer, piece)
        is_open = is_open and (not piece or stream.read())
    os.close(writer)
    if is_open:
        stream.drain()
    whole = b"".join(pieces)
    counted = whole[:limit_bytes]
    capture = stream.close()
    assert capture.prefix == counted[:prefix_bytes]
    assert capture.length_bytes == len(counted)
    assert capture.digest == "sha256:" + hashlib.sha256(counted).hexdigest()
    assert budget.is_exceeded == (len(whole) > limit_bytes)


def test_nobody_is_waited_for() -> None:
    reader, writer = os.pipe()
    stream = StreamReader(reader, prefix_bytes=10, budget=OutputBudget(10))
    assert stream.read()
    assert stream.drain()
    os.close(writer)
    assert not stream.read()
    assert stream.close().length_bytes == 0


def test_descriptors_of_four_digits_are_read_like_others() -> None:
    """A harness with many runs at a time has more than `select` can name."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard > 1200
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    reader, writer = os.pipe()
    high = fcntl.fcntl(reader, fcntl.F_DUPFD_CLOEXEC, 1100)
    os.close(reader)
    try:
        stream = StreamReader(high, prefix_bytes=10, budget=OutputBudget(100))
        os.write(writer, b"said")
        assert stream.drain()
        os.close(writer)
        assert not stream.drain()
        assert stream.close().prefix == b"said"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
