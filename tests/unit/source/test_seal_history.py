"""Sealed history: one commit with the bytes as they are, and a proof that finds everything else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from repotrial.source import check_sealed_history, seal_history
from support.repositories import RepositoryMaker, run_git, write_files

ATTRIBUTES = (
    "* text=auto eol=crlf ident\n*.u working-tree-encoding=UTF-16\n*.f filter=evil\n[attr]m text\n* m\n"
)
FILES: dict[str | bytes, str | bytes] = {
    ".gitattributes": ATTRIBUTES,
    ".gitignore": "*\n",
    "crlf.txt": "a\r\nb\r\n",
    "lf.txt": "$Id$\n",
    "x.u": "not utf-16",
    "y.f": "unfiltered",
}


def _make(tree: Path, *, describe: str | None = None) -> str:
    write_files(tree, FILES)
    (tree / "link").symlink_to("nowhere")
    (tree / "lf.txt").chmod(0o755)
    return seal_history(tree, describe=describe).commit


def test_bytes_and_modes_are_committed_as_they_are(tmp_path: Path) -> None:
    _make(tmp_path)
    for name, content in FILES.items():
        assert run_git(tmp_path, "cat-file", "blob", f":{name!s}").decode() == content
    listing = run_git(tmp_path, "ls-tree", "-r", "HEAD").decode().splitlines()
    modes = {line.split("\t")[1]: line[:6] for line in listing}
    assert modes["link"] == "120000"
    assert modes["lf.txt"] == "100755"
    assert len(modes) == len(FILES) + 1


def test_the_tree_is_that_of_the_original_commit(tmp_path: Path) -> None:
    original = RepositoryMaker(tmp_path / "original")
    original.commit({"a/b.txt": "x\n", "c": "y"})
    write_files(tmp_path / "copy", {"a/b.txt": "x\n", "c": "y"})
    sealed = seal_history(tmp_path / "copy")
    assert sealed.tree == original.git("rev-parse", "HEAD^{tree}").decode().strip()


def test_the_id_does_not_depend_on_time_or_place(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert _make(tmp_path / "one") == _make(tmp_path / "two", describe="v2")


def test_a_sealed_history_has_no_problems(tmp_path: Path) -> None:
    commit = _make(tmp_path, describe="v1")
    assert check_sealed_history(tmp_path, future_commits=["0" * 40]) == []
    assert [problem.code for problem in check_sealed_history(tmp_path, future_commits=[commit])] == [
        "history-future"
    ]


def _commit_again(tree: Path) -> None:
    run_git(tree, "commit", "-q", "--allow-empty", "-m", "second")


def _add_dangling_object(tree: Path) -> None:
    run_git(tree, "hash-object", "-w", "--stdin", stdin=b"the solution")
    run_git(tree, "repack", "-a", "-d", "-q", "-n", "--keep-unreachable")


def _write(name: str, text: str) -> Callable[[Path], None]:
    def write(tree: Path) -> None:
        path = tree / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


BREAKS: dict[str, Callable[[Path], object]] = {
    "second-commit": _commit_again,
    "dangling-object": _add_dangling_object,
    "alternates": _write("objects/info/alternates", "/elsewhere/objects\n"),
    "hook": _write("hooks/post-checkout", "#!/bin/sh\n"),
    "reflog": _write("logs/HEAD", "x"),
    "packed-refs": _write("packed-refs", "# pack-refs\n"),
    "fetch-head": _write("FETCH_HEAD", ""),
    "shallow": _write("shallow", ""),
    "module": _write("modules/m/HEAD", "ref: x\n"),
    "detached": _write("HEAD", "0" * 40),
    "remote": _write("config", '[core]\n\tbare = false\n[remote "origin"]\n\turl = /x\n'),
    "program": _write("config", "[core]\n\tbare = false\n\tfsmonitor = evil\n"),
    "one-line": _write("config", "[core] fsmonitor = evil\n"),
    "link": lambda tree: (tree / ".git" / "description").symlink_to("/etc/passwd"),
    "second-branch": lambda tree: run_git(tree, "branch", "other"),
    "loose-object": lambda tree: run_git(tree, "hash-object", "-w", "--stdin", stdin=b"x"),
}


@pytest.mark.parametrize("break_seal", BREAKS.values(), ids=BREAKS)
def test_every_other_way_to_a_commit_is_found(tmp_path: Path, break_seal: Callable[[Path], object]) -> None:
    _make(tmp_path)
    break_seal(tmp_path)
    assert check_sealed_history(tmp_path) != []


def test_a_link_in_the_place_of_the_history_is_no_history(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".git").symlink_to(tmp_path)
    assert [problem.code for problem in check_sealed_history(tmp_path / "tree")] == ["history-missing"]
    (tmp_path / "tree" / ".git").unlink()
    assert check_sealed_history(tmp_path / "tree") != []
