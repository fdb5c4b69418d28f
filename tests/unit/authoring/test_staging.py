from __future__ import annotations

import os
from pathlib import Path

import pytest

from repotrial.authoring._writing import stage_directory
from support.errors import raises_code


def _build_and_stop(target: Path) -> None:
    with stage_directory(target) as staging:
        (staging / "file").write_text("x")
        raise KeyboardInterrupt


def _build_too_late(target: Path) -> None:
    with stage_directory(target):
        target.mkdir()
        (target / "file").write_text("theirs")


def test_the_directory_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep/contract"
    with stage_directory(target) as staging:
        (staging / "file").write_text("x")
        assert not target.exists()
    assert [path.name for path in target.parent.iterdir()] == ["contract"]
    assert (target / "file").read_text() == "x"


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _build_and_stop(tmp_path / "contract")
    assert list(tmp_path.iterdir()) == []


def test_what_came_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "contract"
    with raises_code("contract-directory-taken"):
        _build_too_late(target)
    assert (target / "file").read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_in_the_way_of_the_parent_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        raises_code("contract-directory-unwritable", match="expected"),
        stage_directory(tmp_path / "file/contract"),
    ):
        pass


def test_permissions_follow_the_users_mask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        with stage_directory(tmp_path / "contract"):
            pass
    finally:
        os.umask(old)
    assert (tmp_path / "contract").stat().st_mode & 0o777 == 0o750
