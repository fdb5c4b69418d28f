"""A run as a page for people."""

from __future__ import annotations

from pathlib import Path

import msgspec

from repotrial._core.errors import ErrorCode, MachineError, UsageError
from repotrial._core.files import describe_refusal, write_atomic
from repotrial.api._large_bodies import render_run_files
from repotrial.score import build_run_paths

PAGE_INSIDE_RUN = ErrorCode(
    "page-inside-run",
    UsageError,
    "A page was to be written into the run directory, whose files are sealed.",
    hint="name a file elsewhere with -o; a further file would break the seal",
)
PAGE_WRITE = ErrorCode(
    "page-write",
    MachineError,
    "The page cannot be written.",
    hint="name another file with -o, make room or fix the permissions",
)


class WrittenPage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a page is."""

    page: str
    """The file."""
    beside: tuple[str, ...] = ()
    """Bodies above 1 MiB, which lie beside it."""


def write_run_page(directory: Path, output: Path | None = None) -> WrittenPage:
    """Write a run as one HTML file that needs nothing else.

    Args:
        directory: The run directory; nothing is written into it.
        output: The file; `RUN_NAME.html` in the current directory if left out.

    Raises:
        RUN_DIRECTORY_MISSING: there is no such directory.
        PAGE_INSIDE_RUN: the file would lie in the run directory.
        PAGE_WRITE: the machine does not let us write.
    """
    paths = build_run_paths(directory)
    root = paths.root.resolve()
    target = Path(f"{root.name or 'run'}.html") if output is None else output
    try:
        if target.resolve().is_relative_to(root):
            raise PAGE_INSIDE_RUN.error(f"{target}: expected a file outside of the run, found one in it")
        files = render_run_files(paths.root, target)
        for file, data in files.items():
            write_atomic(file, data)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a loop of links; ValueError: a NUL
        raise PAGE_WRITE.error(
            f"{target}: expected to write the page, found: {describe_refusal(error)}"
        ) from error
    return WrittenPage(page=str(target), beside=tuple(str(file) for file in files if file != target))
