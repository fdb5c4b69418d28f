"""Programs that only start others are taken off a command's front."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from repotrial.shell._model import Assignment, Word
from repotrial.shell._programs import Wrapper, load_programs

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_MAX_LAYERS: Final = 24
_SHELL_VALUES: Final = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_SHELL_CLUSTER = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_FIND_ACTIONS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


class Unwrapped(msgspec.Struct, frozen=True, kw_only=True):
    """A command without its wrappers."""

    words: tuple[Word, ...]
    wrappers: tuple[str, ...]
    assignments: tuple[Assignment, ...] = ()
    script: Word | None = None
    """Text that a shell is told to run, in place of `words`."""
    parameters: tuple[Word, ...] = ()
    """What `$0`, `$1` … are in that text."""
    runs_input: bool = False
    """Whether the program executes what it reads."""
    is_same_shell: bool = False
    """Whether the text runs in the shell itself (`eval`)."""
    has_more: bool = False
    """Whether arguments are added that the text does not have (`xargs`)."""
    cwd: Word | None = None
    """Where a wrapper takes the command (`env -C`)."""
    is_too_deep: bool = False
    """Whether more wrappers may be left than are taken off."""
    inner: tuple[tuple[Word, ...], ...] = ()
    """Commands among its words (`find -exec`)."""


def unwrap(words: tuple[Word, ...]) -> Unwrapped:
    """Take wrappers off until a program is left that does something by itself."""
    wrappers: list[str] = []
    assignments: list[Assignment] = []
    has_more = False
    cwd = None
    for _ in range(_MAX_LAYERS):
        name = _name(words)
        table = load_programs()
        if name == "env" and (split := _find_split(words)) is not None:
            return Unwrapped(words=words, wrappers=(*wrappers, name), script=split)
        if (wrapper := table.wrappers.get(name)) is not None:
            rest, found, place = _skip_wrapper(words, wrapper)
            has_more = has_more or wrapper.appends
        elif name in table.runners:
            rest, found, place = _skip_runner(words, table.runners[name]), (), None
        else:
            break
        if not rest:
            break
        wrappers.append(name)
        assignments.extend(found)
        cwd = place or cwd
        words = rest
    left = _read_shell(words, tuple(wrappers))
    return msgspec.structs.replace(
        left,
        assignments=tuple(assignments),
        has_more=has_more,
        cwd=cwd,
        is_too_deep=len(wrappers) == _MAX_LAYERS,
    )


def _name(words: Sequence[Word]) -> str:
    return words[0].text.rpartition("/")[2] if words else ""


def _find_split(words: tuple[Word, ...]) -> Word | None:
    """`env -S 'rm -rf /'` runs its argument."""
    for index, word in enumerate(words[1:], start=1):
        if word.text in {"-S", "--split-string"}:
            return words[index + 1] if index + 1 < len(words) else None
        if not word.text.startswith("-"):
            return None
    return None


def _skip_wrapper(
    words: tuple[Word, ...], wrapper: Wrapper
) -> tuple[tuple[Word, ...], tuple[Assignment, ...], Word | None]:
    index, place = 1, None
    found: list[Assignment] = []
    while index < len(words):
        text = words[index].text
        if text == "--":
            index += 1
            break
        if text in wrapper.values:
            if text in {"-C", "--chdir", "-D"} and index + 1 < len(words):
                place = words[index + 1]
            index += 2
        elif text.startswith("-") and len(text) > 1:
            index += 1
        elif wrapper.assignments and (match := _ASSIGNMENT.fullmatch(text)) is not None:
            found.append(Assignment(name=match[1], value=_cut(words[index], match[2])))
            index += 1
        else:
            break
    return words[index + wrapper.positionals :], tuple(found), place


def _cut(word: Word, text: str) -> Word:
    return msgspec.structs.replace(word, text=text, verbatim_start=None)


def _skip_runner(words: tuple[Word, ...], subcommands: tuple[str, ...]) -> tuple[Word, ...]:
    values = load_programs().runner_values.get(_name(words), frozenset())
    index = _skip_options(words, 1, values)
    if "" not in subcommands:
        if index >= len(words) or words[index].text not in subcommands:
            return ()
        index = _skip_options(words, index + 1, values)
    rest = words[index:]
    if _name(words) == "coverage" and index > 1 and any(word.text == "-m" for word in words[1:index]):
        # `coverage run -m pytest` is `python -m pytest`.
        module = next(position for position, word in enumerate(words) if word.text == "-m")
        return (_cut(words[0], "python"), *words[module:])
    return rest


def _skip_options(words: tuple[Word, ...], index: int, values: frozenset[str]) -> int:
    while index < len(words) and words[index].text.startswith("-") and words[index].text != "-":
        if words[index].text == "--":
            return index + 1
        index += 2 if words[index].text in values else 1
    return index


def _read_shell(words: tuple[Word, ...], wrappers: tuple[str, ...]) -> Unwrapped:
    name = _name(words)
    names = load_programs().names
    if name in names.shells:
        return _read_shell_options(words, wrappers)
    if name in {"su", "runuser", "script"}:
        for index, word in enumerate(words[:-1]):
            if word.text in {"-c", "--command", "-qc"}:
                return Unwrapped(words=words, wrappers=(*wrappers, name), script=words[index + 1])
    if name == "trap" and len(words) > 2:  # noqa: PLR2004 -- `trap 'command' SIGNAL`
        return Unwrapped(words=words, wrappers=(*wrappers, name), script=words[1])
    if name == "eval" and len(words) > 1:
        return Unwrapped(words=words, wrappers=(*wrappers, name), script=_join(words[1:]), is_same_shell=True)
    if load_programs().resolve(name) in names.interpreters:
        rest = [word.text for word in words[1:] if not re.fullmatch(r"-[A-Za-bd-ln-z]*", word.text)]
        return Unwrapped(
            words=words, wrappers=wrappers, runs_input=not rest or rest[0] in {"-", "/dev/stdin"}
        )
    return Unwrapped(words=words, wrappers=wrappers, inner=_find_inner(words) if name == "find" else ())


def _read_shell_options(words: tuple[Word, ...], wrappers: tuple[str, ...]) -> Unwrapped:
    index, takes_script = 1, False
    while index < len(words) and words[index].text[:1] in {"-", "+"} and len(words[index].text) > 1:
        text = words[index].text
        takes_script = takes_script or _SHELL_CLUSTER.fullmatch(text) is not None
        index += 2 if text in _SHELL_VALUES else 1
        if text in {"--", "-s"}:
            break
    rest = words[index:]
    if takes_script and rest:
        wrapped = (*wrappers, _name(words))
        return Unwrapped(words=words, wrappers=wrapped, script=rest[0], parameters=rest[1:])
    reads_input = not rest or rest[0].text in {"-", "/dev/stdin"} or words[index - 1].text == "-s"
    return Unwrapped(words=words, wrappers=wrappers, runs_input=reads_input)


def _join(words: tuple[Word, ...]) -> Word:
    if len(words) == 1:
        return words[0]
    return Word(
        text=" ".join(word.text for word in words),
        is_static=all(word.is_static for word in words),
        is_quoted=True,
        start=words[0].start,
        end=words[-1].end,
    )


def _find_inner(words: tuple[Word, ...]) -> tuple[tuple[Word, ...], ...]:
    found: list[tuple[Word, ...]] = []
    for index, word in enumerate(words):
        if word.text in _FIND_ACTIONS:
            rest = words[index + 1 :]
            end = next((at for at, each in enumerate(rest) if each.text in {";", "+"}), len(rest))
            found.append(rest[:end])
    return tuple(each for each in found if each)
