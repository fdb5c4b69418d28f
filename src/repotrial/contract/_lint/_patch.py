"""The reference patch, as far as lint needs it: which paths it touches, and which lines it adds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unidiff.patch import PatchedFile

__all__ = ["FileChange", "Patch", "Unreadable", "parse_patch"]

_NOWHERE = "/dev/null"
_MAX_LINES = 1_000_000  # the library makes an object of each
_RENAME = re.compile(r"^(?:rename|copy) (?:from|to) (.+)$", re.MULTILINE)
_ESCAPE = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
_CONTROL = dict(zip(b"abtnvfr", b"\a\b\t\n\v\f\r", strict=True))


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """The change of one file."""

    paths: tuple[str, ...]
    """Where it was and where it is: one path, or two for a rename."""
    added: tuple[str, ...]
    seen: tuple[str, ...]
    """Removed and context lines: text that the snapshot already holds."""
    removed_count: int


@dataclass(frozen=True, kw_only=True)
class Patch:
    """A parsed unified diff."""

    files: tuple[FileChange, ...]

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Every path that the change touches, once, in order."""
        return tuple(dict.fromkeys(path for file in self.files for path in file.paths))

    @property
    def lines_changed(self) -> int:
        return sum(len(file.added) + file.removed_count for file in self.files)


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    """Bytes that are no patch."""

    reason: str


def parse_patch(data: bytes) -> Patch | Unreadable:
    """Read a unified diff, as git or diff write it."""
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    if data.count(b"\n") > _MAX_LINES:
        return Unreadable(reason=f"more than {_MAX_LINES} lines")
    text = data.decode("utf-8", errors="replace")  # the patched files may be in any encoding
    try:
        files = tuple(_convert(file) for file in PatchSet(text))
    except UnidiffParseError as error:
        return Unreadable(reason=str(error).strip())
    except ValueError:  # a line number of thousands of digits
        return Unreadable(reason="a hunk header with an impossible number")
    files += _pure_renames(text, known={path for file in files for path in file.paths})
    return Patch(files=files) if files else Unreadable(reason="no file header ('--- a/…', '+++ b/…')")


def _convert(file: PatchedFile) -> FileChange:
    lines = [line for hunk in file for line in hunk]
    return FileChange(
        paths=tuple(dict.fromkeys(_iter_paths(file.source_file, file.target_file))),
        added=tuple(line.value.rstrip("\r\n") for line in lines if line.is_added),
        seen=tuple(line.value.rstrip("\r\n") for line in lines if line.is_removed or line.is_context),
        removed_count=sum(1 for line in lines if line.is_removed),
    )


def _iter_paths(source: str, target: str) -> Iterator[str]:
    sides = [_unquote(path) for path in (source, target)]
    real = [(path, prefix) for path, prefix in zip(sides, ("a/", "b/"), strict=True) if path != _NOWHERE]
    has_prefix = all(path.startswith(prefix) for path, prefix in real)
    for path, prefix in real:
        yield path.removeprefix(prefix) if has_prefix else path


def _pure_renames(text: str, *, known: set[str]) -> tuple[FileChange, ...]:
    """Renames of quoted names, which the library passes over when no line changes."""
    paths = dict.fromkeys(_unquote(found) for found in _RENAME.findall(text))
    missing = tuple(path for path in paths if path not in known)
    return (FileChange(paths=missing, added=(), seen=(), removed_count=0),) if missing else ()


def _unquote(path: str) -> str:
    r"""Undo git's C-style quotes: `"\303\244.txt"` is `ä.txt`."""
    if len(path) < len('""') or not (path.startswith('"') and path.endswith('"')):
        return path
    raw = _ESCAPE.sub(_unescape, path[1:-1].encode())
    return raw.decode("utf-8", errors="replace")


def _unescape(match: re.Match[bytes]) -> bytes:
    body = match[1]
    if body.isdigit():
        return bytes([int(body, 8) & 0xFF])
    return bytes([_CONTROL.get(body[0], body[0])])
