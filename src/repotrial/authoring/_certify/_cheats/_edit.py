"""Changes of whole files as one patch, or as one shell script."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Mapping

from repotrial._core.digest import name_blob

_NO_END = "\\ No newline at end of file\n"
_MARK = "END-OF-CHEAT"


def build_patch(old: Mapping[str, str], new: Mapping[str, str | None]) -> bytes:
    """A patch that git applies.

    Args:
        old: Files of the snapshot as far as they matter, by path.
        new: What becomes of files; None removes one.
    """
    return "".join(
        line for path, text in sorted(new.items()) for line in _iter_file(path, old.get(path), text)
    ).encode()


def _iter_file(path: str, old: str | None, new: str | None) -> Iterator[str]:
    if old == new:
        return
    yield f"diff --git a/{path} b/{path}\n"
    if old is None:
        yield "new file mode 100644\n"
    if new is None:
        yield "deleted file mode 100644\n"
    mode = " 100644" if old is not None and new is not None else ""
    yield f"index {_name_blob(old)}..{_name_blob(new)}{mode}\n"
    before = "/dev/null" if old is None else f"a/{path}"
    after = "/dev/null" if new is None else f"b/{path}"
    lines = difflib.unified_diff(_split(old), _split(new), before, after)
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n{_NO_END}"


def _name_blob(text: str | None) -> str:
    return "0" * 40 if text is None else name_blob(text.encode())


def _split(text: str | None) -> list[str]:
    """Lines as git counts them: other line breaks than its own are characters."""
    if not text:
        return []
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def build_script(files: Mapping[str, str], *commands: str) -> bytes:
    """A shell script that writes files, then does more."""
    written = "".join(
        f"mkdir -p {shlex.quote(path.rpartition('/')[0] or '.')}\n"
        f"cat > {shlex.quote(path)} <<'{_MARK}'\n{text.rstrip()}\n{_MARK}\n"
        for path, text in sorted(files.items())
    )
    return (written + "\n".join(commands)).encode()
