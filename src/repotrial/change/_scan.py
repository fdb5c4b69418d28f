"""Reading a patch that any tool wrote, as far as it can be read: which files it names, and their lines.

For patches that were not made by us: a contract's reference, a task's solution, what an agent printed. What
an agent submits is read by `read_change`, which refuses what is not said exactly.
"""

from __future__ import annotations

import re

import msgspec

from repotrial.change._hunks import DEFAULT_LIMITS, Cursor, Hunks, guess_names, unquote

_GIT = b"diff --git "
_NOWHERE = b"/dev/null"
_BINARY = re.compile(rb"Binary files? (?P<old>[^\t]+?) (?:and (?P<new>[^\t]+?) differ|has changed)")


class PatchedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that a patch names."""

    old_name: str | None
    """As the patch writes it, without quotes; None if nothing was there."""
    new_name: str | None
    """The same after the change; None if nothing is left."""
    added: tuple[str, ...] = ()
    """Without line ends; bytes that are no UTF-8 are replaced."""
    removed: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    """Lines that stay as they are."""

    @property
    def old_lines(self) -> tuple[str, ...]:
        """What the patch shows of the file before the change, in no order."""
        return (*self.removed, *self.context)

    @property
    def paths(self) -> tuple[str, ...]:
        """Where it was and where it is; git's `a/` and `b/` are left out if every name has them."""
        sides = [(self.old_name, "a/"), (self.new_name, "b/")]
        named = [(name, prefix) for name, prefix in sides if name]
        has_prefix = all(name.startswith(prefix) for name, prefix in named)
        return tuple(
            dict.fromkeys(name.removeprefix(prefix) if has_prefix else name for name, prefix in named)
        )


def scan_patch(patch: bytes) -> tuple[PatchedFile, ...]:
    """Every file of a patch, in its order; none if it is no patch.

    Raises:
        PATCH_UNREADABLE: a hunk has no file or not the lines that it counts, the headers of a file
            contradict each other, or it is too large.
    """
    return _Scan(Cursor(patch if patch.endswith(b"\n") else patch + b"\n", DEFAULT_LIMITS)).read()


def scan_headers(patch: bytes) -> tuple[PatchedFile, ...]:
    """The files that `diff --git` lines name, whatever the rest looks like."""
    return tuple(
        PatchedFile(old_name=old.decode("utf-8", "replace"), new_name=new.decode("utf-8", "replace"))
        for line in patch.splitlines()
        if line.startswith(_GIT)
        for old, new in [guess_names(line.removeprefix(_GIT))]
    )


class _File:
    """What is known of a file so far."""

    def __init__(self, old: bytes, new: bytes, cursor: Cursor) -> None:
        self.old = old
        self.new = new
        self.hunks = Hunks(cursor, is_strict=False)
        self.is_header_open = False
        """Whether git's own header lines may follow."""

    def build(self) -> PatchedFile:
        old, new = (
            None if name == _NOWHERE else name.decode("utf-8", "replace") for name in (self.old, self.new)
        )
        return PatchedFile(
            old_name=old,
            new_name=new,
            added=tuple(line.text for line in self.hunks.added),
            removed=tuple(self.hunks.removed),
            context=tuple(self.hunks.context),
        )


class _Scan:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._files: list[_File] = []
        self._current: _File | None = None

    def read(self) -> tuple[PatchedFile, ...]:
        while not self._cursor.is_at_end:
            if Hunks.is_next(self._cursor):
                self._read_hunk()
            else:
                self._read_line(self._cursor.take("a line").rstrip(b"\r"))
        return tuple(file.build() for file in self._files)

    def _read_hunk(self) -> None:
        if self._current is None:
            self._cursor.fail("a file header ('--- a/…', '+++ b/…') before a hunk")
        self._current.is_header_open = False
        self._current.hunks.read()

    def _read_line(self, line: bytes) -> None:
        if line.startswith(_GIT):
            self._open(*guess_names(line.removeprefix(_GIT)))
            self._files[-1].is_header_open = True
        elif self._current is not None and self._current.is_header_open:
            self._read_field(self._current, line)
        elif line.startswith(b"--- ") and self._cursor.starts_with(b"+++ "):
            self._open(_parse_side(line), _parse_side(self._cursor.take("'+++ '").rstrip(b"\r")))
        elif line.startswith(b"+++ "):
            self._cursor.fail("'--- ' before '+++ '", line)
        elif line and not line.startswith(b"\\"):
            self._current = None
            if binary := _BINARY.match(line):
                self._open(unquote(binary["old"]), unquote(binary["new"] or binary["old"]))

    def _open(self, old: bytes, new: bytes) -> None:
        self._current = _File(old, new, self._cursor)
        self._files.append(self._current)

    def _read_field(self, file: _File, line: bytes) -> None:
        if line.startswith(b"new file mode "):
            file.old = _NOWHERE
        elif line.startswith(b"deleted file mode "):
            file.new = _NOWHERE
        elif line.startswith(b"+++ ") and _parse_side(line) != file.new:
            self._cursor.fail("'+++ ' with the name that 'diff --git' has", line)


def _parse_side(line: bytes) -> bytes:
    """The name in a `---` or `+++` line; a time may follow after a tab."""
    return unquote(line[4:].partition(b"\t")[0])
