"""Patches that want to be read otherwise than they are applied."""

from __future__ import annotations

import base64
import zlib

import pytest

from repotrial.change import PatchLimits, read_change
from support.errors import raises_code

_INDEX = b"index 1111111..2222222 100644\n"


def _modify(path: bytes, body: bytes = b"@@ -1 +1 @@\n-a\n+b\n") -> bytes:
    return b"diff --git a/%s b/%s\n%s--- a/%s\n+++ b/%s\n%s" % (path, path, _INDEX, path, path, body)


def _add(path: bytes, *lines: bytes, mode: bytes = b"100644") -> bytes:
    head = b"diff --git a/%s b/%s\nnew file mode %s\nindex 0000000..2222222\n" % (path, path, mode)
    body = b"".join(b"+%s\n" % line for line in lines)
    return head + b"--- /dev/null\n+++ b/%s\n@@ -0,0 +1,%d @@\n%s" % (path, len(lines), body)


def _binary(size: int, data: bytes) -> bytes:
    packed = zlib.compress(data)
    assert len(packed) <= 26
    line = bytes([ord("A") + len(packed) - 1]) + base64.b85encode(packed, pad=True)
    head = b"diff --git a/x b/x\nindex %s..%s 100644\nGIT binary patch\n" % (b"1" * 40, b"2" * 40)
    return head + b"literal %d\n%s\n\n" % (size, line)


_GOOD = _modify(b"x")

REFUSED = {
    "text before the first entry": b"Dear git,\n" + _GOOD,
    "text between entries": _GOOD + b"junk\n" + _modify(b"y"),
    "a mail's signature": _GOOD + b"-- \n2.39.5\n",
    "a patch without git's header": b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
    "no newline at the end": _GOOD[:-1],
    "a longer hunk than its header says": _modify(b"x", b"@@ -1 +1 @@\n-a\n+b\n+c\n"),
    "a shorter hunk than its header says": _modify(b"x", b"@@ -1 +1,2 @@\n-a\n+b\n") + _modify(b"y"),
    "a hunk that ends with the patch": _modify(b"x", b"@@ -1 +1,2 @@\n-a\n+b\n"),
    "a hunk that changes nothing": _modify(b"x", b"@@ -1 +1 @@\n a\n"),
    "hunks out of order": _modify(b"x", b"@@ -9 +9 @@\n-a\n+b\n@@ -1 +1 @@\n-a\n+b\n"),
    "line numbers that do not agree": _modify(b"x", b"@@ -1 +7 @@\n-a\n+b\n"),
    "an absurd line number": _modify(b"x", b"@@ -%s +1 @@\n-a\n+b\n" % (b"9" * 5000)),
    "a line after the last": _modify(b"x", b"@@ -1 +1,2 @@\n-a\n+b\n\\ No newline at end of file\n+c\n"),
    "another remark": _modify(b"x", b"@@ -1 +1 @@\n-a\n+b\n\\ diff --git a/y b/y\n"),
    "a header for another file": _GOOD.replace(b"+++ b/x", b"+++ b/tests/conftest.py"),
    "an old name for another file": _GOOD.replace(b"--- a/x", b"--- a/y"),
    "two names without a rename": _GOOD.replace(b"a/x b/x", b"a/x b/y"),
    "a rename that the header does not have": b"diff --git a/x b/y\nrename from x\nrename to tests/z\n",
    "half a rename": b"diff --git a/x b/y\nrename from x\n",
    "a copy of what nobody sees": b"diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n",
    "an unknown header line": _GOOD.replace(_INDEX, b"wish list\n" + _INDEX),
    "a header line twice": _GOOD.replace(_INDEX, _INDEX + _INDEX),
    "a new file that was deleted": _GOOD.replace(
        _INDEX, b"new file mode 100644\ndeleted file mode 100644\n" + _INDEX
    ),
    "a change without a mode": _GOOD.replace(b" 100644\n", b"\n"),
    "a mode that git does not know": _GOOD.replace(b" 100644\n", b" 104755\n"),
    "a file turned into a link in place": _GOOD.replace(_INDEX, b"old mode 100644\nnew mode 120000\n"),
    "two modes": _GOOD.replace(_INDEX, b"old mode 100644\nnew mode 100755\nindex 1111..2222 120000\n"),
    "an entry that says nothing": b"diff --git a/x b/x\n" + _INDEX,
    "a mode change to the same": b"diff --git a/x b/x\nold mode 100644\nnew mode 100644\n",
    "a new file with old lines": _add(b"x", b"a").replace(b"@@ -0,0 +1,1 @@\n", b"@@ -1 +1,2 @@\n a\n"),
    "binary content left out": b"diff --git a/x b/x\n" + _INDEX + b"Binary files a/x and b/x differ\n",
    "binary content of another size": _binary(3, b"four"),
    "binary content that unpacks to more": _binary(10, b"\0" * 1000),
    "damaged binary content": _binary(4, b"four").replace(b"literal 4\n", b"literal 4\nAzzzzz\n"),
    "a short binary line": _binary(4, b"four").replace(b"\n\n", b"\nZabcde\n\n"),
    "one path in two entries": _GOOD + _GOOD,
    "a path changed and deleted": _GOOD + b"diff --git a/x b/x\ndeleted file mode 100644\n",
    "the parent directory": _modify(b"../x"),
    "a parent on the way": _modify(b"a/../../x"),
    "an absolute path": _modify(b"/etc/passwd"),
    "git's own data": _modify(b".git/hooks/pre-commit"),
    "git's own data in capitals": _modify(b"sub/.GIT/config"),
    "git's own data on NTFS": _modify(b"git~1/config"),
    "git's own data on HFS+": _modify(".g\u200cit/config".encode()),
    "git's own data in octal": b'diff --git "a/.g\\151t/config" "b/.g\\151t/config"\nnew file mode 100644\n',
    "a zero byte": b'diff --git "a/x\\000y" "b/x\\000y"\nnew file mode 100644\n',
    "an escape that git does not write": b'diff --git "a/\\x2e" "b/\\x2e"\nnew file mode 100644\n',
    "an octal number beyond a byte": b'diff --git "a/\\777" "b/\\777"\nnew file mode 100644\n',
    "a control character without quotes": _modify(b"x\x1b[2J"),
    "a backslash without quotes": _modify(b"x\\156"),
    "a quoted name that differs": b'diff --git "a/x" "b/\\171"\nnew file mode 100644\n',
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_patch_that_could_be_misread_is_refused(name: str) -> None:
    with raises_code("patch-unreadable") as caught:
        read_change(REFUSED[name])
    assert "expected" in caught.value.message
    assert caught.value.message.isprintable()


def test_the_patch_that_the_others_are_made_of_is_fine() -> None:
    assert [file.path for file in read_change(_GOOD + _binary(4, b"four").replace(b"/x", b"/y")).files] == [
        "x",
        "y",
    ]


def test_an_octal_name_is_the_name_that_it_spells() -> None:
    patch = b'diff --git "a/c\\157nftest.py" "b/c\\157nftest.py"\nnew file mode 100644\n'
    assert [file.path for file in read_change(patch).files] == ["conftest.py"]


def test_a_header_inside_a_hunk_is_a_line_of_it() -> None:
    fake = [b"diff --git a/y b/y", b"--- a/y", b"+++ b/y", b"@@ -1 +1 @@", b"-a", b"+b"]
    view = read_change(_add(b"x", *fake))
    assert [file.path for file in view.files] == ["x"]
    assert [line.text.encode() for line in view.files[0].added_lines] == fake


def test_a_line_of_ten_megabytes_is_one_line() -> None:
    (file,) = read_change(_add(b"x", b"a" * 10_000_000)).files
    assert [len(line.text) for line in file.added_lines] == [10_000_000]


def test_too_many_files_are_refused_by_name() -> None:
    patch = b"".join(b"diff --git a/%d b/%d\nnew file mode 100644\n" % (n, n) for n in range(100_000))
    with raises_code("patch-unreadable", match="at most 50000 files"):
        read_change(patch)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (PatchLimits(patch_bytes=10), "at most 10 bytes"),
        (PatchLimits(lines=1), "at most 1 changed lines"),
        (PatchLimits(binary_bytes=3), "at most 3 bytes of binary"),
    ],
)
def test_sizes_are_bounded(limits: PatchLimits, message: str) -> None:
    with raises_code("patch-unreadable", match=message):
        read_change(_binary(4, b"four") + _modify(b"y"), limits=limits)
