"""Which paths a snapshot may hold. Paths are bytes: git and Linux know no encoding."""

from __future__ import annotations

from repotrial._core.display import escape_unprintable
from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.paths import find_path_fault
from repotrial.source._options import SnapshotLimits

UNSAFE_PATH = ErrorCode(
    "unsafe-path",
    ContractError,
    "A repository holds a path that could leave its directory or pass for git's own data (`..`, `.git`).",
    hint="remove the path from the commit or archive, or trial another one",
)


def verify_path(path: bytes, limits: SnapshotLimits) -> None:
    """Refuse what is not a plain relative path.

    Raises:
        UNSAFE_PATH: the path is absolute, has empty, `.`, `..` or `.git`-like components, or is too long.
    """
    components = path.split(b"/")
    if len(path) > limits.path_bytes or len(components) > limits.depth:
        raise UNSAFE_PATH.error(
            f"expected at most {limits.path_bytes} bytes and {limits.depth} components in a path, "
            f"found {len(path)} and {len(components)}: {render_path(path[:100])}…"
        )
    if reason := find_path_fault(path):
        raise UNSAFE_PATH.error(f"expected a plain relative path, found {reason} in {render_path(path)}")


def render_path(path: bytes) -> str:
    """A path as it is shown: one line, printable, and different for different bytes."""
    return escape_unprintable(path.decode("utf-8", errors="backslashreplace"))
