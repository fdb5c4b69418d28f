"""Ignore rules: what git says of the base, and nothing that an agent says."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from repotrial.workspace._change import IgnoreRules
from support.exhaustive import examples
from support.repositories import run_git
from support.workspaces import make_base, scratch

PATTERNS = st.sampled_from(
    [
        "*.o", "!keep.o", "build/", "/build", "build/*", "!build/keep.o", "**/gen", "gen/**", "a/b", "/a/*.o",
        "# comment", "", "\\#x", "*", "!*/", "!*.py", "d?r", "[ab]", "a/", "!a/", "trailing  ", "x\\ ", "**",
    ]
)  # fmt: skip
PATHS = [
    b"x.o", b"keep.o", b"build", b"build/x", b"build/keep.o", b"a/build/y", b"gen", b"a/gen/z", b"a/b",
    b"a/b/c",
    b"a/x.o", b"#x", b"dir/q.py", b"b", b"a/a", b"trailing", b"x ", b"deep/er/gen/k.py", b"caf\xc3\xa9.o",
]  # fmt: skip


@settings(max_examples=examples(20, thorough=200))
@given(root=st.lists(PATTERNS, max_size=5), nested=st.lists(PATTERNS, max_size=4))
def test_the_rules_are_those_of_git(root: list[str], nested: list[str]) -> None:
    files = {"tracked.o": "x", ".gitignore": "\n".join(root) + "\n", "a/.gitignore": "\r\n".join(nested)}
    with scratch() as place, make_base(place, files) as base:
        rules = IgnoreRules(base)
        ours = {path for path in PATHS if rules.is_left_out(path)}
        assert ours == _ask_git(place / "contract" / "files", PATHS)


def _ask_git(tree: Path, paths: list[bytes]) -> set[bytes]:
    run_git(tree, "init", "-q")
    needed = {path[:end] for path in paths for end in range(len(path)) if path[end : end + 1] == b"/"}
    found: set[bytes] = set()
    # In two rounds: what is a directory to some of the paths is itself asked about as a file.
    for group in ([path for path in paths if path not in needed], [path for path in paths if path in needed]):
        for path in group:
            target = tree / os.fsdecode(path)
            if target.is_dir():
                shutil.rmtree(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        done = subprocess.run(
            ["git", "check-ignore", "--no-index", "-z", "--stdin"],
            cwd=tree,
            input=b"".join(path + b"\0" for path in group),
            capture_output=True,
            check=False,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": os.devnull},
        )
        assert done.returncode in {0, 1}
        found.update(done.stdout.split(b"\0")[:-1])
    return found


def test_tracked_files_are_never_ignored_but_generated_ones_are() -> None:
    files = {".gitignore": "*.o\n", "lib.o": "x", "parser.py": "x"}
    with scratch() as place, make_base(place, files) as base:
        rules = IgnoreRules(base, generated=["parser.py", "out/**"])
        assert not rules.is_left_out(b"lib.o")
        assert rules.is_left_out(b"new.o")
        assert rules.is_left_out(b"parser.py")
        assert rules.is_left_out(b"out/deep/x")


def test_what_usual_tools_leave_behind_is_no_change() -> None:
    files = {"crate/Cargo.toml": "[package]\n", "vendor/node_modules/kept.js": "x", "src/target/t.rs": "x"}
    with scratch() as place, make_base(place, files) as base:
        rules = IgnoreRules(base)
        for path in (
            b"pkg/__pycache__/m.pyc",
            b".pytest_cache/README.md",
            b"node_modules/left-pad/index.js",
            b"crate/target/debug/x",
        ):
            assert rules.is_left_out(path), path
        for path in (b"vendor/node_modules/kept.js", b"src/target/new.rs", b"target/x", b"cache.py"):
            assert not rules.is_left_out(path), path


def test_a_base_can_take_leftovers_back() -> None:
    with scratch() as place, make_base(place, {".gitignore": "!node_modules/\n"}) as base:
        assert not IgnoreRules(base).is_left_out(b"node_modules/x.js")
