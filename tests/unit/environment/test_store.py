"""The store of environments: made once, whole or not at all, verified, removable."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.remove_tree import remove_tree
from repotrial.environment import BrokenEntry, Store, StoreKind, list_store, prune_store
from repotrial.environment._tree import summarize_tree, take_fingerprint
from support.errors import raises_code

KEY = digest_bytes(b"key")
CONTEXT = multiprocessing.get_context("fork")


def _fill(tree: Path, _lock: int) -> dict[str, str | tuple[str, ...]]:
    (tree / "bin").mkdir()
    (tree / "bin/tool").write_text("tool")
    (tree / "bin/tool").chmod(0o750)
    (tree / "link").symlink_to("bin/tool")
    return {"made": "by a test"}


def _fail(tree: Path, _lock: int) -> dict[str, str | tuple[str, ...]]:
    (tree / "half").write_text("half")
    raise ZeroDivisionError


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def _names(store: Store, kind: StoreKind = StoreKind.PYTHON) -> set[str]:
    return {path.name for path in (store.root / kind.value).iterdir() if path.suffix != ".lock"}


def _home(key: Digest) -> str:
    return key.replace(":", "-")


def test_entry_is_made_once_and_found_again(store: Store) -> None:
    first = store.make(StoreKind.PYTHON, KEY, _fill)
    second = store.make(StoreKind.PYTHON, KEY, _fail)
    assert first.is_new
    assert not second.is_new
    assert second.record == first.record
    assert first.record.facts == {"made": "by a test"}
    assert (first.record.size_bytes, first.record.entries) == (4, 4)
    assert (first.path / "link").read_text() == "tool"
    found = store.find(StoreKind.PYTHON, KEY)
    assert found is not None
    assert found.path == first.path


def test_what_is_not_there_is_not_found(store: Store) -> None:
    assert store.find(StoreKind.NODE, KEY) is None
    assert list_store(store) == []
    assert prune_store(store) == []


def test_trees_are_read_only_and_open_to_all(store: Store) -> None:
    path = store.make(StoreKind.PYTHON, KEY, _fill).path
    modes = {name: oct((path / name).stat().st_mode & 0o777) for name in ("", "bin", "bin/tool")}
    assert modes == {"": "0o555", "bin": "0o555", "bin/tool": "0o555"}


def test_build_that_fails_leaves_nothing(store: Store) -> None:
    with pytest.raises(ZeroDivisionError):
        store.make(StoreKind.PYTHON, KEY, _fail)
    assert _names(store) == set()
    assert store.make(StoreKind.PYTHON, KEY, _fill).is_new


def test_store_that_cannot_be_written_is_an_error_with_a_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with raises_code("store-unusable"):
        Store(tmp_path / "file").make(StoreKind.PYTHON, KEY, _fill)


# -- tampering -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["content", "added", "removed", "mode", "link", "record", "no-record"])
def test_every_change_is_detected(store: Store, change: str) -> None:
    path = store.make(StoreKind.PYTHON, KEY, _fill).path
    for directory in (path, path / "bin"):
        directory.chmod(0o755)
    tool = path / "bin/tool"
    match change:
        case "content":
            times = tool.stat()
            tool.chmod(0o755)
            tool.write_text("evil")
            tool.chmod(0o555)
            os.utime(tool, ns=(times.st_atime_ns, times.st_mtime_ns))
        case "added":
            (path / "bin/new").write_text("x")
        case "removed":
            tool.unlink()
        case "mode":
            tool.chmod(0o444)
        case "link":
            (path / "link").unlink()
            (path / "link").symlink_to("bin/other")
        case "record":
            record = path.parent / "record.json"
            record.write_bytes(record.read_bytes().replace(b'"node"', b'"x"').replace(b"python", b"node"))
        case _:
            (path.parent / "record.json").unlink()
    for directory in (path, path / "bin"):
        directory.chmod(0o555)
    with raises_code("store-tampered"):
        store.make(StoreKind.PYTHON, KEY, _fill)


def test_copy_of_a_store_is_read_once_and_accepted(store: Store, tmp_path: Path) -> None:
    import shutil

    store.make(StoreKind.PYTHON, KEY, _fill)
    shutil.copytree(store.root, tmp_path / "copy", symlinks=True)
    copy = Store(tmp_path / "copy")
    before = (copy.root / "python" / _home(KEY) / "fingerprint").read_bytes()
    assert copy.find(StoreKind.PYTHON, KEY) is not None
    assert (copy.root / "python" / _home(KEY) / "fingerprint").read_bytes() != before


def test_broken_entry_is_listed_and_can_be_pruned(store: Store) -> None:
    path = store.make(StoreKind.PYTHON, KEY, _fill).path
    (path.parent / "record.json").write_text("{")
    (entry,) = list_store(store)
    assert isinstance(entry, BrokenEntry)
    assert prune_store(store) == [KEY]


def test_missing_fingerprint_only_costs_a_reading(store: Store) -> None:
    path = store.make(StoreKind.PYTHON, KEY, _fill).path
    (path.parent / "fingerprint").unlink()
    assert store.find(StoreKind.PYTHON, KEY) is not None
    assert (path.parent / "fingerprint").is_file()


# -- several processes -----------------------------------------------------------------------------------


def _count_and_fill(tree: Path, lock: int) -> dict[str, str | tuple[str, ...]]:
    with (tree.parent.parent.parent / "count").open("a") as stream:
        stream.write("x")
    time.sleep(0.2)
    return _fill(tree, lock)


def _make_in_process(root: Path) -> None:
    Store(root).make(StoreKind.PYTHON, KEY, _count_and_fill)


def test_concurrent_builds_make_one(store: Store) -> None:
    store.root.mkdir()
    processes = [CONTEXT.Process(target=_make_in_process, args=(store.root,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    assert (store.root / "count").read_text() == "x"
    assert _names(store) == {_home(KEY)}


def _fill_slowly(tree: Path, _lock: int) -> dict[str, str | tuple[str, ...]]:
    for number in range(100_000):
        (tree / f"{number}").write_text("x")
    return {}


def _make_slowly_in_process(root: Path) -> None:
    Store(root).make(StoreKind.PYTHON, KEY, _fill_slowly)


def _start_and_kill(root: Path) -> None:
    process = CONTEXT.Process(target=_make_slowly_in_process, args=(root,))
    process.start()
    deadline = time.monotonic() + 60
    while not list(root.glob("python/.making-*/tree/9")) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


def test_killed_build_leaves_no_entry_and_the_next_one_cleans_up(store: Store) -> None:
    _start_and_kill(store.root)
    assert list_store(store) == []
    assert store.find(StoreKind.PYTHON, KEY) is None
    assert len(_names(store)) == 1
    assert store.make(StoreKind.PYTHON, KEY, _fill).is_new
    assert _names(store) == {_home(KEY)}


def test_prune_removes_what_killed_processes_left(store: Store) -> None:
    _start_and_kill(store.root)
    assert prune_store(store) == []
    assert _names(store) == set()


def test_waiting_for_a_build_has_an_end(store: Store) -> None:
    impatient = Store(store.root, wait_seconds=0)

    def build(tree: Path, lock: int) -> dict[str, str | tuple[str, ...]]:
        with raises_code("store-busy"):
            impatient.make(StoreKind.PYTHON, KEY, _fill)
        return _fill(tree, lock)

    store.make(StoreKind.PYTHON, KEY, build)


def test_prune_leaves_work_in_progress_alone(store: Store) -> None:
    def build(tree: Path, lock: int) -> dict[str, str | tuple[str, ...]]:
        assert prune_store(store) == []
        return _fill(tree, lock)

    assert store.make(StoreKind.PYTHON, KEY, build).path.is_dir()


# -- pruning ---------------------------------------------------------------------------------------------


def test_prune_removes_read_only_trees_and_their_locks(store: Store) -> None:
    store.make(StoreKind.PYTHON, KEY, _fill)
    store.make(StoreKind.NODE, KEY, _fill)
    assert [record.kind for record in list_store(store)] == [StoreKind.PYTHON, StoreKind.NODE]
    assert prune_store(store) == [KEY, KEY]
    assert list_store(store) == []
    assert [path for path in store.root.rglob("*") if path.is_file()] == []


def test_prune_keeps_what_is_held(store: Store) -> None:
    entry = store.make(StoreKind.PYTHON, KEY, _fill)
    with store.hold(StoreKind.PYTHON, KEY):
        assert prune_store(store) == []
        assert entry.path.is_dir()
    assert prune_store(store) == [KEY]


def test_prune_keeps_what_was_used_lately(store: Store) -> None:
    entry = store.make(StoreKind.PYTHON, KEY, _fill)
    lock = next((store.root / "python").glob("*.lock"))
    os.utime(lock, (0, 0))
    assert store.find(StoreKind.PYTHON, KEY) is not None
    assert prune_store(store, unused_seconds=3600) == []
    os.utime(lock, (0, 0))
    assert prune_store(store, unused_seconds=3600) == [KEY]
    assert not entry.path.exists()


# -- trees -----------------------------------------------------------------------------------------------


def test_digest_sees_names_kinds_contents_and_permissions(tmp_path: Path) -> None:
    digests = set()
    for number, (name, content, mode) in enumerate(
        [("a", "x", 0o644), ("b", "x", 0o644), ("a", "y", 0o644), ("a", "x", 0o755)]
    ):
        tree = tmp_path / f"{number}"
        tree.mkdir()
        (tree / name).write_text(content)
        (tree / name).chmod(mode)
        digests.add(summarize_tree(tree).digest)
    (tmp_path / "link").mkdir()
    (tmp_path / "link/a").symlink_to("x")
    (tmp_path / "directory/a").mkdir(parents=True)
    digests |= {summarize_tree(tmp_path / name).digest for name in ("link", "directory")}
    assert len(digests) == 6


def test_link_targets_count_to_the_letter(tmp_path: Path) -> None:
    digests = set()
    for number, target in enumerate(["a/b", "a//b", "./a/b", "a/b/"]):
        tree = tmp_path / f"{number}"
        tree.mkdir()
        os.symlink(target, tree / "l")  # noqa: PTH211 - pathlib would tidy the text up
        digests.add(summarize_tree(tree).digest)
    assert len(digests) == 4


@given(st.dictionaries(st.sampled_from(["a", "b", "ab", "a-b"]), st.binary(max_size=8), max_size=4))
def test_digest_does_not_depend_on_order_or_place(files: dict[str, bytes]) -> None:
    import tempfile

    digests = set()
    for order in (sorted(files), sorted(files, reverse=True)):
        with tempfile.TemporaryDirectory() as name:
            for key in order:
                (Path(name) / key).mkdir()
                (Path(name) / key / "content").write_bytes(files[key])
            Path(name).chmod(0o755)
            digests.add(summarize_tree(Path(name)).digest)
    assert len(digests) == 1


def test_fingerprint_sees_a_change_that_restores_size_and_time(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("good")
    before, times = take_fingerprint(tmp_path), file.stat()
    file.write_text("evil")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert take_fingerprint(tmp_path) != before


def test_fifo_in_a_tree_is_named_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with raises_code("store-unexpected-entry"):
        summarize_tree(tmp_path)


def test_removal_follows_no_links(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("stays")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(tmp_path / "outside")
    (tree / "closed").mkdir(mode=0o000)
    remove_tree(tree)
    remove_tree(tree)
    assert not tree.exists()
    assert (tmp_path / "outside/file").read_text() == "stays"
