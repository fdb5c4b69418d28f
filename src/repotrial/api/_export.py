"""Runs in the formats of other tools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from repotrial._core.errors import ErrorCode, MachineError, UsageError
from repotrial._core.files import describe_refusal, write_atomic
from repotrial.conduct import verify_no_peek
from repotrial.interop import Exported, ExportFormat, Loss, build_exports
from repotrial.score import find_run_directories, judge_run
from repotrial.signing import SigningKey, TrustedKeys

EXPORT_WRITE = ErrorCode(
    "export-write",
    MachineError,
    "An export cannot be written.",
    hint="name another place with --out, make room or fix the permissions",
)
EXPORT_SEVERAL = ErrorCode(
    "export-several",
    UsageError,
    "A file of the format holds one run (`atif`) or one agent (`inspect`, `swebench`); there are several.",
    hint="name a directory with --out, or fewer runs",
)
EXPORT_INSIDE = ErrorCode(
    "export-inside",
    UsageError,
    "An export was to be written into a run directory.",
    hint="name a place elsewhere with --out: run directories are sealed",
)


class WrittenExport(msgspec.Struct, frozen=True, kw_only=True):
    """One file of an export."""

    file: str
    runs: int
    """How many runs are in it."""
    lost: tuple[Loss, ...]
    """What the format has no place for; the file says it too."""


def export_runs(
    form: ExportFormat, places: Sequence[Path], out: Path, *, key_file: Path, keys: TrustedKeys | None = None
) -> list[WrittenExport]:
    """Write runs in the format of another tool.

    Args:
        form: The format.
        places: Run directories, and directories of runs.
        out: The file; a directory where the format needs several.
        key_file: The key that signs attestations; made on first use.
        keys: Whose seals are believed.

    Raises:
        EXPORT_SEVERAL: several files are needed, and `out` is no directory.
        EXPORT_INSIDE: `out` lies in a run directory.
        EXPORT_WRITE: the machine does not let us write.
        EvidenceError: a trace cannot be read.
    """
    for place in places:
        verify_no_peek(place)
    directories = [run for place in places for run in find_run_directories(place)]
    for run in directories:
        if out.resolve().is_relative_to(run.resolve()):
            raise EXPORT_INSIDE.error(f"{out}: expected a place outside of {run}, found one in it")
    key = SigningKey.load(key_file) if form == "in-toto" else None
    files = build_exports(form, [judge_run(run, keys) for run in directories], key)
    return [_write(path, exported) for path, exported in _place(files, out)]


def _place(files: Sequence[Exported], out: Path) -> list[tuple[Path, Exported]]:
    if out.is_dir():
        return [(out / exported.name, exported) for exported in files]
    if len(files) > 1:
        names = ", ".join(exported.name for exported in files[:3])
        raise EXPORT_SEVERAL.error(
            f"{out}: expected a directory for {len(files)} files ({names} …), found none there"
        )
    return [(out, files[0])]


def _write(path: Path, exported: Exported) -> WrittenExport:
    try:
        write_atomic(path, exported.data)
    except (OSError, ValueError) as error:  # ValueError: a NUL in its name
        raise EXPORT_WRITE.error(
            f"{path}: expected to write the export, found: {describe_refusal(error)}"
        ) from error
    return WrittenExport(file=str(path), runs=exported.runs, lost=exported.losses)
