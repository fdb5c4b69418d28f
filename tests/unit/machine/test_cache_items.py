"""Everything that is kept, in one list; what is in use stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repotrial._core.digest import Digest, digest_bytes
from repotrial.environment import Store, StoreKind
from repotrial.machine import list_kept, prune_kept

OLD, NEW = digest_bytes(b"old"), digest_bytes(b"new")
SIZE = 100_000


def fill(tree: Path, _lock: int) -> dict[str, str | tuple[str, ...]]:
    (tree / "file").write_bytes(bytes(SIZE))
    return {}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "store")
    for age, kind, key in ((200, StoreKind.PYTHON, OLD), (100, StoreKind.NODE, NEW)):
        made.make(kind, key, fill)
        lock = tmp_path / "store" / kind.value / f"{key.removeprefix('sha256:')}.lock"
        then = lock.stat().st_mtime - age
        os.utime(lock, (then, then))
    return made


def keys(cache: Path) -> list[Digest]:
    return [item.key for item in list_kept(cache)]


def test_nothing_is_kept_where_there_is_no_cache(tmp_path: Path) -> None:
    assert list_kept(tmp_path / "none") == []
    assert prune_kept(tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_environments_are_listed_with_kind_and_size_the_longest_unused_first(
    store: Store, tmp_path: Path
) -> None:
    assert store.root.is_dir()
    items = list_kept(tmp_path)
    assert [(item.kind, item.key, item.is_in_use) for item in items] == [
        ("python", OLD, False),
        ("node", NEW, False),
    ]
    assert all(item.size_bytes is not None and item.size_bytes >= SIZE for item in items)
    # To look is not to use.
    assert list_kept(tmp_path) == items


def test_what_is_in_use_is_said_to_be_and_stays(store: Store, tmp_path: Path) -> None:
    with store.hold(StoreKind.PYTHON, OLD):
        assert [item.is_in_use for item in list_kept(tmp_path)] == [True, False]
        assert [item.key for item in prune_kept(tmp_path)] == [NEW]
        assert keys(tmp_path) == [OLD]
    assert [item.key for item in prune_kept(tmp_path)] == [OLD]
    assert keys(tmp_path) == []


def test_what_was_used_lately_stays(store: Store, tmp_path: Path) -> None:
    assert store.root.is_dir()
    assert [item.key for item in prune_kept(tmp_path, unused_seconds=150)] == [OLD]
    assert keys(tmp_path) == [NEW]


def test_pruning_stops_when_enough_room_is_left(store: Store, tmp_path: Path) -> None:
    assert store.root.is_dir()
    sizes = [item.size_bytes or 0 for item in list_kept(tmp_path)]
    assert prune_kept(tmp_path, max_bytes=sum(sizes)) == []
    assert [item.key for item in prune_kept(tmp_path, max_bytes=sum(sizes) - 1)] == [OLD]
    assert keys(tmp_path) == [NEW]


def test_a_broken_record_is_listed_with_its_problem_and_can_be_removed(store: Store, tmp_path: Path) -> None:
    home = store.root / "python" / OLD.replace(":", "-")
    (home / "record.json").chmod(0o600)
    (home / "record.json").write_text("{}")
    broken = list_kept(tmp_path)[0]
    assert (broken.key, broken.size_bytes, broken.tree_digest) == (OLD, None, None)
    assert broken.problem
    assert OLD in {item.key for item in prune_kept(tmp_path)}
