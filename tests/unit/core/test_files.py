from __future__ import annotations

import os
from pathlib import Path

import pytest

from repotrial._core.digest import digest_bytes, digest_file
from repotrial._core.files import write_atomic


def test_new_bytes_replace_old_ones_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file"
    write_atomic(target, b"old")
    write_atomic(target, b"new", mode=0o600)
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(target.parent.iterdir()) == [target]


def test_a_write_that_fails_leaves_the_old_bytes_and_no_litter(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with pytest.raises(TypeError):
        write_atomic(target, "text where bytes belong")  # type: ignore[arg-type]
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"untouched")
    link = tmp_path / "link"
    link.symlink_to(victim)
    write_atomic(link, b"mine")
    assert victim.read_bytes() == b"untouched"
    assert not link.is_symlink()


def test_what_may_not_be_replaced_stays(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_atomic(target, b"first", may_replace=False)
    with pytest.raises(FileExistsError):
        write_atomic(target, b"second", may_replace=False)
    assert target.read_bytes() == b"first"
    assert target.stat().st_nlink == 1
    assert list(tmp_path.iterdir()) == [target]


def test_the_digest_of_a_file_is_the_digest_of_its_bytes(tmp_path: Path) -> None:
    data = os.urandom(300_000)
    (tmp_path / "f").write_bytes(data)
    assert digest_file(tmp_path / "f") == digest_bytes(data)
