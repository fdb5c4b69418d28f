"""Opening below a directory: by one system call or step by step, with the same refusals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from repotrial._core.beneath import _open_stepwise, open_beneath

Open = Callable[[int, bytes, int], int]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "tree" / "d").mkdir(parents=True)
    (tmp_path / "tree" / "d" / "file").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    (tmp_path / "tree" / "link").symlink_to("d")
    (tmp_path / "tree" / "d" / "out").symlink_to(tmp_path / "secret")
    handle = os.open(tmp_path / "tree", os.O_PATH | os.O_DIRECTORY)
    yield handle
    os.close(handle)


OPENERS = pytest.mark.parametrize("opener", [open_beneath, _open_stepwise], ids=["at-once", "stepwise"])


@OPENERS
def test_what_is_below_is_opened(root: int, opener: Open) -> None:
    handle = opener(root, b"d/file", os.O_RDONLY | os.O_NOFOLLOW)
    assert os.read(handle, 100) == b"inside"
    os.close(handle)


@OPENERS
@pytest.mark.parametrize("path", [b"link/file", b"d/out", b"link", b"missing", b"d/file/x"])
def test_links_and_what_is_not_there_are_refused(root: int, opener: Open, path: bytes) -> None:
    with pytest.raises(OSError, match=r"."):
        opener(root, path, os.O_RDONLY | os.O_NOFOLLOW)


@pytest.mark.parametrize("path", [b"../secret", b"/etc/passwd", b"d/../../secret"])
def test_ways_out_are_refused(root: int, path: bytes) -> None:
    with pytest.raises(OSError, match=r"."):
        open_beneath(root, path, os.O_RDONLY)


@OPENERS
def test_a_link_can_be_held_without_being_followed(root: int, opener: Open) -> None:
    handle = opener(root, b"d/out", os.O_PATH | os.O_NOFOLLOW)
    assert os.readlink(b"", dir_fd=handle).endswith(b"/secret")
    os.close(handle)
