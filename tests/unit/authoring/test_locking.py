from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from repotrial.authoring import lock_contract, verify_lock
from repotrial.authoring._locking import LockChange
from repotrial.contract import load_contract
from support.contracts import COMMIT, MINIMAL, write_contract
from support.errors import raises_code
from support.repositories import RepositoryMaker


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [(None, "b", "x: added (b)"), ("a", None, "x: removed (a)"), ("a", "b", "x: a -> b")],
)
def test_a_change_says_what_happened(old: str | None, new: str | None, expected: str) -> None:
    assert str(LockChange(field="x", old=old, new=new)) == expected


def write_locked(directory: Path) -> Path:
    start, end = MINIMAL.index("[repository]"), MINIMAL.index("[environment]")
    text = MINIMAL[:start] + '[repository]\nkind = "directory"\nsource = "repo"\n\n' + MINIMAL[end:]
    write_contract(directory, text, files={"repo/file": "x"})
    lock_contract(directory)
    return directory


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{}",
        b'<<<<<<< HEAD\n{"schema": "repotrial/lock@1"}\n=======\n',
        b'{"schema": "repotrial/lock@1"}',
    ],
)
def test_a_damaged_lock_is_written_anew(tmp_path: Path, damage: bytes) -> None:
    directory = write_locked(tmp_path)
    lock = (directory / "contract.lock.json").read_bytes()
    (directory / "contract.lock.json").write_bytes(damage)
    assert lock_contract(directory).is_written
    assert (directory / "contract.lock.json").read_bytes() == lock


def test_the_lock_of_a_newer_release_is_not_overwritten(tmp_path: Path) -> None:
    directory = write_locked(tmp_path)
    (directory / "contract.lock.json").write_text('{"schema": "repotrial/lock@2"}')
    with raises_code("contract-invalid", match="use the RepoTrial that wrote it"):
        lock_contract(directory)


def test_a_source_that_was_written_into_the_lock_is_found(tmp_path: Path) -> None:
    """The version id says nothing about sources, so only the comparison as a whole can."""
    commit = RepositoryMaker(tmp_path / "vendored").commit({"lib.py": "x = 1\n"})
    maker = RepositoryMaker(tmp_path / "app")
    maker.add_submodule("vendor", commit, url="../vendored")
    base = maker.commit_index("Vendor")
    directory = write_contract(tmp_path, MINIMAL.replace("repo.bundle", "app").replace(COMMIT, base))
    lock = lock_contract(directory).lock
    assert verify_lock(load_contract(directory)) == []
    elsewhere = [
        msgspec.structs.replace(module, source="https://elsewhere.example.org/v")
        for module in lock.repository.submodules
    ]
    pin = msgspec.structs.replace(lock.repository, submodules=tuple(elsewhere))
    (directory / "contract.lock.json").write_bytes(msgspec.structs.replace(lock, repository=pin).to_bytes())
    assert [problem.field for problem in verify_lock(load_contract(directory))] == ["repository.submodules"]
