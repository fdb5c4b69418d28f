"""Files that prose and scripts mention: the weakest source of ground truth (R5)."""

from __future__ import annotations

import re
from typing import Final

_PATH: Final = re.compile(
    r"(?<![\w./-])(?P<path>(?:[\w.-]+/)+[\w.-]*\w\.[A-Za-z][A-Za-z0-9]{0,9})(?=$|[\s`'\":,#;)\]>]|\.(?:\s|$))",
    re.MULTILINE,
)
_NOT_OURS: Final = re.compile(r"^(https?|ftp|usr|bin|tmp|etc|opt|var)\b|node_modules|\.lock$")
_WORKSPACE: Final = re.compile(r"/(?:workspace|testbed|repo_full|app)/")


def list_mentioned_files(text: str) -> tuple[str, ...]:
    """Relative paths with an extension, in order, without repeats; addresses and system files are none."""
    plain = re.sub(r"\b(?:https?|ftp)://\S+", " ", _WORKSPACE.sub(" ", text))
    found = (match["path"].removeprefix("./") for match in _PATH.finditer(plain))
    return tuple(dict.fromkeys(path for path in found if not _NOT_OURS.search(path)))
