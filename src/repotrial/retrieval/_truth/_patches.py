"""Files that a patch touches, whatever tool wrote it."""

from __future__ import annotations

import re
from typing import Final

from repotrial._core.errors import AgentError
from repotrial.change import PATCH_UNREADABLE, scan_headers, scan_patch

_PREFIX: Final = re.compile(r"^[ab]/")
_START: Final = re.compile(r"^(diff --git |--- (a/|/dev/null))", re.MULTILINE)
_HERE_DOC: Final = re.compile(r"<<-?\s*(['\"]?)(?P<word>[A-Za-z_][A-Za-z0-9_]*)\1")


def list_patched_files(text: str) -> tuple[str, ...]:
    """Every file that a patch names, new name before old, without repeats; empty if it is no patch."""
    patch = text.encode("utf-8", "surrogatepass")
    try:
        files = scan_patch(patch)
    except AgentError as error:
        if error.code != PATCH_UNREADABLE:
            raise
        files = scan_headers(patch)  # all that can be read
    names = (name for file in files for name in (file.new_name, file.old_name) if name)
    return tuple(dict.fromkeys(_PREFIX.sub("", name.strip(), count=1) for name in names))


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
