"""One cache for all tests of a session, where what is kept in it is not what is tested.

What is in it is addressed by content and made for several harnesses at a time, so tests share it as users do.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from repotrial._core.remove_tree import remove_tree

__all__ = ["find_shared_cache", "make_shared_cache", "remove_shared_cache"]

_VARIABLE: Final = "REPOTRIAL_TESTS_CACHE"


def make_shared_cache() -> None:
    """For this process and all that it starts; no sandbox could reach pytest's own directory."""
    place = Path(tempfile.mkdtemp(prefix="repotrial-tests-"))
    place.chmod(0o755)
    os.environ[_VARIABLE] = str(place)


def find_shared_cache() -> Path:
    return Path(os.environ[_VARIABLE])


def remove_shared_cache() -> None:
    remove_tree(Path(os.environ.pop(_VARIABLE)))
