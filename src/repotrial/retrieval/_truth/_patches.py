"""Files that a patch touches, whatever tool wrote it."""

from __future__ import annotations

import re
from typing import Final

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

__all__ = ["find_embedded_patches", "list_patched_files"]

_NULL: Final = "/dev/null"
_PREFIX: Final = re.compile(r"^[ab]/")
_GIT_HEADER: Final = re.compile(r"^diff --git (?P<names>.+)$", re.MULTILINE)
_START: Final = re.compile(r"^(diff --git |--- (a/|/dev/null))", re.MULTILINE)
_HERE_DOC: Final = re.compile(r"<<-?\s*(['\"]?)(?P<word>[A-Za-z_][A-Za-z0-9_]*)\1")


def list_patched_files(text: str) -> tuple[str, ...]:
    """Every file that a patch names, new name before old, without repeats; empty where it is no patch."""
    found: list[str] = []
    try:
        for file in PatchSet(text):
            found += [_clean(name) for name in (file.target_file, file.source_file) if name]
    except (UnidiffParseError, ValueError, IndexError, AttributeError):
        found.clear()  # the headers below are all that can be read
    # Changes without a hunk (modes, binaries, pure renames) stand in their header alone.
    for header in _GIT_HEADER.finditer(_without_hunks(text)):
        found += _split_header(header["names"])
    return tuple(dict.fromkeys(name for name in found if name and name != _NULL))


def find_embedded_patches(script: str) -> str:
    """The patches that a script carries in here-documents, or plainly; empty where it has none."""
    parts: list[str] = []
    lines = script.splitlines(keepends=True)
    place = 0
    while place < len(lines):
        opened = _HERE_DOC.search(lines[place])
        place += 1
        if opened is None:
            continue
        end = next((n for n in range(place, len(lines)) if lines[n].strip() == opened["word"]), len(lines))
        body = "".join(lines[place:end])
        if _START.search(body):
            parts.append(body)
        place = end + 1
    if parts:
        return "".join(parts)
    start = _START.search(script)
    return script[start.start() :] if start else ""


def _without_hunks(text: str) -> str:
    """Lines that are not content of a hunk: a changed line may look like a header."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(("+", "-", " ")))


def _split_header(names: str) -> list[str]:
    """The new and the old name of `a/X b/Y`; where spaces make it ambiguous, the split with equal names."""
    quoted = re.fullmatch(r'("(?:[^"\\]|\\.)*"|\S+) ("(?:[^"\\]|\\.)*"|\S+)', names)
    if quoted:
        return [_clean(quoted[2]), _clean(quoted[1])]
    half = (len(names) - 1) // 2
    if names[:half].removeprefix("a/") == names[half + 1 :].removeprefix("b/"):
        return [_clean(names[half + 1 :])]
    old, _, new = names.rpartition(" b/")
    return [_clean(new), _clean(old)]


def _clean(name: str) -> str:
    text = name.strip().split("\t", 1)[0]
    if text.startswith('"') and text.endswith('"'):
        text = text[1:-1].encode("latin-1", "replace").decode("unicode_escape", "replace")
        text = text.encode("latin-1", "replace").decode("utf-8", "replace")
    return text if text == _NULL else _PREFIX.sub("", text, count=1)
