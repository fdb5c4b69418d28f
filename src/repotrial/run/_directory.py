"""The directory of one attempt: there from the first moment, never used twice (P1, P25)."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.files import sync_directory, write_atomic
from repotrial.contract import ContractRecord, RunSpec
from repotrial.trace import RunPaths

_ATTEMPT = "-a"
_MAX_ATTEMPTS = 10_000
_UNFINISHED = ".new-"
_UNFINISHED_NAME = re.compile(r"\.new-[a-z0-9_]{8}")
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)


RUN_DIRECTORY = ErrorCode(
    "run-directory",
    MachineError,
    "The directory of a run could not be made.",
    hint="name a directory for runs that you may write to, on a disk with room",
)


class AttemptIndex:
    """Attempts at all specifications, from one look at the directory of runs."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._found: dict[str, list[tuple[int, str]]] = {}
        for name in _list_names(runs):
            run_id, mark, number = name.rpartition(_ATTEMPT)
            if mark and number.isdecimal():
                self._found.setdefault(run_id, []).append((int(number), name))

    def find(self, run_id: str) -> list[Path]:
        """Directories of attempts at one specification, oldest first, as they were at that look."""
        paths = [self._runs / name for _, name in sorted(self._found.get(run_id, ()))]
        return [path for path in paths if path.is_dir()]


def _list_names(runs: Path) -> list[str]:
    try:
        return os.listdir(runs)  # noqa: PTH208 - hundreds of names, of which one or two become paths
    except (FileNotFoundError, NotADirectoryError):
        return []


def open_attempt(runs: Path, spec: RunSpec, record: ContractRecord, *, number: int | None = None) -> RunPaths:
    """Make the directory of a new attempt, with its specification and its contract in it.

    It appears under its name complete or not at all, and two harnesses never get the same one.

    Args:
        runs: Where.
        spec: What is run.
        record: Its contract.
        number: The attempt's, where it was given out elsewhere; None: the next one that is free.

    Raises:
        RUN_DIRECTORY: the machine does not let us.
    """
    try:
        runs.mkdir(parents=True, exist_ok=True)
        with _locked(runs, fcntl.LOCK_SH):
            place = Path(tempfile.mkdtemp(dir=runs, prefix=_UNFINISHED))
            place.chmod(0o755)
            # Sealing makes all of it durable: what a power cut leaves of a run before that is worth nothing.
            write_atomic(RunPaths(place).spec, spec.to_bytes() + b"\n", is_durable=False)
            write_atomic(RunPaths(place).contract, record.to_bytes(), is_durable=False)
            return RunPaths(_claim(runs, place, spec.run_id, number))
    except OSError as error:
        raise RUN_DIRECTORY.error(f"{runs}: expected to make a run directory, found: {error}") from error


def remove_unfinished(runs: Path) -> tuple[str, ...]:
    """Remove what a harness that was killed left of directories it was making; their names.

    Nothing is removed while some harness makes one, nor anything that is not just what we begin with.
    """
    try:
        with _locked(runs, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return tuple(path.name for path in sorted(runs.glob(f"{_UNFINISHED}*")) if _try_remove(path))
    except OSError:  # not there yet, in use, or not ours to tidy: none of it keeps a run from starting
        return ()


def _try_remove(path: Path) -> bool:
    """Whether it was unfinished and is gone; one that stays must not keep the others."""
    try:
        if not _is_unfinished(path):
            return False
        shutil.rmtree(path)
    except OSError:
        return False
    return True


def _is_unfinished(path: Path) -> bool:
    if not _UNFINISHED_NAME.fullmatch(path.name) or path.is_symlink() or not path.is_dir():
        return False
    if path.stat().st_uid != os.geteuid():
        return False
    begun = (RunPaths(path).spec.name, RunPaths(path).contract.name)
    # Half-written ones have the name of what they were to become within their own.
    with os.scandir(path) as entries:
        return all(
            entry.is_file(follow_symlinks=False) and any(name in entry.name for name in begun)
            for entry in entries
        )


@contextmanager
def _locked(runs: Path, operation: int) -> Iterator[None]:
    handle = os.open(runs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, operation)
        yield
    finally:
        os.close(handle)


def _claim(runs: Path, place: Path, run_id: str, number: int | None) -> Path:
    attempts = AttemptIndex(runs).find(run_id)
    after = 1 if not attempts else int(attempts[-1].name.rpartition(_ATTEMPT)[2]) + 1
    wanted = range(after, after + _MAX_ATTEMPTS) if number is None else (number,)
    for each in wanted:
        target = runs / f"{run_id}{_ATTEMPT}{each}"
        try:
            place.rename(target)  # the first rename owns the number: no run directory is ever empty
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            continue
        sync_directory(runs)
        return target
    shutil.rmtree(place)
    raise RUN_DIRECTORY.error(f"{runs}: expected fewer than {_MAX_ATTEMPTS} attempts at {run_id}")
