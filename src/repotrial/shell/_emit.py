"""Putting down one command: wrappers off, nested text read, the working directory followed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from repotrial.shell._documents import find_length, iter_substitutions
from repotrial.shell._files import Collector, resolve
from repotrial.shell._model import Assignment, Nesting, Redirection, ShellCommand, Word, WrittenText
from repotrial.shell._programs import load_programs
from repotrial.shell._unwrap import Unwrapped, unwrap
from repotrial.shell._words import Variables, find_output

_MAX_NESTED: Final = 6
_MAX_MISREAD: Final = 20
_HERE: Final = frozenset({"here-doc", "here-string"})


class ShellLimits(msgspec.Struct, frozen=True):
    """How deep text may stand within text."""

    nested: int = 0

    def enter(self) -> ShellLimits | None:
        return ShellLimits(nested=self.nested + 1) if self.nested < _MAX_NESTED else None


Nested: TypeAlias = Callable[
    [str, Collector, Variables, ShellLimits, tuple[int, int, int | None]], str | None
]
"""Reads text that stands inside an argument."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What surrounds a command."""

    nesting: tuple[Nesting, ...] = ()
    sources: tuple[int, ...] = ()
    substitutions: tuple[int, ...] = ()
    input_text: str | None = None
    is_background: bool = False

    def enter(self, nesting: Nesting) -> Context:
        return msgspec.structs.replace(self, nesting=(*self.nesting, nesting))

    def replace(self, **changes: object) -> Context:
        return msgspec.structs.replace(self, **changes)


class Emitter:
    """Puts commands into a collection."""

    def __init__(self, collector: Collector, *, limits: ShellLimits, nested: Nested) -> None:
        self._collector = collector
        self._limits = limits
        self._nested = nested

    def emit(
        self,
        words: tuple[Word, ...],
        scope: Variables,
        context: Context,
        *,
        streams: tuple[Redirection, ...],
        assignments: tuple[Assignment, ...],
        place: tuple[int, int],
    ) -> str | None:
        """Put a command down; answers what it would print, where that is known."""
        given, given_start = self._find_input(streams, scope, context)
        is_query = [word.text for word in words[:2]] in (["command", "-v"], ["command", "-V"])
        left = Unwrapped(words=words, wrappers=()) if is_query else unwrap(words)
        if left.is_too_deep:
            self._collector.fault(*place, "too-deep")
        command = ShellCommand(
            words=(*left.words, _more(place)) if left.has_more else left.words,
            wrappers=left.wrappers,
            assignments=(*assignments, *left.assignments),
            redirections=streams,
            cwd=scope.cwd if left.cwd is None else resolve(scope.cwd, left.cwd),
            sources=context.sources,
            substitutions=context.substitutions,
            input_text=given,
            runs_input=left.runs_input and left.script is None,
            is_background=context.is_background,
            nesting=context.nesting,
            start=place[0],
            end=place[1],
        )
        command = self._load_saved(command)
        if self._run_script(command, left, scope, given_start):
            if left.script is not None:
                self._note_documents(command)  # the script reads it, and who knows what for
            return None
        if left.script is not None:
            command = msgspec.structs.replace(command, wrappers=left.wrappers[:-1])
        self._collector.add(_mark_dynamic(command))
        for inner in left.inner:
            self._emit_inner(inner, command, scope, context)
        self._run_saved(command, scope)
        self._collector.files.rename(command)
        _follow(command, scope)
        if not command.runs_input:
            self._note_documents(command)
        if not all(word.is_static for word in command.words) or left.wrappers:
            return None
        output = self._find_output(command, given)
        if output is not None:
            self._save(command, output)
        return output

    def _find_input(
        self, streams: tuple[Redirection, ...], scope: Variables, context: Context
    ) -> tuple[str | None, int | None]:
        """What a command reads, where that is known, and where it stands byte for byte."""
        for stream in streams:
            if stream.kind in _HERE and stream.text is not None:
                return stream.text, stream.text_start
            text = self._collector.files.find(scope.cwd, stream.target) if stream.kind == "read" else None
            if text is not None:
                return text, None
        return context.input_text, None

    def _find_output(self, command: ShellCommand, given: str | None) -> str | None:
        """What a command prints, also of files that the script itself has written."""
        output = find_output(command.name, command.argv[1:], given)
        if output is not None:
            return output
        files = [word for word in command.arguments if not word.text.startswith("-")]
        text = self._collector.files.find_all(command.cwd, files)
        options = tuple(word.text for word in command.arguments if word not in files)
        return None if text is None else find_output(command.name, options, text)

    def fill_in(
        self, text: str, start: int | None, scope: Variables, context: Context, place: tuple[int, int]
    ) -> range:
        """Put down what a shell runs to fill a text in; answers the numbers of those commands.

        Args:
            text: A here-document, or a word.
            start: Where it stands byte for byte; None where it does not.
            scope: What is known of the shell.
            context: What surrounds the text.
            place: First byte of what holds the text, and the byte after the last one.
        """
        first = len(self._collector.commands)
        for each in iter_substitutions(text, self._collector.budget.spend_filled):
            verbatim = None
            if start is not None and each.start is not None:
                verbatim = start + len(text[: each.start].encode("utf-8", "surrogatepass"))
            self.read_substitution(each.text, scope, context, (*place, verbatim))
            if each.fault is not None:
                self._collector.fault(*place, each.fault)
        return range(first, len(self._collector.commands))

    def fill_misread(
        self, texts: Iterable[tuple[int, str]], scope: Variables, place: tuple[int, int]
    ) -> None:
        """`$((a) | b)` is no sum, as the grammar has it; each text begins with one."""
        for count, (start, text) in enumerate(texts):
            if count >= _MAX_MISREAD:
                self._collector.fault(*place, "unclear")
                break
            if (length := find_length(text, self._collector.budget.spend_filled)) is None:
                self._collector.fault(*place, "too-many")
                break
            self.fill_in(text[:length], start, scope, Context(), place)

    def read_substitution(
        self, text: str, scope: Variables, context: Context, place: tuple[int, int, int | None]
    ) -> str | None:
        """Put down the commands of a substitution; answers what they would print, where that is known."""
        limits = self._enter(text, place[:2])
        if limits is None:
            return None
        first = len(self._collector.commands)
        output = self._nested(text, self._collector, scope.fork(), limits, place)
        for index in range(first, len(self._collector.commands)):
            command = self._collector.commands[index]
            self._collector.commands[index] = msgspec.structs.replace(
                command, nesting=(*context.nesting, "substitution", *command.nesting)
            )
        return output

    def _enter(self, text: str, place: tuple[int, int]) -> ShellLimits | None:
        """Limits for text within text; None, and a fault, where it is too deep or too much."""
        limits = self._limits.enter()
        if limits is None:
            self._collector.fault(*place, "too-deep")
        elif not self._collector.spend_nested(len(text)):
            self._collector.fault(*place, "too-long")
            return None
        return limits

    def _note_documents(self, command: ShellCommand) -> None:
        """A here-document that nothing executes here is text that is written, for any reader."""
        targets = _find_targets(command)
        name = targets[0].text if targets and targets[0].is_static else None
        for stream in command.redirections:
            if stream.kind in _HERE and stream.text:
                self._note(command, stream.text, name, stream.text_start)

    def _note(self, command: ShellCommand, text: str, target: str | None, text_start: int | None) -> None:
        written = WrittenText(
            text=text,
            target=target,
            start=min([command.start, *(self._collector.commands[each].start for each in command.sources)]),
            end=command.end,
            text_start=text_start,
        )
        self._collector.note(written)

    def _save(self, command: ShellCommand, output: str) -> None:
        """`cat > x.sh <<EOF`, `echo … > x.sh`, `… | tee x.sh`: what is in the file is known."""
        targets = _find_targets(command)
        for target in targets:
            path = resolve(command.cwd, target)
            if path is not None:
                self._collector.files.save(path, output)
        if targets and not any(each.kind in _HERE for each in command.redirections):
            self._note(command, output, targets[0].text if targets[0].is_static else None, None)

    def _load_saved(self, command: ShellCommand) -> ShellCommand:
        """An interpreter that is given a file that the script itself has written executes what is in it."""
        if (
            command.runs_input
            or load_programs().resolve(command.name) not in load_programs().names.interpreters
        ):
            return command
        file = next((word for word in command.arguments if not word.text.startswith("-")), None)
        text = self._collector.files.find(command.cwd, file)
        if text is None:
            return command
        return msgspec.structs.replace(command, runs_input=True, input_text=text)

    def _run_saved(self, command: ShellCommand, scope: Variables) -> None:
        """A file that the script itself has written and now runs."""
        runs_files = _is_shell(command.name) or command.name in {"source", "."}
        words = command.arguments if runs_files else command.words[:1]
        file = next((word for word in words if not word.text.startswith("-")), None)
        if file is None or not (runs_files or "/" in file.text):
            return
        text = self._collector.files.find(command.cwd, file)
        limits = None if text is None else self._enter(text, (command.start, command.end))
        if text is None or limits is None:
            return
        first = len(self._collector.commands)
        self._nested(text, self._collector, scope.fork(), limits, (command.start, command.end, None))
        self._adopt(first, command, wrappers=(*command.wrappers, command.name), is_script=True)

    def _emit_inner(
        self, words: tuple[Word, ...], command: ShellCommand, scope: Variables, context: Context
    ) -> None:
        """What `find -exec` runs, on files that the text does not have."""
        place = (words[0].start, words[-1].end)
        first = len(self._collector.commands)
        filled = tuple(
            msgspec.structs.replace(word, text=word.text.replace("{}", "$@"), is_static=False)
            if "{}" in word.text
            else word
            for word in words
        )
        self.emit(filled, scope.fork(), context, streams=(), assignments=(), place=place)
        self._adopt(first, command, wrappers=(*command.wrappers, command.name), is_script=False)

    def _run_script(
        self, command: ShellCommand, left: Unwrapped, scope: Variables, given_start: int | None
    ) -> bool:
        """Read text that the command hands to a shell; answers whether that was possible."""
        script = left.script
        if script is not None:
            if not script.is_static and re.fullmatch(r"\s*[$`]\S.*", script.text, re.DOTALL):
                return False
            text, verbatim = script.text, script.verbatim_start
            place = (script.start, script.end)
        elif command.input_text is not None and _runs_shell_input(command):
            text, verbatim, place = command.input_text, given_start, (command.start, command.end)
        else:
            return False
        limits = self._enter(text, place)
        if limits is None:
            return False
        inner = scope if left.is_same_shell else scope.fork()
        inner.cwd = command.cwd
        for number, word in enumerate(left.parameters):
            inner.variables[str(number)] = word.text if word.is_static else None
        first = len(self._collector.commands)
        self._nested(text, self._collector, inner, limits, (*place, verbatim))
        self._adopt(
            first,
            command,
            wrappers=left.wrappers if script is not None else (*left.wrappers, command.name),
            is_script=True,
        )
        return len(self._collector.commands) > first

    def _adopt(self, first: int, outer: ShellCommand, *, wrappers: tuple[str, ...], is_script: bool) -> None:
        """Say of new commands what holds for the one that starts them."""
        own: tuple[Nesting, ...] = ("script",) if is_script else ()
        for index in range(first, len(self._collector.commands)):
            command = self._collector.commands[index]
            self._collector.commands[index] = msgspec.structs.replace(
                command,
                wrappers=(*wrappers, *command.wrappers),
                nesting=(*outer.nesting, *own, *command.nesting) if is_script else command.nesting,
                sources=command.sources or outer.sources,
                substitutions=(*outer.substitutions, *command.substitutions),
                redirections=(*command.redirections, *outer.redirections)
                if is_script
                else command.redirections,
                is_background=command.is_background or outer.is_background,
            )


def _more(place: tuple[int, int]) -> Word:
    return Word(text="$@", is_static=False, start=place[0], end=place[1])


def _find_targets(command: ShellCommand) -> list[Word]:
    """Files that its output goes to."""
    targets = [each.target for each in command.redirections if each.kind in {"write", "append"}]
    if command.name == "tee":
        targets += [word for word in command.arguments if not word.text.startswith("-")]
    return [target for target in targets if target is not None]


def _runs_shell_input(command: ShellCommand) -> bool:
    if command.name in {"source", "."}:
        return command.argv[1:2] == ("/dev/stdin",)
    return command.runs_input and _is_shell(command.name)


def _is_shell(name: str) -> bool:
    return name in load_programs().names.shells


def _mark_dynamic(command: ShellCommand) -> ShellCommand:
    """Whether the text does not say what runs."""
    first = command.words[0] if command.words else None
    unknown_name = first is not None and not first.is_static
    unknown_input = command.runs_input and command.input_text is None and bool(command.sources)
    is_shell = _is_shell(command.name) or command.name == "eval" or "eval" in command.wrappers
    unknown_text = is_shell and any(not word.is_static for word in command.words[1:])
    if not (unknown_name or unknown_input or unknown_text):
        return command
    return msgspec.structs.replace(command, is_dynamic=True)


def _follow(command: ShellCommand, scope: Variables) -> None:
    """`cd` and `pushd` change where later commands run."""
    if command.name not in {"cd", "pushd", "popd"} or command.wrappers not in (
        (),
        ("builtin",),
        ("command",),
    ):
        return
    targets = [word for word in command.arguments if not re.fullmatch(r"-[LPe@]+|--", word.text)]
    before = scope.cwd
    if command.name == "popd":
        scope.cwd = scope.previous
    elif not targets:
        scope.cwd = "~" if command.name == "cd" else None
    elif targets[0].text == "-":
        scope.cwd = scope.previous
    else:
        scope.cwd = resolve(scope.cwd, targets[0])
    scope.previous = before
