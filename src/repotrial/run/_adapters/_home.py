"""An agent's home: a directory of its own for each run, which outlives the sandbox until it was looked at."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from repotrial.isolation import Account, Bind
from repotrial.run._adapters._launch import AGENT_HOME

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def fill_home(place: Path, files: Mapping[str, bytes], *, owner: Account | None) -> Bind:
    """Make a home and put files into it; how a sandbox shows it.

    Args:
        place: An empty directory of the harness's, such as a scratch place.
        files: Path in the home to content.
        owner: The account that programs inside have, where it is not ours.
    """
    home = place / "home"
    make_directory(home, owner)
    for name, data in files.items():
        path = home / name
        for parent in reversed(PurePosixPath(name).parents[:-1]):
            if not (home / parent).is_dir():
                make_directory(home / parent, owner)
        with os.fdopen(os.open(path, _CREATE, 0o600), "wb") as stream:
            stream.write(data)
            if owner is not None:
                os.fchown(stream.fileno(), owner.uid, owner.gid)
    return Bind(source=home, target=AGENT_HOME, is_writable=True)


def make_directory(path: Path, owner: Account | None) -> None:
    """A directory for the account that works in it alone."""
    path.mkdir(mode=0o700)
    path.chmod(0o700)
    if owner is not None:
        os.chown(path, owner.uid, owner.gid)
