"""The page of a run as files: bodies that are too large for it lie beside it, under their digest."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final
from urllib.parse import quote

from repotrial._core.digest import digest_bytes
from repotrial.trace import RunPaths

LARGE_BYTES: Final = 1024 * 1024
"""A body above this lies beside the page."""


def render_run_files(run: Path, out: Path, *, is_shared: bool = False) -> dict[Path, bytes]:
    """The page of a run, last, and every file beside it.

    Raises:
        OSError: a body cannot be read.
    """
    from repotrial.report import build_run_page  # imports jinja2

    bodies = {} if is_shared else _find_large_bodies(run)
    folder = out.with_name(f"{out.stem}-files")
    links = {name: f"{quote(folder.name)}/{quote(name)}" for name in bodies}
    page = build_run_page(run, is_shared=is_shared, bodies=links).encode()
    return {**{folder / name: path.read_bytes() for name, path in bodies.items()}, out: page}


def _find_large_bodies(run_directory: Path) -> dict[str, Path]:
    """Name beside the page and place of each large body of a run: the change, and what was kept of texts.

    Names are ours, never a run's: each has the digest. All of them are text to a browser.
    """
    paths = RunPaths(run_directory)
    found: dict[str, Path] = {}
    if _is_large(paths.change):
        name = digest_bytes(paths.change.read_bytes()).removeprefix("sha256:")
        found[f"change-sha256-{name}.patch.txt"] = paths.change
    for folder in sorted(_list(paths.blobs)):
        for blob in sorted(_list(folder)):
            name = f"{folder.name}{blob.name}"
            if _is_large(blob) and set(name) <= set("0123456789abcdef"):
                found[f"sha256-{name}.txt"] = blob
    return found


def _list(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder)]
    except OSError:  # a run without blobs, or a file in their place
        return []


def _is_large(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size > LARGE_BYTES
