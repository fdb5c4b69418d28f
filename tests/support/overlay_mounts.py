"""Commands in an overlay without a sandbox: a user namespace of their own, and the mount inside of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from repotrial._core.absence import NotComputable
from repotrial._core.remove_tree import remove_tree
from repotrial.isolation import Account, OverlayMount
from repotrial.workspace._copy import give_tree
from support import overlay_child

_SECONDS = 60


def build_overlay_argv(
    mount: OverlayMount, argv: Sequence[str], *, owner: Account | None = None
) -> list[str]:
    """A command that makes the mount in namespaces of its own and becomes `argv`, at home in the mount."""
    account = "-" if owner is None or owner.uid == os.geteuid() else f"{owner.uid}:{owner.gid}"
    places = [str(path) for path in (mount.lower, mount.upper, mount.work, mount.target)]
    # -I and -S: nothing of the user's or of other packages is loaded, and it starts fast.
    return [sys.executable, "-I", "-S", str(Path(overlay_child.__file__)), account, *places, *argv]


def execute_in_overlay(
    mount: OverlayMount, argv: Sequence[str], *, owner: Account | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run a command of ours with the overlay as its working directory; when it ends, the mount is gone.

    Not a sandbox: the command sees the whole machine.
    """
    return subprocess.run(
        build_overlay_argv(mount, argv, owner=owner),
        input=stdin,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )


def probe_overlay(parent: Path, *, owner: Account | None = None) -> NotComputable | None:
    """Find out by doing whether overlays work below `parent`.

    Returns:
        None if they do, else the reason.
    """
    place = Path(tempfile.mkdtemp(dir=parent, prefix="repotrial-probe-")).resolve()
    try:
        place.chmod(0o755)
        mount = OverlayMount(
            lower=place / "lower", upper=place / "upper", work=place / "work", target=place / "target"
        )
        for path in (mount.lower, mount.upper, mount.work, mount.target):
            path.mkdir()
        (mount.lower / "old").touch()
        for path in (mount.lower, mount.upper, mount.work, mount.target):
            give_tree(path, owner)
        done = execute_in_overlay(mount, ["/bin/sh", "-c", "rm old && : > new"], owner=owner)
        if done.returncode != 0 or not (mount.upper / "new").exists():
            said = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
            return NotComputable(f"an overlay in a user namespace cannot be used here: {said}")
    finally:
        remove_tree(place)
    return None
