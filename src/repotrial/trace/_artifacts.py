"""Results and logs of each execution of a check, as files beside the trace (P25)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import Final

from repotrial.trace._blobs import BlobStore
from repotrial.trace._payloads.checks import (
    AcceptanceExecution,
    BuildCheck,
    LogPointer,
    RunnerExecution,
    StaticCheck,
)
from repotrial.trace._payloads.common import Output
from repotrial.trace._rundir import RunPaths

_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
_MOST_FILES: Final = 200
_LOG_BYTES: Final = 64 * 1024


def keep_artifacts(paths: RunPaths, event: AcceptanceExecution | BuildCheck | StaticCheck) -> None:
    """Put what the event refers to into `acceptance/<check>/`, under names that a person can find.

    The trace decides; these are its bytes once more, redacted as they are there.
    """
    variant = event.variant if isinstance(event, AcceptanceExecution) else "plain"
    folder = paths.acceptance / event.check_id / f"{event.subject}-{variant}-{event.attempt}"
    folder.mkdir(parents=True)
    blobs = BlobStore(paths.blobs)
    for number, runner in enumerate(event.runners, start=1):
        _keep_streams(folder, number, runner, blobs)
    if event.logs:
        (folder / "results").mkdir()
    for number, log in enumerate(event.logs[:_MOST_FILES], start=1):
        _link(blobs.path_of(log.blob.digest), folder / "results" / _name(log, number))


def _keep_streams(folder: Path, number: int, runner: RunnerExecution, blobs: BlobStore) -> None:
    for name, output in (("stdout", runner.stdout), ("stderr", runner.stderr)):
        if output.length_bytes:
            (folder / f"{number}.{name}").write_bytes(_read(output, blobs)[:_LOG_BYTES])


def _read(output: Output, blobs: BlobStore) -> bytes:
    stream = output.load(blobs)
    rest = output.length_bytes - len(stream.data)
    mark = b"" if stream.is_whole or rest <= 0 else b"\n[%d bytes more]\n" % rest
    return stream.data[: _LOG_BYTES - len(mark)] + mark


def _name(log: LogPointer, number: int) -> str:
    """Its own name where that is an ordinary one: a candidate can leave files of any name."""
    return log.name if _PLAIN.fullmatch(log.name) else f"file-{number}"


def _link(blob: Path, place: Path) -> None:
    """The same file under a second name; a copy where the file system has no such thing."""
    with contextlib.suppress(FileExistsError):
        try:
            os.link(blob, place, follow_symlinks=False)
        except PermissionError:
            shutil.copyfile(blob, place)
