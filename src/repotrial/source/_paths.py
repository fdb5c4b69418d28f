"""Which paths a snapshot may hold. Paths are bytes: git and Linux know no encoding."""

from __future__ import annotations

import re
import unicodedata

from repotrial._core.display import escape_unprintable
from repotrial._core.errors import ContractError
from repotrial.source._options import SnapshotLimits

__all__ = ["UnsafePathError", "fold_path", "is_escaping_link", "render_path", "verify_path"]

_COMPONENT_BYTES = 255

# HFS+ ignores these code points in names, so `.g\u200cit` opens `.git` there.
_IGNORED_BY_HFS = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


class UnsafePathError(ContractError):
    """A repository holds a path that could leave its directory or pass for git's own data (`..`, `.git`)."""

    code = "unsafe-path"
    default_hint = "remove the path from the commit or archive, or trial another one"


def verify_path(path: bytes, limits: SnapshotLimits) -> None:
    """Refuse what is not a plain relative path.

    Raises:
        UnsafePathError: the path is absolute, has empty, `.`, `..` or `.git`-like components, or is too long.
    """
    components = path.split(b"/")
    if len(path) > limits.path_bytes or len(components) > limits.depth:
        raise UnsafePathError(
            f"expected at most {limits.path_bytes} bytes and {limits.depth} components in a path, "
            f"found {len(path)} and {len(components)}: {render_path(path[:100])}…"
        )
    for component in components:
        if reason := _find_fault(component):
            raise UnsafePathError(f"expected a plain relative path, found {reason} in {render_path(path)}")


def render_path(path: bytes) -> str:
    """A path as it is shown: one line, printable, and different for different bytes."""
    return escape_unprintable(path.decode("utf-8", errors="backslashreplace"))


def fold_path(path: bytes) -> str:
    """Equal for paths that some file system would take for the same: case and composition do not count."""
    return unicodedata.normalize("NFC", path.decode("utf-8", errors="surrogateescape").casefold())


def is_escaping_link(path: bytes, target: bytes) -> bool:
    """Whether a symbolic link at `path` names something outside the tree (judged by its text alone)."""
    if target.startswith(b"/"):
        return True
    depth = path.count(b"/")
    for component in target.split(b"/"):
        if component == b"..":
            depth -= 1
        elif component not in {b"", b"."}:
            depth += 1
        if depth < 0:
            return True
    return False


def _find_fault(component: bytes) -> str | None:
    if component in {b"", b".", b".."}:
        return "an empty, '.' or '..' component"
    if b"\0" in component:
        return "a NUL byte"
    if len(component) > _COMPONENT_BYTES:
        return f"a name of more than {_COMPONENT_BYTES} bytes"
    if _passes_for_git(component):
        return "a name that some file system takes for '.git'"
    return None


def _passes_for_git(component: bytes) -> bool:
    """`.git` in any case, as NTFS reads it (`git~1`, `.git. `, `.git::…`) and as HFS+ does."""
    text = _IGNORED_BY_HFS.sub("", component.decode("utf-8", errors="surrogateescape")).lower()
    return any(part.partition(":")[0].rstrip(" .") in {".git", "git~1"} for part in text.split("\\"))
