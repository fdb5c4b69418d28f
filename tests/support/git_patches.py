"""Trees, and the patches that git itself makes of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


class Entry(msgspec.Struct, frozen=True):
    """A file or a link."""

    data: bytes
    is_link: bool = False
    is_executable: bool = False


Tree = Mapping[bytes, Entry]


def execute_git(directory: Path, *arguments: str | bytes, stdin: bytes = b"") -> bytes:
    """What git prints, in a repository of the test's own."""
    done = subprocess.run(
        ["git", *arguments], cwd=directory, input=stdin, env=_ENVIRONMENT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def write_tree(directory: Path, tree: Tree) -> None:
    """Make the directory hold exactly this, and its history."""
    for child in directory.iterdir():
        if child.name != ".git":
            shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
    for path, entry in tree.items():
        full = directory / os.fsdecode(path)
        full.parent.mkdir(parents=True, exist_ok=True)
        if entry.is_link:
            full.symlink_to(os.fsdecode(entry.data))
        else:
            full.write_bytes(entry.data)
            full.chmod(0o755 if entry.is_executable else 0o644)


def read_tree(directory: Path) -> dict[bytes, Entry]:
    """What a directory holds, without its history."""
    found = {}
    for full in directory.rglob("*"):
        path = full.relative_to(directory)
        if path.parts[0] == ".git":
            continue
        if full.is_symlink():
            found[os.fsencode(path)] = Entry(os.fsencode(full.readlink()), is_link=True)
        elif full.is_file():
            is_executable = bool(full.stat().st_mode & 0o100)
            found[os.fsencode(path)] = Entry(full.read_bytes(), is_executable=is_executable)
    return found


def commit_trees(directory: Path, before: Tree, after: Tree) -> None:
    """Two trees in the index's history: `HEAD` before, the index after."""
    execute_git(directory, "init", "--quiet")
    write_tree(directory, before)
    execute_git(directory, "add", "--all", "--force")
    execute_git(directory, "commit", "--quiet", "--allow-empty", "-m", "before")
    write_tree(directory, after)
    execute_git(directory, "add", "--all", "--force")


def make_patch(directory: Path, *options: str) -> bytes:
    """What git writes for the change from `HEAD` to the index."""
    return execute_git(directory, "diff", "--cached", "--binary", *options)
