"""Contents that were seen at some mark: kept, so that a later mark can be compared with it."""

from __future__ import annotations

from pathlib import Path

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, MachineError

_TOTAL_BYTES = 2 * 1024**3
_MEMORY_BYTES = 256 * 1024
"""Of small changes; a file for each would cost more than all else that is done with them."""


WORKSPACE_UNUSABLE = ErrorCode(
    "workspace-unusable",
    MachineError,
    "There is no room for a workspace: the directory is missing, full or not writable.",
    hint="name a directory of your own with enough room",
)


class ContentStore:
    """Memory for a little, then a directory of the harness, out of the agent's reach; up to a bound, beyond
    which nothing is kept.
    """

    def __init__(
        self, root: Path, *, total_bytes: int = _TOTAL_BYTES, memory_bytes: int = _MEMORY_BYTES
    ) -> None:
        self._root = root
        self._left_bytes = total_bytes
        self._left_memory_bytes = min(memory_bytes, total_bytes)
        self._held: dict[Digest, bytes] = {}

    def keep(self, digest: Digest, data: bytes) -> None:
        """Keep bytes under their digest."""
        if digest in self._held:
            return
        if len(data) <= self._left_memory_bytes:
            self._left_memory_bytes -= len(data)
            self._held[digest] = data
            return
        path = self._place(digest)
        if not path.exists() and len(data) <= self._left_bytes:
            self._left_bytes -= len(data)
            try:
                self._root.mkdir(mode=0o700, exist_ok=True)
                path.write_bytes(data)
            except OSError as error:
                raise WORKSPACE_UNUSABLE.error(
                    f"{path}: expected to keep a content, found: {error}"
                ) from error

    def load(self, digest: Digest) -> bytes | None:
        """The bytes of that digest; None if they were not kept."""
        if digest in self._held:
            return self._held[digest]
        try:
            data = self._place(digest).read_bytes()
        except FileNotFoundError:
            return None
        return data if digest_bytes(data) == digest else None

    def _place(self, digest: Digest) -> Path:
        return self._root / digest.removeprefix("sha256:")
