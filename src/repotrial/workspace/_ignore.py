"""Which paths are no part of a change: the ignore rules of the base, as git reads them.

Only the base's own `.gitignore` files count: what an agent writes into one hides nothing. What the snapshot
tracks stays tracked. On top come what usual tools leave behind, and the contract's `policy.generated`, which
holds even for tracked files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from repotrial.change import IgnoreFile, compile_globs
from repotrial.workspace._base import UNBOUNDED, Base
from repotrial.workspace._reader import Contents, TreeReader

TOOL_LEFTOVERS = (
    "__pycache__/",
    "*.py[co]",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    "node_modules/",
)
"""Directories that are nobody's source; beside a tracked `Cargo.toml`, `target/` is one more."""

_IGNORE_BYTES = 16 * 1024**2
_ESCAPED = re.compile(rb"[*?\[\]!#\\ ]")


class IgnoreRules:
    """The rules of one base and one contract."""

    def __init__(self, base: Base, *, generated: Sequence[str] = ()) -> None:
        self._tracked = base.tracked
        self._generated = compile_globs(generated)
        leftovers = [*(line.encode() for line in TOOL_LEFTOVERS), *_list_target_directories(base.tracked)]
        self._leftovers = IgnoreFile(b"\n".join(leftovers))
        self._files = _load_files(base)
        self._directories: dict[bytes, bool] = {}

    def is_left_out(self, path: bytes) -> bool:
        """Whether a file or link is no part of a change."""
        if self._generated.match_file(path.decode("utf-8", "surrogateescape")):
            return True
        return path not in self._tracked and self._is_ignored(path)

    def _is_ignored(self, path: bytes) -> bool:
        # Once a directory is ignored, nothing below it can be taken back (gitignore(5)).
        parent = path.rpartition(b"/")[0]
        return self._is_ignored_directory(parent) or self._decide(path, is_directory=False)

    def _is_ignored_directory(self, directory: bytes) -> bool:
        if not directory:
            return False
        found = self._directories.get(directory)
        if found is None:
            parent = directory.rpartition(b"/")[0]
            found = self._is_ignored_directory(parent) or self._decide(directory, is_directory=True)
            self._directories[directory] = found
        return found

    def _decide(self, path: bytes, *, is_directory: bool) -> bool:
        """The deepest `.gitignore` that has an opinion decides."""
        directory = path
        while directory:
            directory = directory.rpartition(b"/")[0]
            if (file := self._files.get(directory)) is not None:
                below = path[len(directory) + 1 :] if directory else path
                verdict = file.decide(below, is_directory=is_directory)
                if verdict is not None:
                    return verdict
        return bool(self._leftovers.decide(path, is_directory=is_directory))


def _load_files(base: Base) -> dict[bytes, IgnoreFile]:
    files = {}
    with TreeReader(base.path, limits=UNBOUNDED) as reader:
        for path in base.ignore_files:
            reading = reader.read_file(path, kept_bytes=_IGNORE_BYTES)
            if isinstance(reading, Contents) and reading.data is not None:
                files[path.rpartition(b"/")[0]] = IgnoreFile(reading.data)
    return files


def _list_target_directories(tracked: frozenset[bytes]) -> list[bytes]:
    manifests = (path.rpartition(b"/") for path in sorted(tracked))
    return [
        b"/" + _ESCAPED.sub(rb"\\\g<0>", directory + slash) + b"target/"
        for directory, slash, name in manifests
        if name == b"Cargo.toml"
    ]
