"""Workspaces: an overlay over a prepared base against `cp -a` of the same tree, side by side."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from bench.trace import Part, Ratio
from repotrial._core.remove_tree import remove_tree
from repotrial.contract import DirectoryRepository
from repotrial.isolation import Account, find_identity
from repotrial.source import compute_tree_digest
from repotrial.workspace import Base, BaseCache, BaseRequest, OverlayWorkspace

__all__ = ["bench_workspace"]

_FILES = 2000
_FILE_BYTES = 20_000
_ROUNDS = 15


def bench_workspace(files: int = _FILES) -> Ratio:
    """From nothing to the first file written, on a repository of many files.

    Namespaces belong to the sandbox, which has them in any case: their making is not counted. Nor is the
    removal, on either side.
    """
    place = Path(tempfile.mkdtemp(prefix="repotrial-bench-")).resolve()
    place.chmod(0o755)
    try:
        request = _build_request(place / "contract", files)
        owner = find_identity()
        with BaseCache(place / "cache", owner=owner).prepare_base(request) as base:
            note = f"{base.label.file_count} files, {base.label.size_bytes >> 20} MB"
            part = Part(name="make, mount, first write", ours_us=[], peer_us=[], note=note)
            for _ in range(_ROUNDS):
                part.ours_us.append(_use_overlay(base, place / "runs", owner))
                part.peer_us.append(_copy(base.path, place / "copy"))
    finally:
        remove_tree(place)
    return Ratio(name="workspace against cp -a", goal=40, parts=(part,))


def _build_request(directory: Path, files: int) -> BaseRequest:
    root = directory / "files"
    line = b"some text that is neither long nor short\n"
    for number in range(files):
        path = root / f"package_{number % 50}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"# %d\n" % number + line * (_FILE_BYTES // len(line)))
    return BaseRequest(
        repository=DirectoryRepository(source=root.name),
        directory=directory,
        tree_digest=compute_tree_digest(root),
    )


def _use_overlay(base: Base, parent: Path, owner: Account) -> float:
    start = time.perf_counter()
    with OverlayWorkspace(base, parent) as workspace:
        made_us = (time.perf_counter() - start) * 1e6
        return made_us + _mount_and_write(workspace, owner)


def _mount_and_write(workspace: OverlayWorkspace, owner: Account) -> float:
    """What the launcher of a sandbox does once it has its namespaces."""
    from support.overlay_child import drop_account, enter_namespaces, mount_overlay

    libc = ctypes.CDLL(None, use_errno=True)
    mount = workspace.mount
    lower, upper, work, target = (str(path) for path in (mount.lower, mount.upper, mount.work, mount.target))
    answers, answer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if owner.uid != os.geteuid():
                drop_account(libc, owner.uid, owner.gid)
            enter_namespaces(libc)
            start = time.perf_counter()
            mount_overlay(libc, lower=lower, upper=upper, work=work, target=target)
            os.close(os.open(mount.target / "written", os.O_CREAT | os.O_WRONLY))
            os.write(answer, str((time.perf_counter() - start) * 1e6).encode())
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert (mount.upper / "written").exists()
    took_us = float(os.read(answers, 100))
    os.close(answers)
    os.close(answer)
    return took_us


def _copy(source: Path, target: Path) -> float:
    start = time.perf_counter()
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
    took_us = (time.perf_counter() - start) * 1e6
    shutil.rmtree(target)
    return took_us
