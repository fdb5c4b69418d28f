"""The directory of one attempt: there from the first moment, never used twice (P1, P25)."""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path

from repotrial._core.errors import MachineError
from repotrial._core.files import sync_directory, write_atomic
from repotrial.contract import ContractRecord, RunSpec
from repotrial.trace import RunPaths

__all__ = ["RunDirectoryError", "find_attempts", "open_attempt"]

_MAX_ATTEMPTS = 10_000
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)


class RunDirectoryError(MachineError):
    """The directory of a run could not be made."""

    code = "run-directory"
    default_hint = "name a directory for runs that you may write to, on a disk with room"


def find_attempts(runs: Path, spec: RunSpec) -> list[Path]:
    """Directories of earlier attempts at this specification, oldest first."""
    prefix = f"{spec.run_id}-a"
    found = []
    for path in runs.glob(f"{prefix}*"):
        number = path.name.removeprefix(prefix)
        if number.isdecimal() and path.is_dir():
            found.append((int(number), path))
    return [path for _, path in sorted(found)]


def open_attempt(runs: Path, spec: RunSpec, record: ContractRecord) -> RunPaths:
    """Make the directory of a new attempt, with its specification and its contract in it.

    It appears under its name complete or not at all, and two harnesses never get the same one.

    Raises:
        RunDirectoryError: the machine does not let us.
    """
    try:
        runs.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(dir=runs, prefix=".new-"))
        place.chmod(0o755)
        # Sealing makes all of it durable: what a power cut leaves of a run before that is worth nothing.
        write_atomic(RunPaths(place).spec, spec.to_bytes() + b"\n", is_durable=False)
        write_atomic(RunPaths(place).contract, record.to_bytes(), is_durable=False)
        return RunPaths(_claim(runs, place, spec))
    except OSError as error:
        raise RunDirectoryError(f"{runs}: expected to make a run directory, found: {error}") from error


def _claim(runs: Path, place: Path, spec: RunSpec) -> Path:
    attempts = find_attempts(runs, spec)
    first = 1 if not attempts else int(attempts[-1].name.rpartition("-a")[2]) + 1
    for number in range(first, first + _MAX_ATTEMPTS):
        target = runs / f"{spec.run_id}-a{number}"
        try:
            place.rename(target)  # whoever is first owns the number: no run directory is ever empty
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            continue
        sync_directory(runs)
        return target
    shutil.rmtree(place)
    raise RunDirectoryError(f"{runs}: expected fewer than {_MAX_ATTEMPTS} attempts at {spec.run_id}")
