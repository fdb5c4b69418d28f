"""Removing trees: whatever is in them, and nothing beside them."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from repotrial._core.remove_tree import clear_tree, remove_tree


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(kept)
    remove_tree(tree)
    assert not tree.exists()
    assert (kept / "file").exists()


def test_names_that_the_removal_itself_uses_do_not_disturb_it(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("a/b/c", ".lifted-0/x", "d/.lifted-0/y/z"):
        (tree / name).mkdir(parents=True)
        (tree / name / "file").touch()
    (tree / ".lifted-1").touch()
    for path in (tree / "a" / "b", tree / "d"):
        path.chmod(0)
    remove_tree(tree)
    assert not tree.exists()


def test_what_is_not_there_is_fine_and_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    remove_tree(tmp_path / "missing")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        with pytest.raises(NotADirectoryError):
            remove_tree(tmp_path / name)
    assert os.path.lexists(tmp_path / "link")


def test_clearing_keeps_the_directory_itself(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b" / "c").mkdir(parents=True)
    (tree / "a" / "b" / "c" / "file").touch()
    (tree / "file").touch()
    (tree / "a" / "b").chmod(0)
    clear_tree(tree)
    assert list(tree.iterdir()) == []


def _fill(tree: Path) -> None:
    for first in range(8):
        for second in range(4):
            deep = tree / f"work-{first}" / f"part-{second}" / "work" / "work"
            deep.mkdir(parents=True)
            (deep / "file").touch()
            (deep.parent / "file").touch()


def test_several_that_remove_the_same_tree_do_not_disturb_each_other(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        for number in range(15):
            tree = tmp_path / str(number)
            _fill(tree)
            together = Barrier(4)

            def remove(tree: Path = tree, together: Barrier = together) -> None:
                together.wait()
                remove_tree(tree)

            for ended in [pool.submit(remove) for _ in range(4)]:
                ended.result()
            assert not tree.exists()
