"""Another user than the one that runs the tests, and directories that it can reach."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from repotrial.sandbox import Account, find_identity
from repotrial.sandbox._tree import remove_tree


@contextmanager
def public_directory() -> Iterator[Path]:
    """A directory that every user can enter: pytest's own are closed to others."""
    path = Path(tempfile.mkdtemp(prefix="repotrial-test-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        remove_tree(path)


def account() -> Account:
    """The sandbox's user: an unprivileged one where the tests run as root."""
    return find_identity()


def is_root() -> bool:
    return os.geteuid() == 0
