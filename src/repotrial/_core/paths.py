"""What the text of a relative path says about it, on this file system and on others. Paths are bytes."""

from __future__ import annotations

import re
import unicodedata

_COMPONENT_BYTES = 255

# HFS+ ignores these code points in names, so `.g\u200cit` opens `.git` there.
_IGNORED_BY_HFS = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def find_path_fault(path: bytes) -> str | None:
    """Why a path is no plain relative one: empty, `.`, `..` or `.git`-like components, NUL, long names."""
    return next((fault for part in path.split(b"/") if (fault := _find_fault(part)) is not None), None)


def fold_path(path: bytes) -> str:
    """Equal for paths that some file system would take for the same: case and composition do not count."""
    return unicodedata.normalize("NFC", path.decode("utf-8", errors="surrogateescape").casefold())


def is_escaping_link(path: bytes, target: bytes) -> bool:
    """Whether a symbolic link at `path` names something outside the tree (judged by its text alone)."""
    return resolve_link(path, target) is None


def resolve_link(path: bytes, target: bytes) -> bytes | None:
    """What a link names, relative to the top (which is empty), by its text alone; None: outside the tree."""
    if target.startswith(b"/"):
        return None
    parts = path.split(b"/")[:-1]
    for component in target.split(b"/"):
        if component == b"..":
            if not parts:
                return None
            parts.pop()
        elif component not in {b"", b"."}:
            parts.append(component)
    return b"/".join(parts)


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
