"""Reading patches: what git writes is understood, in all its forms."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repotrial._core.digest import digest_bytes
from repotrial._core.escaping import escape_bytes, unescape_text
from repotrial.change import AddedLine, Blob, BlobMode, ChangedFile, ChangeView, build_file_patch, read_change
from repotrial.contract import Policy
from repotrial.policy import split_change
from support.git_patches import Entry, Tree, commit_trees, execute_git, make_patch, read_tree, write_tree


def _read(tmp_path: Path, before: Tree, after: Tree, *options: str) -> ChangeView:
    commit_trees(tmp_path, before, after)
    return read_change(make_patch(tmp_path, *options))


def _only(view: ChangeView) -> ChangedFile:
    (file,) = view.files
    return file


def test_an_empty_patch_changes_nothing() -> None:
    view = read_change(b"")
    assert (view.files, view.file_count, view.line_count) == ((), 0, 0)
    assert view.digest == digest_bytes(b"")


def test_lines_have_the_numbers_that_they_have_afterwards(tmp_path: Path) -> None:
    before = b"".join(b"%d\n" % number for number in range(40))
    after = b"new\n" + before.replace(b"30\n", b"thirty\n")
    file = _only(_read(tmp_path, {b"a": Entry(before)}, {b"a": Entry(after)}))
    assert file.kind == "modified"
    assert file.added_lines == (AddedLine(1, "new"), AddedLine(32, "thirty"))
    assert file.removed_lines == ("30",)
    assert (file.mode, file.old_mode) == ("100644", "100644")


def test_no_newline_at_the_end_is_no_line(tmp_path: Path) -> None:
    file = _only(_read(tmp_path, {b"a": Entry(b"x\ny")}, {b"a": Entry(b"x\nz")}))
    assert file.added_lines == (AddedLine(2, "z"),)


def test_carriage_returns_belong_to_the_line(tmp_path: Path) -> None:
    file = _only(_read(tmp_path, {}, {b"a": Entry(b"x\r\ny\r\n")}))
    assert [line.text for line in file.added_lines] == ["x\r", "y\r"]


def test_empty_files_come_and_go(tmp_path: Path) -> None:
    view = _read(tmp_path, {b"old": Entry(b"")}, {b"new": Entry(b"")}, "--no-renames")
    assert [(file.path, file.kind) for file in view.files] == [("new", "added"), ("old", "deleted")]


def test_a_rename_has_both_names_and_counts_as_two_files(tmp_path: Path) -> None:
    view = _read(tmp_path, {b"a b": Entry(b"x\n" * 9)}, {b"c\td": Entry(b"x\n" * 9)}, "-M")
    file = _only(view)
    assert (file.kind, file.old_path, file.path, view.file_count) == ("renamed", "a b", "c\td", 2)


def test_a_mode_change_alone_is_seen(tmp_path: Path) -> None:
    file = _only(_read(tmp_path, {b"a": Entry(b"x")}, {b"a": Entry(b"x", is_executable=True)}))
    assert (file.kind, file.old_mode, file.mode) == ("mode-changed", "100644", "100755")


def test_a_file_that_becomes_a_link_is_deleted_and_added(tmp_path: Path) -> None:
    view = _read(tmp_path, {b"a": Entry(b"x\n")}, {b"a": Entry(b"b/c", is_link=True)})
    assert [(file.kind, file.is_symlink) for file in view.files] == [("deleted", False), ("added", True)]
    assert view.files[1].link_target == "b/c"
    assert view.file_count == 1


def test_a_submodule_is_seen_by_its_mode(tmp_path: Path) -> None:
    commit_trees(tmp_path, {}, {})
    execute_git(tmp_path, "update-index", "--add", "--cacheinfo", "160000," + "1" * 40 + ",vendor")
    file = _only(read_change(make_patch(tmp_path)))
    assert (file.kind, file.mode, file.added_count) == ("added", "160000", 1)


def test_binary_content_has_a_size_in_both_forms(tmp_path: Path) -> None:
    before = bytes(range(256)) * 100
    after = before + b"\0more"
    patch = _read(tmp_path, {b"a": Entry(before)}, {b"a": Entry(after), b"b": Entry(before[:700])})
    assert b"\ndelta " in make_patch(tmp_path)
    assert [(file.is_binary, file.binary_bytes) for file in patch.files] == [(True, len(after)), (True, 700)]


@pytest.mark.parametrize(
    "name", [b"a b ", b" ", b"\xff\xfe", "ä".encode(), b'q"\\\x01', b"x b/x", b"d/a b/d/a b"]
)
@pytest.mark.parametrize("quote", ["true", "false"])
def test_every_name_that_git_writes_is_read(tmp_path: Path, name: bytes, quote: str) -> None:
    commit_trees(tmp_path, {}, {name: Entry(b"x\n"), name + b"0": Entry(b"")})
    view = read_change(execute_git(tmp_path, "-c", f"core.quotePath={quote}", "diff", "--cached"))
    assert {unescape_text(file.path) for file in view.files} == {name, name + b"0"}


# -- against git -----------------------------------------------------------------------------------------

_NAMES = st.sampled_from(
    [b"a", b"b.py", b"d/a", b"d/e/f", "ä b".encode(), b"\xffz", b'q"t', b"tests/t.py", b"Tests/t.py"]
)
_LINES = st.lists(
    st.sampled_from([b"", b"x", b"y\r", b"diff --git a/a b/a", b"-- a/x", b"++ b/x", b"@@ -1 +1 @@"]),
    max_size=12,
)
_TEXTS = st.builds(lambda lines, end: b"\n".join(lines) + end, _LINES, st.sampled_from([b"", b"\n"]))
_ENTRIES = st.one_of(
    st.builds(Entry, _TEXTS, is_executable=st.booleans()),
    st.builds(Entry, st.binary(max_size=300).map(lambda data: b"\0" + data)),
    st.builds(Entry, st.sampled_from([b"a", b"../x", b"d"]), is_link=st.just(True)),
)
_TREES = st.dictionaries(_NAMES, _ENTRIES, max_size=6)
_OPTIONS = st.sampled_from(
    [("--no-renames",), ("--no-renames", "-U0"), ("-M",), ("--no-renames", "--full-index")]
)


def _numstat(directory: Path, *options: str) -> list[tuple[str, str, tuple[str, ...]]]:
    fields = execute_git(directory, "diff", "--cached", "--numstat", "-z", *options).split(b"\0")[:-1]
    found = []
    while fields:
        added, removed, path = fields.pop(0).split(b"\t", 2)
        paths = (path,) if path else (fields.pop(0), fields.pop(0))
        found.append((added.decode(), removed.decode(), tuple(escape_bytes(each) for each in paths)))
    return found


def _summarize(view: ChangeView) -> list[tuple[str, str, tuple[str, ...]]]:
    """As `--numstat` has it: one row for a path, also where a file became a link."""
    rows: dict[tuple[str, ...], list[ChangedFile]] = {}
    for file in view.files:
        rows.setdefault(file.touched_paths, []).append(file)
    return [
        ("-", "-", paths)
        if any(file.is_binary for file in files)
        else (str(sum(f.added_count for f in files)), str(sum(f.removed_count for f in files)), paths)
        for paths, files in rows.items()
    ]


@settings(max_examples=25)
@given(before=_TREES, after=_TREES, options=_OPTIONS)
def test_the_reader_agrees_with_git(before: Tree, after: Tree, options: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        commit_trees(directory, before, after)
        view = read_change(make_patch(directory, *options))
        options = tuple(option for option in options if option != "-U0")  # which asks for a patch
        # A rename of the same content does not say whether it is text.
        bare = {file.touched_paths for file in view.files if file.kind == "renamed" and file.mode is None}
        rows = [("0", "0", row[2]) if row[2] in bare else row for row in _numstat(directory, *options)]
        assert _summarize(view) == rows
        summary = execute_git(directory, "diff", "--cached", "--summary", *options).decode()
        for word, kind in ((" create mode", "added"), (" delete mode", "deleted"), (" rename ", "renamed")):
            alone = [
                f for f in view.files if f.kind == kind and sum(g.path == f.path for g in view.files) == 1
            ]
            assert summary.count("\n" + word) + summary.startswith(word) == len(alone)
        for file in view.files:
            if file.kind == "added" and not (file.is_binary or file.is_symlink):
                text = after[unescape_text(file.path)].data.decode("utf-8", "replace")
                assert "\n".join(line.text for line in file.added_lines) == text.removesuffix(
                    "\n"
                ) or not text.strip("\n")


@settings(max_examples=25)
@given(before=_TREES, after=_TREES, options=_OPTIONS)
def test_what_is_kept_applies_and_leaves_the_rest_alone(
    before: Tree, after: Tree, options: tuple[str, ...]
) -> None:
    policy = Policy(protected=("tests/**", "b.py"))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        commit_trees(directory, before, after)
        split = split_change(make_patch(directory, *options, "--full-index"), policy, ["d/e/f"])
        write_tree(directory, before)
        if split.kept:
            unidiff_zero = ["--unidiff-zero"] if "-U0" in options else []
            execute_git(directory, "apply", "--whitespace=nowarn", *unidiff_zero, "-", stdin=split.kept)
        kept_tree = read_tree(directory)
    stripped = {unescape_text(path) for path in split.stripped}
    for path in {*before, *after}:
        assert kept_tree.get(path) == (before if path in stripped else after).get(path)
    assert not any(
        path in {b"tests/t.py", b"Tests/t.py", b"b.py", b"d/e/f"} and before.get(path) != kept_tree.get(path)
        for path in {*before, *kept_tree}
    )


_BLOBS = st.none() | st.builds(
    Blob, mode=st.sampled_from(BlobMode), data=st.one_of(_TEXTS, st.binary(max_size=99))
)


@given(path=_NAMES, old=_BLOBS, new=_BLOBS)
def test_the_patches_of_our_own_workspaces_are_read(path: bytes, old: Blob | None, new: Blob | None) -> None:
    if old == new:
        return
    patch = build_file_patch(path, old, new)
    view = read_change(patch.patch)
    assert {unescape_text(file.path) for file in view.files} == {path}
    assert sum(file.added_count for file in view.files) == patch.lines_added
    assert sum(file.removed_count for file in view.files) == patch.lines_removed
    assert view.binary_bytes == patch.binary_bytes
    assert view.files[-1].mode == (None if new is None else new.mode.value)
    assert view.files[0].old_mode == (None if old is None else old.mode.value)
