"""Patches are applied whole or not at all, and never beyond the tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial.source import apply_patch
from support.errors import raises_code
from support.repositories import write_files

PATCH = b"""\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,2 @@
 one\r
-two\r
+TWO\r
diff --git a/new b/new
new file mode 100755
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+x
"""


def test_bytes_are_kept_whatever_attributes_say(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": "one\r\ntwo\r\n", ".gitattributes": "* text eol=lf\n"})
    apply_patch(PATCH, tree=tmp_path)
    assert (tmp_path / "a.txt").read_bytes() == b"one\r\nTWO\r\n"
    assert (tmp_path / "new").stat().st_mode & 0o100


def test_an_empty_patch_changes_nothing(tmp_path: Path) -> None:
    apply_patch(b"", tree=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_patch_that_does_not_fit_leaves_the_tree_alone(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": "other\n"})
    with raises_code("patch-refused"):
        apply_patch(PATCH, tree=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("path", [b"../escape", b"link/escape", b".git/hooks/x", b"/tmp/escape"])
def test_a_patch_cannot_leave_the_tree(tmp_path: Path, path: bytes) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(tmp_path)
    patch = b"diff --git a/%s b/%s\nnew file mode 100644\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+x\n"
    with raises_code("patch-refused"):
        apply_patch(patch % (path, path, path), tree=tree)
    assert not (tmp_path / "escape").exists()
