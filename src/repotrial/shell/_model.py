"""A shell script as rules see it: simple commands in the order in which they would run."""

from __future__ import annotations

import posixpath
from typing import Literal, TypeAlias

import msgspec

Nesting: TypeAlias = Literal[
    "subshell", "substitution", "process-substitution", "function", "loop", "condition", "script"
]
"""What a command stands in; `script` is text that another program hands to a shell."""

FaultReason: TypeAlias = Literal["syntax", "unclear", "too-long", "too-deep", "too-many"]
"""`unclear` is text that a shell fills in, and whose end could not be told."""

RedirectionKind: TypeAlias = Literal["read", "write", "append", "here-doc", "here-string", "duplicate"]


class Word(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One word after quotes are removed."""

    text: str
    """What the program would see; parts that cannot be known stand as they are written (`$x`)."""
    is_static: bool = True
    """Whether all of it is known."""
    is_quoted: bool = False
    """Whether a part of it was quoted, so that `*` in it may be no pattern."""
    start: int
    """First byte in the text that was parsed."""
    end: int
    """Byte after the last one."""
    verbatim_start: int | None = None
    """Where `text` stands byte for byte; None where quotes inside it were removed."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`NAME=value`, before a command or alone."""

    name: str
    value: Word | None
    """None where it is a list."""


class Redirection(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a stream of a command leads."""

    kind: RedirectionKind
    target: Word | None = None
    """The file; None for here-documents."""
    text: str | None = None
    """What a here-document or here-string holds; None where it cannot be known."""
    text_start: int | None = None
    """Where that text stands byte for byte; None where it does not."""


def join_path(directory: str | None, path: str) -> str | None:
    """A path as seen from where the script began; None where that is not known."""
    if path.startswith(("/", "~")):
        return posixpath.normpath(path)
    if directory is None:
        return None
    return posixpath.normpath(posixpath.join(directory, path))


class ShellCommand(msgspec.Struct, frozen=True, kw_only=True):
    """One simple command, with the programs that only start others taken off its front."""

    words: tuple[Word, ...]
    """Program and arguments; empty where only a redirection stands."""
    wrappers: tuple[str, ...] = ()
    """Programs that were taken off (`sudo`, `timeout`, `bash`), outermost first."""
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    cwd: str | None = "."
    """Where it runs, relative to where the script began (or absolute, or under `~`); None: not known."""
    sources: tuple[int, ...] = ()
    """Commands whose output it reads through a pipe."""
    substitutions: tuple[int, ...] = ()
    """Commands whose output is part of its words or of its input."""
    input_text: str | None = None
    """What it reads, where that is known."""
    runs_input: bool = False
    """Whether it executes what it reads: `… | sh`."""
    is_dynamic: bool = False
    """Whether what it runs cannot be known from the text."""
    is_background: bool = False
    nesting: tuple[Nesting, ...] = ()
    """What it stands in, outermost first."""
    start: int
    """First byte in the text that was parsed; for text inside an argument, that of the argument."""
    end: int
    """Byte after the last one."""

    @property
    def name(self) -> str:
        """The program's name without its directory; empty where only a redirection stands."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self.words[1:]

    @property
    def argv(self) -> tuple[str, ...]:
        """The words' texts."""
        return tuple(word.text for word in self.words)

    def locate(self, path: str) -> str | None:
        """A path of this command as seen from where the script began; None if its directory is not known."""
        return join_path(self.cwd, path)


class WrittenText(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Text that a script puts somewhere, or gives to a program that does not execute it."""

    text: str
    target: str | None
    """The file, as it is written; None where there is none, or where its name cannot be known."""
    start: int
    """First byte of the command that writes it."""
    end: int
    """Byte after the last one."""
    text_start: int | None
    """Where the text stands byte for byte; None where it does not."""


class ShellFault(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A place that is no shell syntax, or that was not looked into."""

    start: int
    end: int
    reason: FaultReason


class ShellScript(msgspec.Struct, frozen=True, kw_only=True):
    """All that a script would run, as far as its text says."""

    commands: tuple[ShellCommand, ...]
    """In the order in which they would run; what a substitution runs comes before its command."""
    assignments: tuple[Assignment, ...] = ()
    """Those that stand alone."""
    functions: tuple[tuple[str, int, int], ...] = ()
    """Functions that it defines: name, first byte, byte after the last."""
    written: tuple[WrittenText, ...] = ()
    """Text that nothing here executes; something later may."""
    faults: tuple[ShellFault, ...] = ()
    """What was not understood."""

    @property
    def is_complete(self) -> bool:
        """Whether all of the text was understood."""
        return not self.faults

    @property
    def is_dynamic(self) -> bool:
        """Whether the text does not say all that it would run."""
        return any(command.is_dynamic for command in self.commands)
