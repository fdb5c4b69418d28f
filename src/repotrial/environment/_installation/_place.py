"""Directories of ours that sandboxes see parts of: private copies of a contract's files, and scratch."""

from __future__ import annotations

import os
from pathlib import Path

from repotrial._core.closing import Closing
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ContractError, ErrorCode
from repotrial.contract import LoadedContract
from repotrial.isolation import Account
from repotrial.workspace import WorkspacePlace

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


CONTRACT_CHANGED = ErrorCode(
    "contract-changed",
    ContractError,
    "A file beside the contract is no longer the one that was loaded.",
    hint="start again; run `repotrial contract lock` first if the change is what you want",
)


def read_pinned(loaded: LoadedContract, path: str) -> bytes:
    """The bytes of a file beside the contract, as they were when it was loaded.

    Raises:
        CONTRACT_CHANGED: they are others now, or gone.
    """
    expected = {pin.path: pin.digest for pin in loaded.files}.get(path)
    try:
        data = (loaded.directory / path).read_bytes()
    except OSError as error:
        raise CONTRACT_CHANGED.error(f"{path}: expected a file, found: {error.strerror}") from error
    if digest_bytes(data) != expected:
        raise CONTRACT_CHANGED.error(f"{path}: expected {expected}, found {digest_bytes(data)}")
    return data


class ScratchPlace(Closing):
    """A directory that sandboxes can be shown, removed when it is closed, or by the next start.

    Args:
        parent: Where it is made: a directory, or a place that stays as long.
        owner: The account that programs inside have, where it is not ours.
    """

    def __init__(self, parent: Path | WorkspacePlace, *, owner: Account | None) -> None:
        # The same label and lock as a workspace: what a killed process leaves is found in the same way.
        self._place = WorkspacePlace(parent, owner=owner)
        self._place.path.chmod(0o711)
        self.path = self._place.path / "scratch"
        self._place.make_directory(self.path, mode=0o755)

    def write(self, name: str, data: bytes, *, is_executable: bool = False) -> Path:
        """A new file that programs inside can read; directories on the way are made."""
        path = self.path / name
        if path.parent != self.path:
            path.parent.mkdir(parents=True, exist_ok=True)
            for directory in path.relative_to(self.path).parents:
                if directory != Path():
                    (self.path / directory).chmod(0o755)
        with os.fdopen(os.open(path, _CREATE, 0o600), "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), 0o755 if is_executable else 0o644)
        return path

    def close(self) -> None:
        """Remove it. Idempotent."""
        self._place.remove()
