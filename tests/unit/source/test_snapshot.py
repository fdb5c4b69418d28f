"""Snapshots: exactly the committed files, from every kind of source."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from repotrial._core.digest import digest_file
from repotrial.contract import (
    ArchiveRepository,
    DirectoryRepository,
    GitRepository,
    RepositoryPin,
    SubmodulePin,
)
from repotrial.source import SourceOptions, compute_tree_digest, materialize_snapshot, resolve_snapshot
from support.errors import raises_code
from support.repositories import RepositoryMaker, make_tar, run_git, write_files

FILES: dict[str | bytes, str | bytes] = {
    "README": "hello\n",
    "src/main.py": "print()\n",
    "run.sh": "#!/bin/sh\n",
    "crlf.txt": "a\r\nb\r\n",
}


@pytest.fixture
def maker(tmp_path: Path) -> RepositoryMaker:
    maker = RepositoryMaker(tmp_path / "repo")
    write_files(maker.path, FILES)
    (maker.path / "run.sh").chmod(0o755)
    (maker.path / "latest").symlink_to("src")
    return maker


@pytest.fixture
def options(tmp_path: Path) -> Iterator[SourceOptions]:
    """Temporary clones go to a place of their own, which must be empty again afterwards."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    yield SourceOptions(scratch=scratch)
    assert list(scratch.iterdir()) == []


def check_files(root: Path) -> None:
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*")) == [
        "README",
        "crlf.txt",
        "latest",
        "run.sh",
        "src",
        "src/main.py",
    ]
    assert (root / "crlf.txt").read_bytes() == b"a\r\nb\r\n"
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "README").stat().st_mode) == 0o644
    assert stat.S_IMODE((root / "src").stat().st_mode) == 0o755
    assert (root / "latest").readlink() == Path("src")


@pytest.mark.parametrize("umask", [0o000, 0o027, 0o077])
def test_modes_are_restored_whatever_the_umask(
    tmp_path: Path, maker: RepositoryMaker, options: SourceOptions, umask: int
) -> None:
    repository = GitRepository(source="repo", commit=maker.commit())
    before = os.umask(umask)
    try:
        materialize_snapshot(repository, base=tmp_path, into=tmp_path / "out", options=options)
    finally:
        os.umask(before)
    check_files(tmp_path / "out")


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize("kind", ["worktree", "bare", "bundle", "packed", "file-url"])
def test_every_kind_of_git_source_gives_the_same_snapshot(
    tmp_path: Path, options: SourceOptions, object_format: str, kind: str
) -> None:
    maker = RepositoryMaker(tmp_path / "work", object_format=object_format)
    write_files(maker.path, FILES)
    (maker.path / "run.sh").chmod(0o755)
    (maker.path / "latest").symlink_to("src")
    commit = maker.commit()
    maker.commit({"future": "the fix"})
    source = "work"
    if kind == "bare":
        run_git(tmp_path, "clone", "-q", "--bare", "--no-local", "work", "bare.git")
        source = "bare.git"
    elif kind == "bundle":
        source = maker.bundle(tmp_path / "repo.bundle").name
    elif kind == "packed":
        maker.git("gc", "-q")
    elif kind == "file-url":
        source = maker.path.as_uri()
    repository = GitRepository(source=source, commit=commit, protocols=("file",))
    snapshot = materialize_snapshot(repository, base=tmp_path, into=tmp_path / "out", options=options)
    check_files(tmp_path / "out")
    assert (snapshot.commit, snapshot.submodules, snapshot.file_count) == (commit, (), 5)
    assert snapshot.tree_digest == compute_tree_digest(tmp_path / "out")
    assert snapshot == resolve_snapshot(repository, base=tmp_path, options=options)


def test_attributes_have_no_effect(tmp_path: Path, maker: RepositoryMaker) -> None:
    commit = maker.commit(
        {
            ".gitattributes": "* text eol=crlf\nid export-subst ident\nhidden export-ignore\n* filter=lfs\n",
            "id": "$Format:%H$ $Id$\n",
            "hidden": "still here\n",
        }
    )
    materialize_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path, into=tmp_path / "out")
    for name in ("id", "hidden", "README"):
        assert (tmp_path / "out" / name).read_bytes() == maker.git("cat-file", "blob", f"{commit}:{name}")


def test_an_empty_commit_is_an_empty_snapshot(tmp_path: Path) -> None:
    commit = RepositoryMaker(tmp_path / "repo").commit()
    snapshot = materialize_snapshot(
        GitRepository(source="repo", commit=commit), base=tmp_path, into=tmp_path / "out"
    )
    assert snapshot.file_count == 0
    assert list((tmp_path / "out").iterdir()) == []


def test_old_permission_bits_are_read_as_git_reads_them(tmp_path: Path) -> None:
    maker = RepositoryMaker(tmp_path / "repo")
    blob = maker.blob(b"x")
    commit = maker.commit_tree([("100664", "a", blob), ("100775", "b", blob)])
    materialize_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path, into=tmp_path / "out")
    assert [stat.S_IMODE((tmp_path / "out" / name).stat().st_mode) for name in "ab"] == [0o644, 0o755]


@pytest.mark.parametrize(
    "commit", ["main", "HEAD", "v1", "abcdef1", "A" * 40, "--help", "0" * 39, "0" * 40 + "\n"]
)
def test_only_full_hashes_pin_a_commit(tmp_path: Path, maker: RepositoryMaker, commit: str) -> None:
    maker.commit()
    with raises_code("commit-not-pinned"):
        resolve_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path)


def test_a_missing_commit_names_what_is_there(
    tmp_path: Path, maker: RepositoryMaker, options: SourceOptions
) -> None:
    commit = maker.commit()
    with raises_code("commit-not-found", match=commit) as caught:
        resolve_snapshot(GitRepository(source="repo", commit="1" * 40), base=tmp_path, options=options)
    assert "1" * 40 in caught.value.message


def test_a_hash_of_another_format_is_refused(
    tmp_path: Path, maker: RepositoryMaker, options: SourceOptions
) -> None:
    maker.commit()
    with raises_code("object-format-mismatch", match="sha1"):
        resolve_snapshot(GitRepository(source="repo", commit="1" * 64), base=tmp_path, options=options)


@pytest.mark.parametrize("kind", ["tree", "blob", "tag"])
def test_a_hash_of_another_object_is_refused(tmp_path: Path, maker: RepositoryMaker, kind: str) -> None:
    maker.commit()
    maker.git("tag", "-a", "v1", "-m", "x")
    name = {"tree": "HEAD^{tree}", "blob": "HEAD:README", "tag": "v1"}[kind]
    commit = maker.git("rev-parse", name).decode().strip()
    with raises_code("git-object-corrupt", match=kind):
        resolve_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path)


def test_what_is_no_repository_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    for source in ("empty", "file", "absent"):
        with raises_code("not-a-repository", match=source):
            resolve_snapshot(GitRepository(source=source, commit="1" * 40), base=tmp_path)


def test_a_damaged_bundle_is_named(tmp_path: Path, maker: RepositoryMaker, options: SourceOptions) -> None:
    commit = maker.commit()
    bundle = maker.bundle(tmp_path / "repo.bundle")
    bundle.write_bytes(bundle.read_bytes()[:-30])
    with raises_code("bundle-unreadable"):
        resolve_snapshot(GitRepository(source="repo.bundle", commit=commit), base=tmp_path, options=options)


def test_a_bundle_that_builds_on_others_is_refused(tmp_path: Path, maker: RepositoryMaker) -> None:
    maker.commit()
    commit = maker.commit({"more": "x"})
    maker.bundle(tmp_path / "repo.bundle", "main~1..main")
    with raises_code("bundle-unreadable", match="prerequisite"):
        resolve_snapshot(GitRepository(source="repo.bundle", commit=commit), base=tmp_path)


def test_a_partial_clone_is_refused(tmp_path: Path, maker: RepositoryMaker) -> None:
    commit = maker.commit()
    blob = maker.git("rev-parse", "HEAD:README").decode().strip()
    (maker.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with raises_code("git-object-missing", match=blob):
        resolve_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path)


def test_the_target_must_be_empty(tmp_path: Path, maker: RepositoryMaker) -> None:
    repository = GitRepository(source="repo", commit=maker.commit())
    write_files(tmp_path, {"out/a": "1"})
    (tmp_path / "link").symlink_to("elsewhere")
    for name in ("out", "out/a", "link"):
        with raises_code("target-not-empty"):
            materialize_snapshot(repository, base=tmp_path, into=tmp_path / name)


def test_a_failure_leaves_nothing_behind(
    tmp_path: Path, maker: RepositoryMaker, options: SourceOptions
) -> None:
    commit = maker.commit()
    blob = maker.git("rev-parse", "HEAD:src/main.py").decode().strip()
    (maker.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    (tmp_path / "present").mkdir()
    for name in ("absent", "present"):
        with raises_code("git-object-missing"):
            materialize_snapshot(
                GitRepository(source="repo", commit=commit),
                base=tmp_path,
                into=tmp_path / name,
                options=options,
            )
    assert not (tmp_path / "absent").exists()
    assert list((tmp_path / "present").iterdir()) == []


def test_an_unusable_target_is_reported(tmp_path: Path, maker: RepositoryMaker) -> None:
    repository = GitRepository(source="repo", commit=maker.commit())
    (tmp_path / "file").write_text("x")
    with raises_code("snapshot-write-failed", match="out"):
        materialize_snapshot(repository, base=tmp_path, into=tmp_path / "file/out")


def test_an_unusable_scratch_directory_is_reported(tmp_path: Path, maker: RepositoryMaker) -> None:
    repository = GitRepository(source="repo", commit=maker.commit())
    with raises_code("scratch-unavailable"):
        resolve_snapshot(repository, base=tmp_path, options=SourceOptions(scratch=tmp_path / "absent"))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ("[extensions]\n\tobjectFormat = md5\n", "object-format-mismatch"),
        ("[extensions]\n\trefStorage = reftable\n", "repository-refused"),
        ("[extensions]\n\tobjectFormat = sha256\n", "object-format-mismatch"),
    ],
)
def test_storage_that_is_not_understood_is_named(
    tmp_path: Path, maker: RepositoryMaker, settings: str, error: str
) -> None:
    commit = maker.commit()
    (maker.path / ".git/config").write_text("[core]\n\trepositoryFormatVersion = 1\n" + settings)
    with raises_code(error):
        resolve_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path)


def test_a_repository_without_configuration_is_read(tmp_path: Path, maker: RepositoryMaker) -> None:
    commit = maker.commit()
    (maker.path / ".git/config").unlink()
    assert resolve_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path).file_count == 5


# -- submodules ------------------------------------------------------------------------------------------


def make_family(tmp_path: Path) -> tuple[RepositoryMaker, str, str, str]:
    inner = RepositoryMaker(tmp_path / "inner").commit({"deep.txt": "deep\n"})
    lib = RepositoryMaker(tmp_path / "lib")
    lib.commit({"lib.txt": "lib\n"})
    lib.add_submodule("vendor/inner", inner, url="../inner")
    middle = lib.commit_index()
    app = RepositoryMaker(tmp_path / "app")
    app.commit({"app.txt": "app\n"})
    app.add_submodule("libs/lib", middle, url="../lib")
    return app, app.commit_index(), middle, inner


def test_submodules_are_placed_with_their_submodules(tmp_path: Path, options: SourceOptions) -> None:
    _, commit, middle, inner = make_family(tmp_path)
    repository = GitRepository(source="app", commit=commit)
    snapshot = materialize_snapshot(repository, base=tmp_path, into=tmp_path / "out", options=options)
    assert snapshot.submodules == (
        SubmodulePin(path="libs/lib", commit=middle),
        SubmodulePin(path="libs/lib/vendor/inner", commit=inner),
    )
    assert (tmp_path / "out/libs/lib/vendor/inner/deep.txt").read_text() == "deep\n"
    assert snapshot.tree_digest == compute_tree_digest(tmp_path / "out")
    pinned = msgspec.structs.replace(repository, submodules=snapshot.submodules)
    assert resolve_snapshot(pinned, base=tmp_path, options=options) == snapshot


def test_a_submodule_can_come_from_a_bundle(tmp_path: Path) -> None:
    inner = RepositoryMaker(tmp_path / "elsewhere/inner")
    pinned = inner.commit({"deep.txt": "deep\n"})
    inner.bundle(tmp_path / "inner.bundle")
    app = RepositoryMaker(tmp_path / "app")
    app.add_submodule("inner", pinned, url="https://example.invalid/inner")
    commit = app.commit_index()
    app.bundle(tmp_path / "app.bundle")
    repository = GitRepository(
        source="app.bundle",
        commit=commit,
        submodules=(SubmodulePin(path="inner", commit=pinned, source="inner.bundle"),),
    )
    snapshot = materialize_snapshot(repository, base=tmp_path, into=tmp_path / "out")
    assert (tmp_path / "out/inner/deep.txt").exists()
    assert snapshot.file_count == 2


def test_a_pin_for_another_commit_is_refused(tmp_path: Path) -> None:
    _, commit, middle, _ = make_family(tmp_path)
    for pin in (
        SubmodulePin(path="libs/lib", commit="1" * 40),
        SubmodulePin(path="libs/other", commit=middle),
    ):
        with raises_code("submodule-unresolved", match=pin.path):
            resolve_snapshot(GitRepository(source="app", commit=commit, submodules=(pin,)), base=tmp_path)


def test_an_unresolved_submodule_is_named(tmp_path: Path, options: SourceOptions) -> None:
    app = RepositoryMaker(tmp_path / "app")
    app.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},stray")
    without_url = app.commit_index()
    app.add_submodule("gone", "2" * 40, url="../gone")
    with raises_code("submodule-unresolved", match="stray"):
        resolve_snapshot(GitRepository(source="app", commit=without_url), base=tmp_path, options=options)
    app.git("rm", "-q", "--cached", "stray")
    without_source = app.commit_index()
    with raises_code("submodule-unresolved", match="gone"):
        resolve_snapshot(GitRepository(source="app", commit=without_source), base=tmp_path, options=options)


# -- archives and directories ----------------------------------------------------------------------------


def test_a_directory_is_identified_by_its_tree(tmp_path: Path) -> None:
    write_files(tmp_path / "files", {"a": "1", "b/c": "2"})
    snapshot = materialize_snapshot(DirectoryRepository(source="files"), base=tmp_path, into=tmp_path / "out")
    assert snapshot.pin == RepositoryPin(tree_digest=compute_tree_digest(tmp_path / "out"))
    assert (snapshot.file_count, snapshot.total_bytes) == (2, 2)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with raises_code("source-missing", match="absent"):
        resolve_snapshot(DirectoryRepository(source="absent"), base=tmp_path)


def test_an_archive_of_a_commit_has_the_commits_tree(tmp_path: Path, maker: RepositoryMaker) -> None:
    commit = maker.commit()
    expected = resolve_snapshot(GitRepository(source="repo", commit=commit), base=tmp_path)
    for name in ("a.tar", "a.tar.gz", "a.zip"):
        maker.git("archive", "--prefix=repo-1.0/", f"--output={tmp_path / name}", commit)
        repository = ArchiveRepository(source=name, strip_components=1)
        snapshot = materialize_snapshot(repository, base=tmp_path, into=tmp_path / name.replace(".", "-"))
        assert snapshot.tree_digest == expected.tree_digest
        assert snapshot.archive_digest == digest_file(tmp_path / name)
        check_files(tmp_path / name.replace(".", "-"))


def test_an_archive_must_be_the_pinned_one(tmp_path: Path) -> None:
    make_tar(tmp_path / "a.tar", [(tarfile.TarInfo("a"), b"1")])
    digest = digest_file(tmp_path / "a.tar")
    resolve_snapshot(ArchiveRepository(source="a.tar", digest=digest), base=tmp_path)
    with raises_code("archive-digest-mismatch", match=digest):
        resolve_snapshot(ArchiveRepository(source="a.tar", digest="sha256:" + "0" * 64), base=tmp_path)


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    with raises_code("source-missing", match=r"absent\.tar"):
        resolve_snapshot(ArchiveRepository(source="absent.tar"), base=tmp_path)
