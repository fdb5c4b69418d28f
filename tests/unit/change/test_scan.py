"""Patches of any tool: which files they name, and which lines."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from repotrial._core.escaping import unescape_text
from repotrial.change import PatchedFile, read_change, scan_headers, scan_patch
from support.errors import raises_code
from support.git_patches import Entry, Tree, commit_trees, execute_git, make_patch

_BEFORE: Tree = {
    b"plain.py": Entry(b"a\nb\nc\n"),
    b"with space.py": Entry(b"--- a/fake\n+++ b/fake\n@@ -1 +1 @@\nrename from fake\n"),
    b'caf\xc3\xa9 "x".txt': Entry(b"no newline"),
    b"gone": Entry(b"diff --git a/fake b/fake\n"),
    b"old name": Entry(b"the same\n" * 9),
    b"image": Entry(bytes(range(256))),
    b"script": Entry(b"#!/bin/sh\n"),
}
_AFTER: Tree = {
    b"plain.py": Entry(b"a\nB\nc\n"),
    b"with space.py": Entry(b"-- a/fake\n++ b/fake\nrename to fake\n"),
    b'caf\xc3\xa9 "x".txt': Entry(b"no newline either"),
    b"n\xc3\xa9w name": Entry(b"the same\n" * 9),
    b"image": Entry(bytes(range(255, -1, -1))),
    b"script": Entry(b"#!/bin/sh\n", is_executable=True),
    b"added": Entry(b"one\n\ntwo\n"),
}


@pytest.mark.parametrize("options", [(), ("-M",), ("-U0",), ("--text",)], ids=str)
def test_what_git_writes_is_read_as_the_strict_reader_reads_it(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    commit_trees(tmp_path, _BEFORE, _AFTER)
    exact = read_change(make_patch(tmp_path, *options))
    found = scan_patch(make_patch(tmp_path, *options))
    assert {path for file in found for path in file.paths} == {
        unescape_text(path).decode() for file in exact.files for path in file.touched_paths
    }
    assert sorted(line for file in found for line in file.added) == sorted(
        line.text for file in exact.files for line in file.added_lines
    )
    assert sorted(line for file in found for line in file.removed) == sorted(
        line for file in exact.files for line in file.removed_lines
    )


def test_a_mail_with_a_patch_is_read(tmp_path: Path) -> None:
    commit_trees(tmp_path, _BEFORE, _AFTER)
    execute_git(tmp_path, "commit", "-qm", "subject\n\n--- not a header")
    mail = execute_git(tmp_path, "format-patch", "-1", "--stdout")
    assert "plain.py" in {path for file in scan_patch(mail) for path in file.paths}


def test_what_diff_writes_is_read(tmp_path: Path) -> None:
    if shutil.which("diff") is None:
        pytest.skip("this machine has no diff")
    for side, text in (("a", "one\ntwo\n"), ("b", "one\nTWO\n")):
        (tmp_path / side / "dir").mkdir(parents=True)
        (tmp_path / side / "dir" / "x y.txt").write_text(text)
        (tmp_path / side / "image").write_bytes(b"\0" + side.encode())
    patch = subprocess.run(["diff", "-ru", "a", "b"], cwd=tmp_path, capture_output=True, check=False).stdout
    words, image = scan_patch(patch)
    assert (words.paths, words.added, words.removed, words.context) == (
        ("dir/x y.txt",),
        ("TWO",),
        ("two",),
        ("one",),
    )
    assert image == PatchedFile(old_name="a/image", new_name="b/image")


def test_line_ends_of_windows_belong_to_no_name_and_no_line() -> None:
    (file,) = scan_patch(b"--- a/x\r\n+++ b/x\r\n@@ -1,2 +1,2 @@\r\n-a\r\n+b\r\n\r\n")
    assert file == PatchedFile(old_name="a/x", new_name="b/x", added=("b",), removed=("a",), context=("",))


def test_prefixes_stay_unless_every_name_has_its_own() -> None:
    assert scan_patch(b"--- a/x\n+++ a/x\n@@ -1 +1 @@\n-a\n+b\n")[0].paths == ("a/x",)
    assert scan_patch(b"diff --git x y z x y z\nold mode 100644\nnew mode 100755\n")[0].paths == ("x y z",)


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (b"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n", "the rest of a hunk"),
        (b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n-a\n+b\n", "as many lines"),
        (b"@@ -1 +1 @@\n-a\n+b\n", "before a hunk"),
        (b"+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "before '"),
        (b"diff --git a/x b/x\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "the name that 'diff --git' has"),
    ],
    ids=["shorter", "longer", "no file", "one side", "two names"],
)
def test_a_patch_that_contradicts_itself_is_refused(patch: bytes, message: str) -> None:
    with raises_code("patch-unreadable", match=message):
        scan_patch(patch)


def test_headers_alone_name_files_where_the_rest_is_broken() -> None:
    patch = b"diff --git a/x b/y\n@@ -1,9 +1,9 @@\n+diff --git a/fake b/fake\ndiff --git a/p b/p\n"
    assert [file.paths for file in scan_headers(patch)] == [("x", "y"), ("p",)]


def test_text_that_is_no_patch_names_nothing() -> None:
    assert scan_patch(b"--- a heading\nand words\n") == scan_patch(b"") == ()
