"""Overlay and copy: the same edits, the same results; and a patch that rebuilds what was there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repotrial._core.remove_tree import remove_tree
from repotrial.source import apply_patch
from repotrial.trace import (
    BinaryContent,
    FileAdded,
    FileChange,
    FileDeleted,
    FileEntry,
    FileModified,
    ModeChanged,
    PatchContent,
    SpecialEntry,
    SymlinkEntry,
    TextBody,
    UnrecordedContent,
)
from repotrial.workspace import Base, CopyWorkspace, OverlayWorkspace, Workspace, build_change, copy_tree
from repotrial.workspace._change import IgnoreRules
from support.exhaustive import examples
from support.workspaces import (
    ListSink,
    edit,
    make_base,
    open_workspaces,
    read_tree,
    require_overlay,
    run_inside,
    scratch,
)

FILES: dict[str, str | bytes] = {
    "README.md": "one\ntwo\nthree\nfour\nfive\nsix\nseven\n",
    "src/a.py": "print(1)\n",
    "src/deep/b.py": "b\r\nc\r\n",
    "src/deep/data.bin": bytes(range(256)),
    "run.sh": "#!/bin/sh\necho hi\n",
    ".gitignore": "*.log\n/out/\n",
    "kept.log": "tracked\n",
    "empty": "",
}

PATHS = st.sampled_from(
    ["README.md", "src", "src/a.py", "src/deep", "src/deep/b.py", "src/deep/data.bin", "run.sh", "kept.log",
     "empty", "new", "new/x", "new/y.log", "out/z", "src/link", 'odd\n"\\\té', b"latin\xe9", ".gitignore"]
)  # fmt: skip
CONTENT = st.sampled_from([b"", b"x", b"x\n", b"one\ntwo\nTHREE\nfour\n", b"\0\1\2", b"*\n", b"a\r\nb"])
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, CONTENT),
        st.tuples(st.just("append"), PATHS, CONTENT),
        st.tuples(st.sampled_from(["remove", "touch", "mkdir", "fifo"]), PATHS, st.just(b"")),
        st.tuples(st.sampled_from(["move", "link"]), PATHS, PATHS),
        st.tuples(st.just("symlink"), PATHS, st.sampled_from([b"README.md", b"/etc/passwd", b"src/deep"])),
        st.tuples(st.just("chmod"), PATHS, st.sampled_from([0o644, 0o755, 0o600, 0o4711, 0o000])),
    ),
    max_size=8,
)


@pytest.fixture(scope="module")
def base() -> Iterator[Base]:
    with scratch() as place, make_base(place, FILES) as prepared:
        yield prepared


@pytest.fixture(params=[OverlayWorkspace, CopyWorkspace], ids=["overlay", "copy"])
def workspace(request: pytest.FixtureRequest, base: Base) -> Iterator[Workspace]:
    if request.param is OverlayWorkspace:
        require_overlay()
    with scratch() as place, request.param(base, place / "runs") as made:
        yield made


@settings(max_examples=examples(20, thorough=200))
@given(first=EDITS, second=EDITS)
def test_both_kinds_see_the_same_and_the_patch_rebuilds_it(base: Base, first: list, second: list) -> None:  # type: ignore[type-arg]
    with scratch() as place, open_workspaces(base, place) as kinds:
        overlay, copy = kinds
        results = []
        for workspace in kinds:
            marks = [workspace.snapshot()]
            for script in (first, second):
                edit(workspace, *script)
                marks.append(workspace.snapshot())
            sink = ListSink()
            deltas = [
                workspace.delta(marks[start], marks[end], sink=sink)
                for start, end in ((0, 1), (1, 2), (0, 2), (2, 1))
            ]
            results.append((deltas, sink.blobs, list(workspace.iter_changes()), build_change(workspace)))
        assert results[0] == results[1]
        _assert_rebuilds(base, copy, results[0][3].patch, place)
        assert not overlay.path.is_mount()


def _assert_rebuilds(base: Base, copy: CopyWorkspace, patch: bytes, place: Path) -> None:
    rebuilt = place / "rebuilt"
    copy_tree(base.path, rebuilt, owner=None)
    apply_patch(patch, tree=rebuilt)
    rules = IgnoreRules(base)
    before, after = read_tree(base.path), read_tree(copy.path)
    wanted = {
        name: blob if not rules.is_left_out(os.fsencode(name)) else before.get(name)
        for name, blob in after.items()
    }
    assert read_tree(rebuilt) == {name: blob for name, blob in wanted.items() if blob is not None}
    remove_tree(rebuilt)


def _delta(workspace: Workspace, *edits: tuple[str, str, str | bytes | int | None]) -> tuple[FileChange, ...]:
    before = workspace.snapshot()
    edit(workspace, *edits)
    return workspace.delta(before, workspace.snapshot(), sink=ListSink())


def test_nothing_changed_is_no_change(workspace: Workspace) -> None:
    assert _delta(workspace, ("touch", "README.md", None)) == ()
    assert list(workspace.iter_changes()) == []
    change = build_change(workspace)
    assert change.patch == b""
    assert change.paths == ()
    assert change.omissions == ()


def test_a_modified_text_has_digests_and_a_patch(workspace: Workspace) -> None:
    (change,) = _delta(workspace, ("write", "src/a.py", "print(2)\n"))
    assert isinstance(change, FileModified)
    assert isinstance(change.before, FileEntry)
    assert isinstance(change.after, FileEntry)
    assert change.before.digest != change.after.digest
    assert isinstance(change.content, PatchContent)
    assert isinstance(change.content.patch, TextBody)
    assert "-print(1)\n+print(2)\n" in change.content.patch.text


def test_a_patch_between_two_marks_starts_at_the_first(workspace: Workspace) -> None:
    _delta(workspace, ("write", "src/a.py", "print(2)\n"))
    (change,) = _delta(workspace, ("append", "src/a.py", "print(3)\n"))
    assert isinstance(change, FileModified)
    assert isinstance(change.content, PatchContent)
    assert isinstance(change.content.patch, TextBody)
    assert " print(2)\n+print(3)\n" in change.content.patch.text


def test_an_edit_that_keeps_the_size_is_seen_even_at_once(workspace: Workspace) -> None:
    for number in range(5):
        (change,) = _delta(workspace, ("write", "src/a.py", f"print({number + 2})\n"))
        assert isinstance(change, FileModified)


def test_a_binary_file_points_at_its_bytes(workspace: Workspace) -> None:
    before = workspace.snapshot()
    edit(workspace, ("write", "src/deep/data.bin", b"\0new"))
    sink = ListSink()
    (change,) = workspace.delta(before, workspace.snapshot(), sink=sink)
    assert isinstance(change, FileModified)
    assert isinstance(change.content, BinaryContent)
    assert sink.blobs[change.content.blob.digest] == b"\0new"


def test_permissions_links_and_removals_are_told_apart(workspace: Workspace) -> None:
    changes = {
        change.path: change
        for change in _delta(
            workspace,
            ("chmod", "run.sh", 0o4644),
            ("symlink", "link", "/etc/passwd"),
            ("remove", "src/deep", None),
            ("fifo", "pipe", None),
        )
    }
    mode = changes["run.sh"]
    assert isinstance(mode, ModeChanged)
    assert (mode.before_mode, mode.after_mode) == (0o755, 0o4644)
    link = changes["link"]
    assert isinstance(link, FileAdded)
    assert link.after == SymlinkEntry(target="/etc/passwd")
    assert isinstance(changes["src/deep/b.py"], FileDeleted)
    assert isinstance(changes["src/deep"], FileDeleted)
    pipe = changes["pipe"]
    assert isinstance(pipe, FileAdded)
    assert pipe.after == SpecialEntry(nature="fifo")
    assert isinstance(pipe.content, UnrecordedContent)


def test_going_back_to_the_base_is_a_change_of_the_trace_but_not_of_the_result(workspace: Workspace) -> None:
    _delta(workspace, ("remove", "README.md", None))
    (change,) = _delta(workspace, ("write", "README.md", FILES["README.md"]))
    assert isinstance(change, FileAdded)
    assert build_change(workspace).patch == b""


def test_a_directory_made_anew_hides_what_it_held(workspace: Workspace) -> None:
    edit(workspace, ("remove", "src", None), ("write", "src/a.py", "print(1)\n"))
    assert list(workspace.iter_changes()) == [b"src/deep", b"src/deep/b.py", b"src/deep/data.bin"]


def test_git_inside_finds_a_clean_tree_and_one_commit(workspace: Workspace) -> None:
    status = run_inside(workspace, ["/usr/bin/git", "status", "--porcelain"])
    assert (status.returncode, status.stdout) == (0, b""), status.stderr
    log = run_inside(workspace, ["/usr/bin/git", "log", "--all", "--format=%an %s"])
    assert log.stdout == b"Snapshot Snapshot\n"
    # The agent may commit; that is no change of the result.
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = run_inside(workspace, ["/usr/bin/git", *identity, "commit", "--allow-empty", "-qm", "x"])
    assert done.returncode == 0, done.stderr
    assert list(workspace.iter_changes()) == []


def test_closing_leaves_nothing(base: Base) -> None:
    with scratch() as place:
        for kind in (OverlayWorkspace, CopyWorkspace):
            kind(base, place / "runs").close()
        assert list((place / "runs").iterdir()) == []


def test_what_the_kernel_left_of_a_mount_goes_with_the_workspace(base: Base) -> None:
    with scratch() as place:
        workspace = OverlayWorkspace(base, place / "runs")
        assert run_inside(workspace, ["/bin/sh", "-c", "echo new > new.txt"]).returncode == 0
        assert (workspace.mount.work / "work").is_dir(), "where the kernel has its own things"
        (workspace.mount.work / "work" / "more").mkdir()
        workspace.close()
        assert list((place / "runs").iterdir()) == []


def test_a_change_states_facts(workspace: Workspace) -> None:
    edit(
        workspace,
        ("write", "README.md", "one\ntwo\n3\nfour\nfive\nsix\nseven\n"),
        ("write", "new.bin", b"\0" * 10),
        ("remove", "empty", None),
        ("append", "run.sh", "x\n"),
        ("chmod", "run.sh", 0o4755),
        ("write", "c.txt", "<<<<<<< a\n=======\n>>>>>>> b\n"),
        ("write", "ignored.log", "x"),
        ("fifo", "pipe", None),
    )
    change = build_change(workspace, generated=["*.tmp"])
    assert sorted(path.status for path in change.paths) == ["added"] * 2 + ["deleted"] + ["modified"] * 2
    assert (change.lines_added, change.lines_removed, change.binary_bytes) == (5, 1, 10)
    assert change.has_conflict_markers
    assert [path.path for path in change.paths if path.has_special_bits] == ["run.sh"]
    assert [(omission.path, omission.reason) for omission in change.omissions] == [("pipe", "special-file")]
