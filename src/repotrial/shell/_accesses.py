"""Files that a shell command reads, lists, searches or writes, as far as its words say."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from repotrial._core.files import read_package_data
from repotrial.shell._line_ranges import LineSpan, find_awk_ranges, find_count, find_sed_ranges
from repotrial.shell._model import ShellCommand, ShellScript, Word, join_path
from repotrial.shell._programs import load_programs
from repotrial.shell._python_code import find_python_uses

AccessKind: TypeAlias = Literal["read", "list", "search", "write"]


class FileAccess(msgspec.Struct, frozen=True, kw_only=True):
    """A path and what a command does with it."""

    path: str
    """As the command names it, from the directory that was given; patterns stand as they are written."""
    kind: AccessKind
    """`read`: content is shown; `search`: content is looked through; `list`: names are shown."""
    line_range: LineSpan | None = None
    """The lines, where the words say which."""
    command: int
    """Which command of the script."""


_Found: TypeAlias = tuple[str, AccessKind, LineSpan | None]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: Annotated[str, msgspec.Meta(pattern="^repotrial/accesses@1$")]
    readers: dict[str, frozenset[str]]
    listers: dict[str, frozenset[str]]
    searchers: dict[str, frozenset[str]]
    writers: dict[str, frozenset[str]]


@cache
def _load_table() -> _Table:
    return msgspec.convert(
        tomllib.loads(read_package_data("repotrial.shell", "accesses.toml").decode()), _Table
    )


def find_file_accesses(script: ShellScript, cwd: str = ".") -> tuple[FileAccess, ...]:
    """Files that the commands of a script touch, in order; `cwd` is where the script begins."""
    found: list[FileAccess] = []
    for index, command in enumerate(script.commands):
        for path, kind, lines in (*_find_words(command), *_find_streams(command)):
            place = _resolve(path, command, cwd)
            if place is not None:
                found.append(FileAccess(path=place, kind=kind, line_range=lines, command=index))
        _narrow(found, command, script)
    return tuple(found)


def _resolve(path: str, command: ShellCommand, cwd: str) -> str | None:
    if not path or path == "-" or re.match(r"/dev/(?:null|std|tty|fd/)", path) or path.startswith("<("):
        return None
    inside = command.locate(path)
    return None if inside is None else join_path(cwd, inside)


def _find_streams(command: ShellCommand) -> Iterator[_Found]:
    for stream in command.redirections:
        if stream.target is not None and stream.target.is_static and stream.kind != "duplicate":
            yield stream.target.text, "read" if stream.kind == "read" else "write", None


def _find_words(command: ShellCommand) -> Iterator[_Found]:
    name, words, table = command.name, command.arguments, _load_table()
    if name in table.readers:
        lines = _find_lines(name, command)
        yield from ((path, "read", lines) for path in _files(words, table.readers[name]))
    elif name in table.listers:
        yield from ((path, "list", None) for path in _files(words, table.listers[name]) or ["."])
    elif name in table.searchers:
        yield from _find_searched(name, command, table.searchers[name])
    elif name in table.writers:
        yield from ((path, "write", None) for path in _files(words, table.writers[name]))
    elif (special := _SPECIAL.get(load_programs().resolve(name))) is not None:
        yield from special(command)


def _files(words: Sequence[Word], values: frozenset[str]) -> list[str]:
    """Words that are neither options nor values of options, and are known."""
    return [word.text for word in _positionals(words, values) if word.is_static]


def _positionals(words: Sequence[Word], values: frozenset[str]) -> list[Word]:
    found: list[Word] = []
    index = 0
    while index < len(words):
        text = words[index].text
        if text == "--":
            found.extend(words[index + 1 :])
            break
        if text in values:
            index += 1
        elif not (text.startswith("-") and len(text) > 1) and not re.fullmatch(r"\+\d+", text):
            found.append(words[index])
        index += 1
    return found


def _find_lines(name: str, command: ShellCommand) -> LineSpan | None:
    if name in {"bat", "batcat"}:
        match = re.search(r"(?:-r|--line-range)[ =](\d+):(\d+)", " ".join(command.argv))
        return None if match is None else LineSpan(int(match[1]), int(match[2]))
    return find_count(name, command.argv[1:])


def _find_searched(name: str, command: ShellCommand, values: frozenset[str]) -> Iterator[_Found]:
    texts = command.argv[1:]
    has_pattern = any(
        text in {"-e", "-f", "--regexp", "--file", "--files"} or text.startswith(("-e", "--regexp="))
        for text in texts
    )
    words = _positionals(command.arguments, values)
    paths = [word.text for word in words[0 if has_pattern else 1 :] if word.is_static]
    kind: AccessKind = "list" if "--files" in texts else "search"
    is_whole = name in {"rg", "ag", "ack"} or _is_recursive(texts)
    if is_whole and not paths and not command.sources and len(words) <= 1:
        paths = ["."]
    yield from ((path, kind, None) for path in paths)


def _is_recursive(texts: Sequence[str]) -> bool:
    return any(
        text in {"--recursive", "--dereference-recursive"} or re.match(r"-[A-Za-z]*[rR]", text)
        for text in texts
    )


def _find_sed(command: ShellCommand) -> Iterator[_Found]:
    texts = command.argv[1:]
    paths = _files(command.arguments, frozenset({"-e", "-f", "--expression", "--file", "-l"}))
    scripts = [following for text, following in pairwise(texts) if text in {"-e", "--expression"}]
    if not scripts and not any(text in {"-f", "--file"} for text in texts):
        scripts, paths = paths[:1], paths[1:]
    is_writing = any(re.match(r"-[A-Za-z]*i|--in-place", text) for text in texts)
    if is_writing:
        yield from ((path, "write", None) for path in paths)
        return
    ranges = find_sed_ranges(
        scripts, is_quiet=any(re.match(r"-[A-Za-z]*n|--quiet|--silent", text) for text in texts)
    )
    for path in paths:
        yield from ((path, "read", lines) for lines in ranges or (None,))


def _find_awk(command: ShellCommand) -> Iterator[_Found]:
    values = frozenset({"-F", "-v", "-f", "--assign", "--file", "--field-separator"})
    paths = _files(command.arguments, values)
    if any(text in {"-f", "--file"} for text in command.argv[1:]):
        programs: list[str] = []
    else:
        programs, paths = paths[:1], paths[1:]
    ranges = find_awk_ranges(programs)
    for path in paths:
        if not re.match(r"\w+=", path):
            yield from ((path, "read", lines) for lines in ranges or (None,))


def _find_found(command: ShellCommand) -> Iterator[_Found]:
    paths: list[str] = []
    for word in command.arguments:
        if word.text.startswith(("-", "(", "!")) and word.text not in {"-L", "-H", "-P"}:
            break
        if not word.text.startswith("-") and word.is_static:
            paths.append(word.text)
    yield from ((path, "list", None) for path in paths or ["."])


def _find_fd(command: ShellCommand) -> Iterator[_Found]:
    paths = _files(
        command.arguments, frozenset({"-e", "-t", "-d", "-E", "-x", "--extension", "--type", "--max-depth"})
    )
    yield from ((path, "list", None) for path in paths[1:] or ["."])


def _find_copied(command: ShellCommand) -> Iterator[_Found]:
    paths = _files(command.arguments, frozenset({"-t", "-S", "-m", "-o", "-g"}))
    kind: AccessKind = "write" if command.name == "mv" else "read"
    yield from ((path, kind, None) for path in paths[:-1])
    yield from ((path, "write", None) for path in paths[-1:])


def _find_python(command: ShellCommand) -> Iterator[_Found]:
    texts = command.argv
    codes = [
        texts[index + 1] for index in range(len(texts) - 1) if re.fullmatch(r"-[A-Za-z]*c", texts[index])
    ]
    if command.runs_input and command.input_text is not None:
        codes.append(command.input_text)
    for code in codes[:1]:
        for use in find_python_uses(code):
            if use.kind != "command":
                yield use.text, use.kind, None


def _find_git(command: ShellCommand) -> Iterator[_Found]:
    words = list(command.argv[1:])
    directory = "."
    while words and words[0].startswith("-"):
        if words[0] == "-C" and len(words) > 1:
            directory = words[1]
        del words[: 2 if words[0] in {"-C", "-c", "--git-dir", "--work-tree"} else 1]
    if not words:
        return
    rest = words[1:]
    after = rest[rest.index("--") + 1 :] if "--" in rest else []
    for path, kind in _find_git_paths(words[0], rest, after):
        yield join_path(directory, path) or path, kind, None


def _find_git_paths(first: str, rest: list[str], after: list[str]) -> Iterator[tuple[str, AccessKind]]:
    match first:
        case "show" | "cat-file":
            revisions = [text for text in rest if re.fullmatch(r"[^-:\s][^:\s]*:[^:\s]+|:[^:\s]+", text)]
            yield from ((text.partition(":")[2].removeprefix("./"), "read") for text in revisions)
            yield from ((path, "read") for path in after)
        case "diff" | "log" | "blame" | "annotate":
            plain = [text for text in rest if not text.startswith("-") and text not in after]
            named = plain[-1:] if first in {"blame", "annotate"} and not after else []
            yield from ((path, "read") for path in after or named)
        case "grep":
            words = [text for text in rest if not text.startswith("-") and text not in after]
            has_pattern = "-e" in rest
            paths = after or [text for text in words[0 if has_pattern else 1 :] if "/" in text or "." in text]
            yield from ((path, "search") for path in paths or ["."])
        case "ls-files" | "ls-tree":
            paths = after or [text for text in rest if not text.startswith("-") and first == "ls-files"]
            yield from ((path, "list") for path in paths or ["."])
        case "add" | "rm" | "mv" | "restore" | "checkout":
            paths = after or (
                [text for text in rest if not text.startswith("-")] if first != "checkout" else []
            )
            yield from ((path, "write") for path in paths)
        case _:
            return


_SPECIAL: Final[dict[str, Callable[[ShellCommand], Iterator[_Found]]]] = {
    "sed": _find_sed,
    "awk": _find_awk,
    "gawk": _find_awk,
    "mawk": _find_awk,
    "find": _find_found,
    "fd": _find_fd,
    "fdfind": _find_fd,
    "cp": _find_copied,
    "mv": _find_copied,
    "ln": _find_copied,
    "git": _find_git,
    "python": _find_python,
}


def _narrow(found: list[FileAccess], command: ShellCommand, script: ShellScript) -> None:
    """`nl -ba f | sed -n '10,20p'` shows ten lines of `f`."""
    if len(command.sources) != 1 or not command.arguments:
        return
    source = command.sources[0]
    of_source = [place for place, each in enumerate(found) if each.command == source and each.kind == "read"]
    if len(of_source) != 1 or found[of_source[0]].line_range is not None:
        return
    if script.commands[source].name not in {"cat", "nl", "bat", "git", "tac"}:
        return
    texts = command.argv[1:]
    match load_programs().resolve(command.name):
        case "sed":
            ranges = find_sed_ranges(
                [text for text in texts if not text.startswith("-")][:1], is_quiet="-n" in texts
            )
        case "awk" | "gawk":
            ranges = find_awk_ranges([text for text in texts if not text.startswith("-")][:1])
        case "head" | "tail" as name:
            lines = find_count(name, texts)
            ranges = () if lines is None else (lines,)
        case _:
            return
    if len(ranges) == 1:
        found[of_source[0]] = msgspec.structs.replace(found[of_source[0]], line_range=ranges[0])
