"""History for authors: names, commits and patches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repotrial.contract import GitRepository
from repotrial.source import ChangeStatus, CommitChange, materialize_snapshot, resolve_commit
from support.errors import raises_code
from support.repositories import RepositoryMaker, build_patch, read_commit, run_git


@pytest.fixture
def maker(tmp_path: Path) -> RepositoryMaker:
    maker = RepositoryMaker(tmp_path / "repo")
    maker.commit({"a.txt": "one\n", "gone.txt": "x\n", "old name.txt": "y\n" * 20, "tests/test_a.py": "0\n"})
    return maker


def change(maker: RepositoryMaker) -> str:
    (maker.path / "gone.txt").unlink()
    (maker.path / "old name.txt").rename(maker.path / "new name.txt")
    (maker.path / "a.txt").chmod(0o755)
    (maker.path / "link").symlink_to("a.txt")
    files: dict[str | bytes, str | bytes] = {
        "a.txt": "two\n",
        "bin.dat": bytes(range(256)),
        b"\xff.txt": "odd\n",
        "tests/test_a.py": "1\n",
        ".gitattributes": "*.txt diff=evil -text binary\n",
    }
    return maker.commit(files, message="Fix the thing\n\nBecause: ünï.")


@pytest.mark.parametrize("kind", ["repository", "bundle"])
def test_names_resolve_to_full_hashes(tmp_path: Path, maker: RepositoryMaker, kind: str) -> None:
    first = maker.git("rev-parse", "HEAD").decode().strip()
    maker.git("tag", "-a", "v1", "-m", "x")
    maker.git("branch", "feature/one")
    second = change(maker)
    maker.git("pack-refs", "--all")
    maker.git("branch", "loose")
    source = "repo" if kind == "repository" else maker.bundle(tmp_path / "repo.bundle").name
    for revision, expected in {
        "HEAD": second,
        "main": second,
        "loose": second,
        "main~1": first,
        "v1": first,
        "feature/one": first,
        first[:10]: first,
        second: second,
    }.items():
        assert resolve_commit(source, revision, base=tmp_path) == expected


def test_absolute_paths_are_for_authors(tmp_path: Path, maker: RepositoryMaker) -> None:
    assert len(resolve_commit(str(maker.path), "main", base=tmp_path / "elsewhere")) == 40


@pytest.mark.parametrize("revision", ["", " ", "--all", "-x", "a..b", "main\nx"])
def test_what_names_no_single_commit_is_refused(
    tmp_path: Path, maker: RepositoryMaker, revision: str
) -> None:
    with raises_code("revision-refused"):
        resolve_commit(str(maker.path), revision, base=tmp_path)


@pytest.mark.parametrize("revision", ["absent", "HEAD:a.txt", "HEAD~99", "deadbeef", ":/nothing"])
def test_an_unknown_name_is_reported(tmp_path: Path, maker: RepositoryMaker, revision: str) -> None:
    with raises_code("commit-not-found"):
        resolve_commit(str(maker.path), revision, base=tmp_path)


def test_a_commit_tells_what_it_changed(tmp_path: Path, maker: RepositoryMaker) -> None:
    first = maker.git("rev-parse", "HEAD").decode().strip()
    info = read_commit("repo", change(maker), base=tmp_path)
    assert info.parents == (first,)
    assert info.message == "Fix the thing\n\nBecause: ünï.\n"
    assert {(file.path, file.status) for file in info.changes} == {
        (".gitattributes", ChangeStatus.ADDED),
        ("a.txt", ChangeStatus.MODIFIED),
        ("bin.dat", ChangeStatus.ADDED),
        ("gone.txt", ChangeStatus.DELETED),
        ("link", ChangeStatus.ADDED),
        ("new name.txt", ChangeStatus.ADDED),
        ("old name.txt", ChangeStatus.DELETED),
        ("tests/test_a.py", ChangeStatus.MODIFIED),
        (os.fsdecode(b"\xff.txt"), ChangeStatus.ADDED),
    }
    changed = next(file for file in info.changes if file.path == "a.txt")
    assert changed == CommitChange(
        path="a.txt", status=ChangeStatus.MODIFIED, old_mode="100644", new_mode="100755"
    )


def test_the_first_commit_adds_everything(tmp_path: Path, maker: RepositoryMaker) -> None:
    commit = maker.git("rev-parse", "HEAD").decode().strip()
    info = read_commit("repo", commit, base=tmp_path)
    assert info.parents == ()
    assert {file.status for file in info.changes} == {ChangeStatus.ADDED}
    assert len(info.changes) == 4


def test_a_merge_is_compared_with_its_first_parent(tmp_path: Path, maker: RepositoryMaker) -> None:
    maker.git("checkout", "-q", "-b", "side")
    maker.commit({"side.txt": "s\n"})
    maker.git("checkout", "-q", "main")
    maker.commit({"main.txt": "m\n"})
    maker.git("merge", "-q", "--no-ff", "-m", "Merge side", "side")
    info = read_commit("repo", resolve_commit("repo", "main", base=tmp_path), base=tmp_path)
    assert len(info.parents) == 2
    assert [file.path for file in info.changes] == ["side.txt"]


def test_a_commit_with_an_odd_author_and_encoding_is_read(tmp_path: Path, maker: RepositoryMaker) -> None:
    tree = maker.git("rev-parse", "HEAD^{tree}").decode().strip()
    for author in ("nobody", "A <a@b> never", "A <a@b> 999999999999999999 +0000"):
        body = f"tree {tree}\nauthor {author}\ncommitter {author}\nencoding no-such-code\n\nx\xff".encode(
            "latin-1"
        )
        commit = maker.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=body)
        info = read_commit("repo", commit.decode().strip(), base=tmp_path)
        assert info.message == "x\ufffd"


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_a_patch_applies_to_the_base_and_gives_the_head(tmp_path: Path, object_format: str) -> None:
    maker = RepositoryMaker(tmp_path / "repo", object_format=object_format)
    first = maker.commit(
        {"a.txt": "one\n", "gone.txt": "x\n", "old name.txt": "y\n", "tests/test_a.py": "0\n"}
    )
    second = change(maker)
    patch = build_patch("repo", first, second, base=tmp_path)
    assert b"GIT binary patch" in patch
    assert b"rename" not in patch
    out = tmp_path / "out"
    materialize_snapshot(GitRepository(source="repo", commit=first), base=tmp_path, into=out)
    (tmp_path / "change.patch").write_bytes(patch)
    run_git(out, "init", "-q", f"--object-format={object_format}", ".")
    run_git(out, "add", "--all")
    run_git(out, "apply", "--index", "--binary", str(tmp_path / "change.patch"))
    assert run_git(out, "write-tree") == maker.git("rev-parse", f"{second}^{{tree}}")


def test_a_patch_can_be_restricted(tmp_path: Path, maker: RepositoryMaker) -> None:
    first = maker.git("rev-parse", "HEAD").decode().strip()
    second = change(maker)
    tests = build_patch("repo", first, second, base=tmp_path, paths=["tests"])
    rest = build_patch("repo", first, second, base=tmp_path, excluded=["tests", os.fsdecode(b"\xff.txt")])
    assert tests.count(b"diff --git") == 1
    assert b"tests/test_a.py" in tests
    assert b"tests/" not in rest
    assert b"377.txt" not in rest
    assert rest.count(b"diff --git") == 7


def test_globs_in_paths_are_plain_characters(tmp_path: Path, maker: RepositoryMaker) -> None:
    first = maker.git("rev-parse", "HEAD").decode().strip()
    second = change(maker)
    assert build_patch("repo", first, second, base=tmp_path, paths=["*", ":(glob)**"]) == b""


def test_attributes_do_not_shape_the_patch(tmp_path: Path, maker: RepositoryMaker) -> None:
    first = maker.git("rev-parse", "HEAD").decode().strip()
    patch = build_patch("repo", first, change(maker), base=tmp_path, paths=["a.txt"])
    assert b"-one\n+two\n" in patch


def test_names_are_refused_where_hashes_are_needed(tmp_path: Path, maker: RepositoryMaker) -> None:
    with raises_code("commit-not-pinned"):
        read_commit(str(maker.path), "main", base=tmp_path)
    with raises_code("commit-not-pinned"):
        build_patch("repo", "1" * 40, "--output=x", base=tmp_path)


def test_commits_that_are_not_there_are_named(tmp_path: Path, maker: RepositoryMaker) -> None:
    first = maker.git("rev-parse", "HEAD").decode().strip()
    with raises_code("commit-not-found", match="1" * 40):
        read_commit("repo", "1" * 40, base=tmp_path)
    with raises_code("commit-not-found", match="2" * 40):
        build_patch("repo", first, "2" * 40, base=tmp_path)


def test_a_commit_whose_parent_is_missing_is_reported(tmp_path: Path, maker: RepositoryMaker) -> None:
    second = change(maker)
    run_git(tmp_path, "clone", "-q", "--depth=1", "--no-local", maker.path.as_uri(), "shallow")
    with raises_code("git-object-missing"):
        read_commit("shallow", second, base=tmp_path)
