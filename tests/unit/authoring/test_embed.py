from __future__ import annotations

import os
import tarfile
from pathlib import Path

from repotrial.authoring._base import write_archive
from repotrial.contract import ArchiveRepository
from repotrial.source import compute_tree_digest, resolve_snapshot


def _fill(tree: Path, *, names: list[bytes]) -> None:
    for name in names:
        path = tree / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name)
    (tree / "run").write_text("#!/bin/sh\n")
    (tree / "run").chmod(0o755)
    (tree / "to-directory").symlink_to("deep")
    (tree / "dangling").symlink_to("/nowhere/at/all")


_NAMES = [
    b"a",
    b"deep/er/file",
    b"\xff\xfe",
    "日本".encode(),
    b"new\nline",
    b"deep/" + b"x" * 200 + b"/" + b"y" * 200,
]


def test_an_archive_reads_back_as_the_same_tree(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    _fill(tmp_path / "tree", names=_NAMES)
    write_archive(tmp_path / "tree", tmp_path / "repository.tar")
    snapshot = resolve_snapshot(ArchiveRepository(source="repository.tar"), base=tmp_path)
    assert snapshot.tree_digest == compute_tree_digest(tmp_path / "tree")


def test_order_times_and_owners_leave_no_trace(tmp_path: Path) -> None:
    archives = []
    for index, names in enumerate((_NAMES, _NAMES[::-1])):
        tree = tmp_path / str(index)
        tree.mkdir()
        _fill(tree, names=names)
        os.utime(tree / "a", (index, index))
        (tree / "a").chmod(0o600 if index else 0o664)
        write_archive(tree, tmp_path / f"{index}.tar")
        archives.append((tmp_path / f"{index}.tar").read_bytes())
    assert archives[0] == archives[1]
    with tarfile.open(tmp_path / "0.tar") as tar:
        assert {(member.mtime, member.uid, member.gid, member.uname) for member in tar} == {(0, 0, 0, "")}
