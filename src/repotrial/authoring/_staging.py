"""Contract directories appear whole or not at all: built beside their place, then renamed into it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from repotrial._core.errors import ErrorCode, MachineError, UsageError
from repotrial._core.files import sync_directory

CONTRACT_DIRECTORY_TAKEN = ErrorCode(
    "contract-directory-taken",
    UsageError,
    "A new contract would be written over something: its directory is not empty, or is no directory.",
    hint="choose a directory that does not exist yet, or an empty one",
)
CONTRACT_DIRECTORY_UNWRITABLE = ErrorCode(
    "contract-directory-unwritable",
    MachineError,
    "The directory of a new contract cannot be created or written.",
    hint="check the permissions and the free space of the parent directory",
)


@contextlib.contextmanager
def stage_directory(target: Path) -> Iterator[Path]:
    """A directory to build in; it becomes `target` when the block ends well and vanishes otherwise.

    Raises:
        CONTRACT_DIRECTORY_TAKEN: there is something at `target`, before or after the work.
        CONTRACT_DIRECTORY_UNWRITABLE: the file system refuses.
    """
    _verify_free(target)
    staging = target.parent / f".{target.name[:100]}.{secrets.token_hex(6)}"
    try:
        staging.mkdir(parents=True)
        yield staging
        _rename(staging, target)
    except OSError as error:
        raise CONTRACT_DIRECTORY_UNWRITABLE.error(
            f"expected to write the contract at {target}, found: {error}"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _verify_free(target: Path) -> None:
    try:
        if target.is_symlink() or (target.exists() and not target.is_dir()):
            raise CONTRACT_DIRECTORY_TAKEN.error(f"expected no file at {target}, found one")
        if target.is_dir() and any(target.iterdir()):
            raise CONTRACT_DIRECTORY_TAKEN.error(
                f"expected {target} to be absent or empty, found files in it"
            )
    except OSError as error:
        raise CONTRACT_DIRECTORY_UNWRITABLE.error(f"expected to read {target}, found: {error}") from error


def _rename(staging: Path, target: Path) -> None:
    try:
        # Over an empty directory this is one step; anything that came there meanwhile makes it fail.
        os.rename(staging, target)  # noqa: PTH104 - `Path.replace` would promise more than it does for directories
    except (FileExistsError, NotADirectoryError) as error:
        raise CONTRACT_DIRECTORY_TAKEN.error(
            f"expected {target} to stay empty, found that something was put there meanwhile"
        ) from error
    except OSError as error:
        if target.exists():
            raise CONTRACT_DIRECTORY_TAKEN.error(
                f"expected {target} to stay empty, found that something was put there meanwhile"
            ) from error
        raise
    sync_directory(target.parent)
