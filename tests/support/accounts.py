"""Another user than the one that runs the tests, and directories that it can reach."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from repotrial._core.remove_tree import remove_tree
from repotrial.isolation import Account, find_identity

ORDINARY_UID: Final = 65533
_SOURCES: Final = Path(__file__).resolve().parents[2] / "src"
# By way of `env`: the first program still opens paths with the rights that it is about to lose.
_AS_USER: Final = (
    *("setpriv", "--reuid", str(ORDINARY_UID), "--regid", str(ORDINARY_UID)),
    *("--clear-groups", "env"),
)


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


def require_ordinary_python() -> list[str]:
    """The words that start a Python of this version as an ordinary user; skips where that cannot be."""
    if not is_root():
        pytest.skip("this harness is an ordinary user already")
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv to become another user")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        words = [*_AS_USER, candidate]
        if subprocess.run([*words, "-c", ""], capture_output=True, check=False, cwd="/").returncode == 0:
            return words
    pytest.skip(f"no {version} that another user could run")


def build_ordinary_variables(home: Path) -> dict[str, str]:
    """What that user's Python needs to find this project and what it depends on."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONPATH": ":".join([str(_SOURCES), *(path for path in sys.path if "site-packages" in path)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
