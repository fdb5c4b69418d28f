"""Agents against the harness that reads their workspace: nothing is read outside, run, hidden or awaited."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial.trace import FileAdded, FileChange, FileModified, SpecialEntry, SymlinkEntry
from repotrial.workspace import Base, CopyWorkspace, OverlayWorkspace, ReadLimits, Workspace, build_change
from repotrial.workspace._change import Change, ChangeLimits
from repotrial.workspace._mark import NOTHING_SEEN
from support.overlay_mounts import build_overlay_argv
from support.workspaces import (
    OWNER,
    ListSink,
    edit,
    find_python,
    make_base,
    require_overlay,
    run_inside,
    scratch,
)

FILES = {
    "README.md": "read me\n",
    "src/a.py": "print(1)\n",
    "src/b.py": "print(2)\n",
    ".gitignore": "*.log\n",
}


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
        base.verify()


def _run_python(workspace: Workspace, code: str, *arguments: str) -> None:
    done = run_inside(workspace, [find_python(), "-I", "-S", "-c", code, *arguments])
    assert done.returncode == 0, done.stderr.decode(errors="replace")


@contextlib.contextmanager
def _running(workspace: Workspace, code: str, *arguments: str) -> Iterator[None]:
    """A program of the agent that goes on while the harness looks."""
    argv = [find_python(), "-I", "-S", "-c", code, *arguments]
    account = {} if OWNER is None else {"user": OWNER.uid, "group": OWNER.gid, "extra_groups": []}
    if isinstance(workspace, OverlayWorkspace):
        argv, account = build_overlay_argv(workspace.mount, argv, owner=OWNER), {}
    process = subprocess.Popen(argv, cwd=workspace.path, stdout=subprocess.PIPE, **account)  # type: ignore[call-overload]
    try:
        assert process.stdout.readline() == b"ready\n"
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def _observe(workspace: Workspace) -> tuple[tuple[FileChange, ...], ListSink, Change]:
    """Everything against the base: as the trace has it, with its contents, and as the result has it."""
    sink = ListSink()
    return workspace.delta(NOTHING_SEEN, workspace.snapshot(), sink=sink), sink, build_change(workspace)


def _find(changes: tuple[FileChange, ...], path: str) -> FileChange:
    return next(change for change in changes if change.path == path)


SWAP = """
import os, sys
os.mkdir('real'); open('real/file', 'w').write('mine'); os.symlink(sys.argv[1], 'fake')
open('plain', 'w').write('mine'); os.symlink(sys.argv[1] + '/file', 'other')
print('ready', flush=True)
while True:
    os.rename('real', 'x'); os.rename('fake', 'real'); os.rename('x', 'fake')
    os.rename('plain', 'y'); os.rename('other', 'plain'); os.rename('y', 'other')
"""


def test_symlink_swapped_in_during_harvest_reads_nothing_outside(workspace: Workspace) -> None:
    with scratch() as outside:
        (outside / "file").write_text("the harness's secret")
        (outside / "file").chmod(0o644)
        with _running(workspace, SWAP, str(outside)):
            for _ in range(200):
                changes, sink, change = _observe(workspace)
                assert b"secret" not in change.patch
                assert not any(b"secret" in data for data in sink.blobs.values())
                assert "secret" not in repr(changes)


def test_directory_replaced_by_a_link_out_is_a_link(workspace: Workspace) -> None:
    edit(workspace, ("remove", "src", None), ("symlink", "src", "/etc"))
    changes, _, change = _observe(workspace)
    found = _find(changes, "src")
    assert isinstance(found, FileModified)
    assert found.after == SymlinkEntry(target="/etc")
    assert [path.path for path in change.paths] == ["src", "src/a.py", "src/b.py"]
    assert b"root:" not in change.patch


def test_fifo_does_not_hang_the_harvest(workspace: Workspace) -> None:
    edit(workspace, ("fifo", "pipe", None), ("remove", "README.md", None), ("fifo", "README.md", None))
    changes, _, change = _observe(workspace)
    found = _find(changes, "pipe")
    assert isinstance(found, FileAdded)
    assert found.after == SpecialEntry(nature="fifo")
    assert {omission.path for omission in change.omissions} == {"pipe", "README.md"}
    assert [path.status for path in change.paths].count("deleted") == 1


def test_socket_is_not_opened(workspace: Workspace) -> None:
    _run_python(workspace, "import socket; socket.socket(socket.AF_UNIX).bind('sock')")
    changes, _, change = _observe(workspace)
    found = _find(changes, "sock")
    assert isinstance(found, FileAdded)
    assert found.after == SpecialEntry(nature="socket")
    assert [omission.reason for omission in change.omissions] == ["special-file"]


def test_hard_link_to_a_base_file_does_not_reach_the_base(workspace: Workspace) -> None:
    edit(workspace, ("link", "README.md", "alias"), ("append", "alias", "more\n"))
    assert (workspace.base.path / "README.md").read_text() == "read me\n"
    assert [path.path for path in build_change(workspace).paths] == ["README.md", "alias"]


def test_planted_git_configuration_is_never_executed(workspace: Workspace) -> None:
    with scratch() as outside:
        outside.chmod(0o777)
        mark = outside / "executed"
        program = f"touch {mark} #"  # git adds arguments of its own
        config = f'[core]\n\tfsmonitor = "{program}"\n[filter "x"]\n\tclean = "{program}"\n'
        edit(
            workspace,
            ("write", ".git/config", config),
            ("write", ".git/hooks/post-index-change", f"#!/bin/sh\n{program}\n"),
            ("chmod", ".git/hooks/post-index-change", 0o755),
            ("write", ".gitattributes", "* filter=x\n"),
            ("write", "src/a.py", "changed\n"),
        )
        # The trap is real: git inside the sandbox does fall into it.
        run_inside(workspace, ["/usr/bin/git", "status"])
        assert mark.exists()
        mark.unlink()
        changes, _, change = _observe(workspace)
        assert not mark.exists()
        assert {found.path for found in changes} == {".gitattributes", "src/a.py"}
        assert [path.path for path in change.paths] == [".gitattributes", "src/a.py"]


def test_history_replaced_by_something_else_is_not_looked_at(workspace: Workspace) -> None:
    edit(workspace, ("remove", ".git", None), ("symlink", ".git", "/etc"))
    changes, _, change = _observe(workspace)
    assert changes == ()
    assert change.patch == b""


def test_agent_edited_ignore_files_hide_nothing(workspace: Workspace) -> None:
    edit(
        workspace,
        ("write", ".gitignore", "*\n"),
        ("write", "src/.gitignore", "*\n"),
        ("write", ".git/info/exclude", "*\n"),
        ("write", "src/evil.py", "x\n"),
        ("write", "evil.py", "x\n"),
        ("write", "still.log", "x\n"),
    )
    change = build_change(workspace)
    assert [path.path for path in change.paths] == [".gitignore", "evil.py", "src/.gitignore", "src/evil.py"]


def test_nested_repository_is_not_opened_and_is_named(workspace: Workspace) -> None:
    done = run_inside(workspace, ["/usr/bin/git", "init", "-q", "vendor/lib"])
    assert done.returncode == 0
    edit(workspace, ("write", "vendor/lib/x.py", "x\n"), ("write", "vendor/.GIT/config", "evil"))
    change = build_change(workspace)
    assert [path.path for path in change.paths] == ["vendor/lib/x.py"]
    assert [(omission.path, omission.reason) for omission in change.omissions] == [
        ("vendor/.GIT/config", "unsafe-path"),
        ("vendor/lib/.git", "nested-repository"),
    ]


def test_module_file_as_a_link_is_named_and_not_in_the_patch(workspace: Workspace) -> None:
    edit(workspace, ("symlink", ".gitmodules", "/etc/passwd"), ("symlink", "src/GITMOD~1", "x"))
    change = build_change(workspace)
    assert change.patch == b""
    assert [omission.reason for omission in change.omissions] == ["unsafe-path", "unsafe-path"]


def test_sparse_terabyte_is_not_read(workspace: Workspace) -> None:
    edit(workspace, ("write", "huge", ""), ("truncate", "huge", 2**40), ("truncate", "src/a.py", 2**40))
    changes, _, change = _observe(workspace)
    found = _find(changes, "huge")
    assert isinstance(found, FileAdded)
    assert found.after == SpecialEntry(nature="other")
    assert [(omission.path, omission.reason) for omission in change.omissions] == [
        ("huge", "too-large"),
        ("src/a.py", "too-large"),
    ]


def test_sparse_terabyte_that_grows_is_still_a_change(workspace: Workspace) -> None:
    edit(workspace, ("write", "huge", ""), ("truncate", "huge", 2**40))
    before = workspace.snapshot()
    edit(workspace, ("truncate", "huge", 2**41))
    assert [change.path for change in workspace.delta(before, workspace.snapshot(), sink=ListSink())] == [
        "huge"
    ]


MANY = """
import os
os.mkdir('many')
for number in range(20_000): os.close(os.open(f'many/{number}', os.O_CREAT, 0o644))
"""


def test_very_many_entries_are_bounded(base: Base) -> None:
    limits = ReadLimits(entries=5_000)
    with scratch() as place, CopyWorkspace(base, place / "runs", limits=limits) as copy:
        _run_python(copy, MANY)
        with copy.look() as look:
            assert len(look.touched) <= 5_000
            assert [omission.reason for omission in look.omissions] == ["too-many-entries"]
            # What the bound cut off is not taken for deleted.
            assert look.touched.get(b"README.md", "unchanged") is not None


def test_more_files_than_anyone_could_judge_leave_a_bounded_change_with_the_work_in_it(
    workspace: Workspace,
) -> None:
    flood = [("write", f".flood/{number}", "x") for number in range(300)]
    edit(workspace, *flood, ("write", "src/b.py", "print(3)\n"), ("remove", "src/a.py", None))
    change = build_change(workspace, limits=ChangeLimits(files=50))
    paths = [path.path for path in change.paths]
    assert 40 < len(paths) <= 50
    # What the snapshot tracks comes before whatever was piled up in front of it.
    assert paths[-2:] == ["src/a.py", "src/b.py"]
    assert paths == sorted(paths)
    assert [omission.reason for omission in change.omissions] == ["too-many-entries"]


def test_a_patch_that_is_longer_than_what_it_holds_stays_within_what_a_judge_reads(
    workspace: Workspace,
) -> None:
    """A sign for each line and a header for each file: what holds them must hold the patch, too."""
    edit(workspace, *[("write", f"many/{number:03}", "\n" * 100) for number in range(100)])
    whole = build_change(workspace)
    limit = len(whole.patch) // 2
    change = build_change(workspace, limits=ChangeLimits(total_bytes=limit, patch_bytes=limit))
    assert limit - 1000 < len(change.patch) <= limit
    assert len(change.paths) + len(change.omissions) == len(whole.paths) == 100
    assert {omission.reason for omission in change.omissions} == {"too-large"}


def test_a_path_through_more_directories_than_patterns_can_follow_is_left_out(workspace: Workspace) -> None:
    edit(workspace, ("write", "a/" * 127 + "kept", "x"), ("write", "a/" * 128 + "gone", "x"))
    change = build_change(workspace)
    assert [path.path for path in change.paths] == ["a/" * 127 + "kept"]
    assert [(omission.path, omission.reason) for omission in change.omissions] == [
        ("a/" * 128 + "gone", "too-deep")
    ]


DEEP = """
import os
for _ in range(3000):
    os.mkdir('d' * 100); os.chdir('d' * 100)
open('bottom', 'w').write('x')
"""


def test_directories_deeper_than_any_path_are_bounded_and_removed(workspace: Workspace) -> None:
    _run_python(workspace, DEEP)
    changes, _, change = _observe(workspace)
    assert len(changes) < 100
    assert [omission.reason for omission in change.omissions] == ["too-deep"]
    place = workspace.path.parent
    workspace.close()
    assert not place.exists()


GROW = """
stream = open('log.txt', 'wb', buffering=0)
print('ready', flush=True)
while True: stream.write(b'x' * 4096); stream.truncate(0) if stream.tell() > 1 << 20 else None
"""


def test_file_that_never_holds_still_does_not_hang_the_harvest(workspace: Workspace) -> None:
    with _running(workspace, GROW):
        for _ in range(5):
            _observe(workspace)


REPLACE = """
import os
print('ready', flush=True)
while True:
    for name, text in (('one', 'a' * 5000), ('two', 'b' * 7000)):
        open(name, 'w').write(text); os.rename(name, 'target')
"""


def test_file_replaced_while_it_is_read_is_one_or_the_other(workspace: Workspace) -> None:
    with _running(workspace, REPLACE):
        for _ in range(40):
            _, sink, change = _observe(workspace)
            for data in sink.blobs.values():
                assert len(set(data)) <= 1
            found = [path for path in change.paths if path.path == "target"]
            assert all(path.lines_added == 1 for path in found)


def test_names_of_all_kinds_survive(workspace: Workspace) -> None:
    names = [
        b"new\nline",
        b'"quoted"',
        b"tab\t",
        b"back\\slash",
        b"\xff\xfe",
        b" ",
        b"*",
        b"README.MD",
        b"-rf",
    ]
    edit(workspace, *(("write", name, b"x\n") for name in names))
    change = build_change(workspace)
    assert {path.status for path in change.paths} == {"added"}
    assert len(change.paths) == len(names)
    assert len({path.path for path in change.paths}) == len(names)
    assert workspace.snapshot().entries.keys() == set(names)


def test_files_without_permissions_are_read_and_left_as_they_were(workspace: Workspace) -> None:
    edit(
        workspace,
        ("write", "locked/file", "hidden\n"),
        ("chmod", "locked/file", 0o000),
        ("chmod", "locked", 0o000),
        ("chmod", "src/a.py", 0o000),
        ("chmod", "src", 0o400),
    )
    for _ in range(2):
        changes, _, change = _observe(workspace)
        assert b"+hidden" in change.patch
        assert {found.path for found in changes} == {"locked", "locked/file", "src", "src/a.py"}
    place = workspace.path.parent
    workspace.close()
    assert not place.exists()


def test_whiteouts_cannot_be_forged(base: Base) -> None:
    require_overlay()
    with scratch() as place, OverlayWorkspace(base, place / "runs") as overlay:
        code = """
import os, stat
for name in ('README.md.x', 'src/c.py'):
    try: os.mknod(name, stat.S_IFCHR | 0o666, os.makedev(0, 0)); raise SystemExit('made a whiteout')
    except PermissionError: pass
open('.wh.README.md', 'w').close(); open('src/.wh..wh..opq', 'w').close()
"""
        _run_python(overlay, code)
        changes, _, change = _observe(overlay)
        assert {found.path for found in changes} == {".wh.README.md", "src/.wh..wh..opq"}
        assert "deleted" not in {path.status for path in change.paths}


def test_whiteout_device_in_a_copy_is_a_device(base: Base) -> None:
    with scratch() as place, CopyWorkspace(base, place / "runs") as copy:
        code = "import os, stat; os.unlink('README.md'); os.mknod('README.md', stat.S_IFCHR | 0o666, 0)"
        done = run_inside(copy, [find_python(), "-I", "-S", "-c", code])
        if done.returncode != 0:
            pytest.skip("this kernel lets nobody but root make the device")
        changes, _, change = _observe(copy)
        (found,) = changes
        assert isinstance(found, FileModified)
        assert found.after == SpecialEntry(nature="device")
        assert [path.status for path in change.paths].count("deleted") == 1


def test_overlay_attributes_cannot_be_forged(base: Base) -> None:
    require_overlay()
    with scratch() as place, OverlayWorkspace(base, place / "runs") as overlay:
        code = """
import os
open('empty', 'w').close(); open('full', 'w').write('x')
for name in ('src', 'empty', 'full', 'README.md'):
    for attribute, value in (('opaque', b'y'), ('whiteout', b'y'), ('redirect', b'/etc'), ('metacopy', b'')):
        try: os.setxattr(name, 'user.overlay.' + attribute, value)
        except OSError: pass
"""
        _run_python(overlay, code)
        changes, _, change = _observe(overlay)
        assert {found.path for found in changes} == {"empty", "full"}
        assert [path.status for path in change.paths] == ["added"] * 2


def test_set_uid_bits_are_noted_and_not_carried(workspace: Workspace) -> None:
    edit(workspace, ("write", "su", "#!/bin/sh\n"), ("chmod", "su", 0o6755))
    changes, _, change = _observe(workspace)
    found = _find(changes, "su")
    assert isinstance(found, FileAdded)
    assert found.after.mode == 0o6755  # type: ignore[union-attr]
    assert b"new file mode 100755" in change.patch
    assert change.paths[0].has_special_bits


def test_honest_agent_that_ran_its_tools_has_only_its_edit_in_the_change(workspace: Workspace) -> None:
    done = run_inside(workspace, [find_python(), "-I", "-m", "compileall", "-q", "src"])
    assert done.returncode == 0
    edit(
        workspace,
        ("write", "src/a.py", "print(3)\n"),
        ("write", ".pytest_cache/.gitignore", "*\n"),
        ("write", ".pytest_cache/v/cache/lastfailed", "{}"),
        ("write", "node_modules/left-pad/index.js", "x"),
        ("write", "node_modules/.bin/tool", "x"),
        ("write", "build/out.o", "x"),
    )
    change = build_change(workspace, generated=["build/**"])
    assert [path.path for path in change.paths] == ["src/a.py"]
    assert change.omissions == ()


_AS_USER = """
import sys, os, json, ctypes
sys.path[:0] = json.loads(sys.argv[1])
import pathspec, pathspec.gitignore, difflib, base64, encodings.idna, pwd, grp
from support import workspaces
from repotrial import source, workspace as rooms
import importlib.util
spec = importlib.util.spec_from_file_location("attacks", sys.argv[2])
attacks = importlib.util.module_from_spec(spec); spec.loader.exec_module(attacks)
python = workspaces.find_python()
if os.geteuid() == 0:
    os.setgroups([]); os.setresgid(65532, 65532, 65532); os.setresuid(65532, 65532, 65532)
    sys.executable = python
    attacks.OWNER = workspaces.OWNER = None
for kind in (rooms.OverlayWorkspace, rooms.CopyWorkspace):
    for name in json.loads(sys.argv[3]):
        with workspaces.scratch() as place, workspaces.make_base(place, attacks.FILES) as base:
            with kind(base, place / "runs") as workspace:
                getattr(attacks, name)(workspace)
        print(name, flush=True)
"""


def test_an_ordinary_user_is_as_safe_as_root() -> None:
    """The same attacks, with a harness that has no more rights than the agent."""
    require_overlay()
    names = [
        name
        for name, function in globals().items()
        if name.startswith("test_") and "workspace" in getattr(function, "__annotations__", {})
    ]
    paths = json.dumps([path for path in sys.path if path])
    done = subprocess.run(
        [sys.executable, "-c", _AS_USER, paths, str(Path(__file__)), json.dumps(names)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        cwd="/",
        env={**os.environ, "HOME": "/nonexistent"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == names * 2
    assert len(names) >= 15
