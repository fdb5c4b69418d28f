"""Reading a patch as git writes it, strictly: what is not understood is refused, never skipped.

`git apply` passes over text between entries and guesses where headers are vague. A reader that did the same
could see another change than the one that is applied, so each entry must say everything, once, and agree with
itself. Names, modes and counts are the only facts; contents stay lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial._core.escaping import escape_bytes
from repotrial.change._hunks import (
    DEFAULT_LIMITS,
    Body,
    Cursor,
    PatchLimits,
    find_common_name,
    parse_name,
    parse_side,
    read_binary,
    read_hunks,
    verify_header,
    verify_name,
)
from repotrial.change._model import GITLINK, PATCH_UNREADABLE, SYMLINK, ChangedFile, ChangeKind, ChangeView

_START = b"diff --git "
_FIELDS = (
    b"old mode ",
    b"new mode ",
    b"deleted file mode ",
    b"new file mode ",
    b"similarity index ",
    b"dissimilarity index ",
    b"rename from ",
    b"rename to ",
    b"index ",
)
_MODES = frozenset({"100644", "100755", SYMLINK, GITLINK})
_INDEX = re.compile(rb"[0-9a-f]{4,64}\.\.[0-9a-f]{4,64}(?: (\d{6}))?")
_PERCENT = re.compile(rb"(\d|[1-9]\d|100)%")
_TYPE_DIGITS = 2


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a patch and the bytes that say it."""

    file: ChangedFile
    start: int
    end: int


def read_change(patch: bytes, *, limits: PatchLimits = DEFAULT_LIMITS) -> ChangeView:
    """What a patch does, as `git apply` would do it.

    Raises:
        PATCH_UNREADABLE: it is not as git writes, contradicts itself, has unsafe names, or is too large.
    """
    files = tuple(section.file for section in read_sections(patch, limits=limits))
    return ChangeView(files=files, digest=digest_bytes(patch))


def read_sections(
    patch: bytes, *, limits: PatchLimits = DEFAULT_LIMITS, needs_modes: bool = True
) -> tuple[Section, ...]:
    """The same, with the place of each entry.

    Args:
        patch: As `git diff` writes it.
        limits: What is too large.
        needs_modes: Whether an entry that leaves out the mode of a changed file is refused.

    Raises:
        PATCH_UNREADABLE: as above.
    """
    sections: list[Section] = []
    cursor = Cursor(patch, limits)
    for section in _iter_sections(cursor):
        if needs_modes and section.file.is_mode_missing:
            # Without it, git would write through to whatever is there, be it a link.
            cursor.fail("the mode of a changed file (in 'index' or 'new mode')", b"none")
        sections.append(section)
        if len(sections) > limits.files:
            raise PATCH_UNREADABLE.error(f"expected at most {limits.files} files in a patch, found more")
    _verify_once(sections)
    return tuple(sections)


def _iter_sections(cursor: Cursor) -> Iterator[Section]:
    while not cursor.is_at_end:
        start = cursor.position
        if not cursor.starts_with(_START):
            cursor.fail("'diff --git a/… b/…'")
        file = _read_entry(cursor)
        yield Section(file=file, start=start, end=cursor.position)


def _read_entry(cursor: Cursor) -> ChangedFile:
    rest = cursor.take("a header").removeprefix(_START)
    fields = _read_fields(cursor)
    old, new = _find_names(rest, fields, cursor)
    body = Body()
    if cursor.starts_with(b"--- "):
        _verify_sides(old, new, fields, cursor)
        body = read_hunks(cursor)
    elif cursor.starts_with(b"GIT binary patch\n"):
        cursor.take("a binary patch")
        body = read_binary(cursor)
    old_mode, mode = _find_modes(fields, cursor)
    kind = _find_kind(fields, body, cursor)
    return ChangedFile(
        path=escape_bytes(new),
        old_path=escape_bytes(old) if kind == "renamed" else None,
        kind=kind,
        is_binary=body.is_binary,
        is_symlink=SYMLINK in {old_mode, mode},
        added_lines=body.added,
        removed_lines=body.removed,
        binary_bytes=body.new_bytes,
        mode=mode,
        old_mode=old_mode,
    )


def _read_fields(cursor: Cursor) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    while (name := next((name for name in _FIELDS if cursor.starts_with(name)), None)) is not None:
        line = cursor.take("a header line")
        if name in fields:
            cursor.fail("each header line once", line)
        fields[name] = line.removeprefix(name)
    for one, other in ((b"old mode ", b"new mode "), (b"rename from ", b"rename to ")):
        if (one in fields) != (other in fields):
            cursor.fail(f"'{one.decode()}' and '{other.decode()}' together")
    kinds = [b"deleted file mode ", b"new file mode ", b"rename from "]
    if sum(kind in fields for kind in kinds) > 1 or (
        b"old mode " in fields and fields.keys() & set(kinds[:2])
    ):
        cursor.fail("an entry that does one thing")
    for name in (b"similarity index ", b"dissimilarity index "):
        if name in fields and not _PERCENT.fullmatch(fields[name]):
            cursor.fail("a percentage", fields[name])
    return fields


def _find_names(rest: bytes, fields: dict[bytes, bytes], cursor: Cursor) -> tuple[bytes, bytes]:
    if b"rename from " in fields:
        old, new = (parse_name(fields[name], cursor) for name in (b"rename from ", b"rename to "))
        if old == new:
            cursor.fail("a rename to another name", rest)
    else:
        common = find_common_name(rest)
        if common is None:
            cursor.fail("the same name twice in 'diff --git a/… b/…'", rest)
        old = new = common
    verify_header(rest, old, new, cursor)
    for name in (old, new):
        verify_name(name, cursor)
    return old, new


def _verify_sides(old: bytes, new: bytes, fields: dict[bytes, bytes], cursor: Cursor) -> None:
    wanted_old = None if b"new file mode " in fields else old
    wanted_new = None if b"deleted file mode " in fields else new
    for sign, prefix, wanted in ((b"--- ", b"a/", wanted_old), (b"+++ ", b"b/", wanted_new)):
        line = cursor.take(f"'{sign.decode()}'")
        if not line.startswith(sign) or parse_side(line.removeprefix(sign), prefix, cursor) != wanted:
            cursor.fail(f"'{sign.decode()}' with the name that 'diff --git' has", line)


def _find_modes(fields: dict[bytes, bytes], cursor: Cursor) -> tuple[str | None, str | None]:
    stated = None
    if b"index " in fields:
        match = _INDEX.fullmatch(fields[b"index "])
        if match is None:
            cursor.fail("two object names", fields[b"index "])
        stated = match[1]
    old = fields.get(b"deleted file mode ", fields.get(b"old mode ", stated))
    new = fields.get(b"new file mode ", fields.get(b"new mode ", stated))
    if stated is not None and stated not in (old, new):
        cursor.fail("one mode for a file", stated)
    old_mode = None if b"new file mode " in fields else _parse_mode(old, cursor)
    mode = None if b"deleted file mode " in fields else _parse_mode(new, cursor)
    is_kept = not fields.keys() & {b"deleted file mode ", b"new file mode "}
    if is_kept and (old_mode or "")[:_TYPE_DIGITS] != (mode or "")[:_TYPE_DIGITS]:
        cursor.fail(
            "a deletion and an addition where a file becomes a link", f"{old_mode} to {mode}".encode()
        )
    return old_mode, mode


def _parse_mode(text: bytes | None, cursor: Cursor) -> str | None:
    if text is None:
        return None
    mode = text.decode("ascii", "replace")
    if mode not in _MODES:
        cursor.fail("a mode that git knows", text)
    return mode


def _find_kind(fields: dict[bytes, bytes], body: Body, cursor: Cursor) -> ChangeKind:
    has_content = bool(body.added or body.removed or body.is_binary)
    if b"new file mode " in fields:
        if body.removed or body.has_context:
            cursor.fail("nothing but added lines in a new file", b"others")
        return "added"
    if b"deleted file mode " in fields:
        if body.added or body.has_context:
            cursor.fail("nothing but removed lines in a deleted file", b"others")
        return "deleted"
    if b"rename from " in fields:
        return "renamed"
    if has_content:
        return "modified"
    if b"old mode " not in fields or fields[b"old mode "] == fields[b"new mode "]:
        cursor.fail("an entry that changes something (binary content needs `--binary`)")
    return "mode-changed"


def _verify_once(sections: list[Section]) -> None:
    """A path may go away once and come into being once (a file becomes a link), or change once."""
    seen: set[tuple[str, str]] = set()
    for section in sections:
        file = section.file
        for path, what in _iter_effects(file):
            others = {(path, what)} if what != "changed" else {(path, "gone"), (path, "made"), (path, what)}
            if seen & (others | {(path, "changed")}):
                raise PATCH_UNREADABLE.error(f"expected one entry for each path, found another for {path!r}")
            seen.add((path, what))


def _iter_effects(file: ChangedFile) -> Iterator[tuple[str, str]]:
    match file.kind:
        case "added":
            yield file.path, "made"
        case "deleted":
            yield file.path, "gone"
        case "renamed":
            assert file.old_path is not None
            yield file.old_path, "gone"
            yield file.path, "made"
        case "modified" | "mode-changed":
            yield file.path, "changed"
