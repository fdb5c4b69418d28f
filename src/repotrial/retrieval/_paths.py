"""Paths as they are compared: two rules, and which one applies is a choice of the caller's (R7)."""

from __future__ import annotations

from typing import Final

_ROOTS: Final = ("/workspace", "/testbed", "/repo_full")
"""Where harnesses put the repository; the specification names them."""


def normalize_path(path: str) -> str:
    """A path relative to the repository, in lower case; applying it again changes nothing.

    Dots are resolved, spaces around names dropped, one root of the workspace is taken off. Nothing else is: a
    directory named `a` stays, because `a/` is a prefix only in a patch.
    """
    text = path.strip().replace("\\", "/")
    for root in _ROOTS:
        if text.startswith(f"{root}/"):
            text = text[len(root) :]
            break
    parts: list[str] = []
    for part in (piece.strip() for piece in text.split("/")):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts).lower()


def normalize_as_reference(path: str) -> str:
    """As the reference implementation does at every stage; it is not idempotent."""
    text = path.strip()
    text = text.removeprefix("/workspace/").removeprefix("workspace/")
    if text.startswith(("a/", "b/")):
        text = text[2:]
    return text.strip("/").lower()
