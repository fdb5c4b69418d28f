"""Tidying up after harnesses that died: only what carries our label, and only if its maker has ended.

Processes die with the launch server, and that with the harness; the one exception (`_start`) is found here by
its name. Mounts exist only in namespaces that end with the last process. Workspaces have a reaper of their
own (`reap_workspaces`), which knows where they are.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import stat
import tempfile
from pathlib import Path

from repotrial._core.remove_tree import remove_tree
from repotrial.isolation._label import parse_label
from repotrial.isolation._resources._cgroups import CgroupSite, find_cgroup_site, reap_cgroups


@functools.cache
def load_site() -> CgroupSite:
    """Where control groups can be made; leftovers of the dead go first."""
    site = find_cgroup_site()
    reap_leftovers(site)
    return site


def reap_leftovers(site: CgroupSite | None = None) -> list[Path]:
    """Remove what dead harnesses left behind; what was removed."""
    return [*_reap_processes(), *reap_cgroups(site or find_cgroup_site()), *_reap_directories()]


def _reap_processes() -> list[Path]:
    reaped = []
    for entry in Path("/proc").iterdir():
        # It may end while we look, or not be ours.
        with contextlib.suppress(OSError):
            name = (entry / "cmdline").read_bytes().partition(b"\0")[0] if entry.name.isdecimal() else b""
            if _is_abandoned(name.decode("ascii", "replace")):
                os.kill(int(entry.name), signal.SIGKILL)
                reaped.append(entry)
    return reaped


def _reap_directories() -> list[Path]:
    """Scratch directories; in a place that others can write to, ours are only those that belong to us."""
    reaped = []
    for path in Path(tempfile.gettempdir()).glob("repotrial-*"):
        if _is_abandoned(path.name):
            with contextlib.suppress(OSError):
                status = path.lstat()
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                    remove_tree(path)
                    reaped.append(path)
    return reaped


def _is_abandoned(name: str) -> bool:
    label = parse_label(name)
    return label is not None and label.is_abandoned
