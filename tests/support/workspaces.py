"""Real bases and workspaces, and programs that change them from where an agent would."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from repotrial._core.digest import digest_bytes
from repotrial._core.remove_tree import remove_tree
from repotrial.contract import DirectoryRepository
from repotrial.isolation import Account
from repotrial.source import compute_tree_digest
from repotrial.trace import BlobRef, Body
from repotrial.trace._body import build_body
from repotrial.workspace import Base, BaseCache, BaseRequest, CopyWorkspace, OverlayWorkspace, Workspace
from repotrial.workspace._base import Setup
from support.overlay_mounts import execute_in_overlay, probe_overlay

__all__ = [
    "OWNER",
    "ListSink",
    "build_request",
    "edit",
    "find_python",
    "make_base",
    "open_workspaces",
    "read_tree",
    "require_overlay",
    "run_inside",
    "scratch",
]

Edit = Sequence[Any]
Files = Mapping[str, str | bytes]

OWNER = Account(uid=65533, gid=65533) if os.geteuid() == 0 else None
"""A root harness drops to an account of no rights; an ordinary one stays what it is."""

EDITOR = r"""
import base64, errno, json, os, shutil, sys

def name(text): return base64.b64decode(text)

def move(a, b):
    try: os.rename(a, b)
    except OSError as error:
        if error.errno != errno.EXDEV: raise
        shutil.copytree(a, b, symlinks=True); shutil.rmtree(a)

def put(path, data, flags):
    # A pipe that nobody reads is an error, not a reason to wait.
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | flags, 0o666)
    os.write(handle, data)
    os.close(handle)

def write(path, data):
    os.makedirs(os.path.dirname(path) or b'.', exist_ok=True)
    put(path, data, os.O_CREAT | os.O_TRUNC)

def append(path, data): put(path, data, os.O_APPEND)

def remove(path):
    if os.path.isdir(path) and not os.path.islink(path): shutil.rmtree(path)
    else: os.unlink(path)

ACTIONS = {
    'write': lambda p, d: write(p, d), 'append': lambda p, d: append(p, d), 'remove': lambda p, _: remove(p),
    'mkdir': lambda p, _: os.makedirs(p), 'move': move, 'symlink': lambda p, t: os.symlink(t, p),
    'link': lambda p, t: os.link(p, t), 'chmod': lambda p, m: os.chmod(p, int(m)),
    'touch': lambda p, _: os.utime(p), 'fifo': lambda p, _: os.mkfifo(p),
    'truncate': lambda p, n: os.truncate(p, int(n)),
}
umask = os.umask(0o022)
for kind, path, argument in json.load(sys.stdin):
    try: ACTIONS[kind](name(path), name(argument))
    except OSError: pass
"""


class ListSink:
    """Keeps what a delta refers to."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def body(self, data: bytes) -> Body:
        return build_body(data, store=self.blob, inline_bytes=1 << 20)

    def blob(self, data: bytes) -> BlobRef | None:
        ref = BlobRef(digest=digest_bytes(data), size_bytes=len(data))
        self.blobs[ref.digest] = data
        return ref


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A directory that the sandbox account can reach, removed whatever was done to it."""
    place = Path(tempfile.mkdtemp(prefix="repotrial-test-"))
    place.chmod(0o755)
    try:
        yield place
    finally:
        remove_tree(place)


def build_request(place: Path, files: Files, *, environment_id: str = "", **options: Any) -> BaseRequest:
    """A repository that is a plain directory."""
    source = place / "contract" / "files"
    if not source.exists():
        source.mkdir(parents=True)
        for path, content in files.items():
            target = source / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
            target.chmod(0o755 if path.endswith(".sh") else 0o644)
    return BaseRequest(
        repository=DirectoryRepository(source="files", **options),
        directory=source.parent,
        tree_digest=compute_tree_digest(source),
        environment_id=environment_id,
    )


@contextlib.contextmanager
def make_base(place: Path, files: Files, *, setup: Setup | None = None, **options: Any) -> Iterator[Base]:
    cache_place = BaseCache(place / "cache", owner=OWNER)
    with cache_place.prepare_base(build_request(place, files, **options), setup=setup) as base:
        yield base


@contextlib.contextmanager
def open_workspaces(base: Base, place: Path) -> Iterator[tuple[OverlayWorkspace, CopyWorkspace]]:
    """One of each kind."""
    require_overlay()
    with OverlayWorkspace(base, place / "runs") as overlay, CopyWorkspace(base, place / "runs") as copy:
        yield overlay, copy


def require_overlay() -> None:
    if reason := _probe():
        pytest.skip(reason)


@cache
def _probe() -> str:
    with scratch() as place:
        found = probe_overlay(place, owner=OWNER)
    return "" if found is None else found.reason


def edit(workspace: Workspace, *edits: Edit) -> None:
    """Change files as the agent's account: `("write", path, content)` and the like; what fails is skipped."""
    script = json.dumps(
        [
            [kind, _encode(path), _encode(b"" if argument is None else argument)]
            for kind, path, argument in edits
        ]
    )
    done = run_inside(workspace, [find_python(), "-I", "-S", "-c", EDITOR], stdin=script.encode())
    assert done.returncode == 0, done.stderr.decode(errors="replace")


def run_inside(
    workspace: Workspace, argv: Sequence[str], *, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run a program as the agent's account, at home in the workspace."""
    if isinstance(workspace, OverlayWorkspace):
        return execute_in_overlay(workspace.mount, argv, owner=workspace.base.owner, stdin=stdin)
    owner = workspace.base.owner
    account: dict[str, Any] = {}
    if owner is not None:
        account = {"user": owner.uid, "group": owner.gid, "extra_groups": []}
    return subprocess.run(
        list(argv), cwd=workspace.path, input=stdin, capture_output=True, check=False, timeout=60, **account
    )


def read_tree(root: Path) -> dict[str, tuple[str, bytes]]:
    """Files and links with git's modes, without history and empty directories."""
    found: dict[str, tuple[str, bytes]] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        mode = path.lstat().st_mode
        if name.split("/", maxsplit=1)[0] == ".git" or stat.S_ISDIR(mode):
            continue
        if stat.S_ISLNK(mode):
            found[name] = ("120000", os.fsencode(path.readlink()))
        elif stat.S_ISREG(mode):
            found[name] = ("100755" if mode & 0o100 else "100644", path.read_bytes())
    return found


def _encode(value: str | bytes | int) -> str:
    raw = str(value) if isinstance(value, int) else value
    return base64.b64encode(os.fsencode(raw)).decode()


@cache
def find_python() -> str:
    """An interpreter that the agent's account may start."""
    if OWNER is None:
        return sys.executable
    for program in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        if program is None:
            continue
        done = (
            subprocess.run(
                [program, "-I", "-S", "-c", ""], user=OWNER.uid, group=OWNER.gid, extra_groups=[], check=False
            )
            if _is_reachable(program)
            else None
        )
        if done is not None and done.returncode == 0:
            return program
    pytest.skip("there is no Python that an account without rights may start")


def _is_reachable(program: str) -> bool:
    """Whether every directory on the way lets others pass."""
    real = Path(program).resolve()
    return all(parent.stat().st_mode & 0o001 for parent in real.parents)
