"""Patches of single files, read by the real git."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repotrial.change import Blob, BlobMode, build_file_patch
from repotrial.change._write import TEXT_BYTES, quote_path
from support.exhaustive import examples
from support.repositories import run_git
from support.workspaces import read_tree, scratch

REGULAR, EXECUTABLE, SYMLINK = BlobMode

NAMES = [
    b"plain.txt",
    b"with space.txt",
    b" leading and trailing ",
    b"tab\there",
    b"new\nline",
    b'quote"d',
    b"back\\slash",
    b"caf\xc3\xa9",
    b"latin\xe9",
    b"\x7f\x01",
    b"x b/x",
    b"-dash",
    b"a/b/c",
    b"/dev/null"[1:],
    b"colon:comma,",
]


def _place(root: Path, path: bytes, blob: Blob | None) -> None:
    target = root / os.fsdecode(path)
    if blob is None:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if blob.mode is SYMLINK:
        target.symlink_to(os.fsdecode(blob.data))
    else:
        target.write_bytes(blob.data)
        target.chmod(0o755 if blob.mode is EXECUTABLE else 0o644)


def _assert_applies(path: bytes, old: Blob | None, new: Blob | None) -> None:
    with scratch() as place:
        before, after = place / "before", place / "after"
        for root, blob in ((before, old), (after, new)):
            root.mkdir()
            _place(root, path, blob)
        run_git(before, "init", "-q")
        patch = build_file_patch(path, old, new).patch
        if patch and old != new:
            run_git(before, "apply", "--whitespace=nowarn", "-", stdin=patch)
        assert read_tree(before) == read_tree(after)
        if patch and old != new:
            run_git(before, "apply", "--whitespace=nowarn", "-R", "-", stdin=patch)


BLOBS = st.one_of(
    st.none(),
    st.builds(
        lambda mode, data: Blob(mode=mode, data=data),
        st.sampled_from([REGULAR, EXECUTABLE]),
        st.one_of(
            st.binary(max_size=200),
            st.lists(st.sampled_from([b"a", b"b\r", b"c", b"", b"\xff\xfe", b"-", b"+ x"]), max_size=12).map(
                b"\n".join
            ),
        ),
    ),
    st.builds(lambda data: Blob(mode=SYMLINK, data=data), st.sampled_from([b"a", b"../b", b"/c d", b"\xe9"])),
)


@settings(max_examples=examples(30, thorough=300))
@given(path=st.sampled_from(NAMES), old=BLOBS, new=BLOBS)
def test_git_applies_every_change_of_a_file(path: bytes, old: Blob | None, new: Blob | None) -> None:
    _assert_applies(path, old, new)


@pytest.mark.parametrize("path", NAMES, ids=repr)
def test_odd_names_are_understood(path: bytes) -> None:
    _assert_applies(path, None, Blob(mode=REGULAR, data=b"x\n"))
    _assert_applies(path, None, Blob(mode=REGULAR, data=b""))
    _assert_applies(path, Blob(mode=REGULAR, data=b"\0"), Blob(mode=REGULAR, data=b"\0\1"))
    _assert_applies(path, Blob(mode=REGULAR, data=b"x"), Blob(mode=EXECUTABLE, data=b"x"))


def test_names_are_quoted_as_git_quotes_them(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q")
    for name in NAMES:
        _place(tmp_path, name, Blob(mode=REGULAR, data=b"x"))
    run_git(tmp_path, "add", "-A")
    printed = run_git(tmp_path, "diff", "--cached", "--name-only").splitlines()
    assert set(printed) == {quote_path(name, b"") for name in NAMES}


def test_long_texts_are_written_in_the_binary_form() -> None:
    long = b"line\n" * (TEXT_BYTES // 5 + 1)
    patch = build_file_patch(b"x", None, Blob(mode=REGULAR, data=long))
    assert b"GIT binary patch" in patch.patch
    assert patch.binary_bytes == len(long)
    _assert_applies(b"x", Blob(mode=REGULAR, data=long), Blob(mode=REGULAR, data=long + b"more"))


def test_lines_are_counted() -> None:
    patch = build_file_patch(
        b"x", Blob(mode=REGULAR, data=b"a\nb\nc\n"), Blob(mode=REGULAR, data=b"a\nB\nc\nd\n")
    )
    assert (patch.lines_added, patch.lines_removed) == (2, 1)
    assert not patch.has_conflict_markers


def test_marks_of_an_unfinished_merge_are_seen_among_the_new_lines() -> None:
    marked = b"<<<<<<< HEAD\na\n=======\nb\n>>>>>>> theirs\n"
    assert build_file_patch(b"x", None, Blob(mode=REGULAR, data=marked)).has_conflict_markers
    kept = build_file_patch(b"x", Blob(mode=REGULAR, data=marked), Blob(mode=REGULAR, data=marked + b"c\n"))
    assert not kept.has_conflict_markers
