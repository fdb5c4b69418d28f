"""The command rules over what ran: a program's own words, past every shell, hook and script on the way (P18).

A text may hide what it runs; a program that started cannot. So a deed is read without a grammar: its words
are final, its paths are seen from its working directory, and what a wrapper starts is a deed of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from posixpath import normpath
from typing import Final

import msgspec

from repotrial.policy._places import OWN_PLACES, is_declared
from repotrial.policy._rules_network import is_remote_word
from repotrial.policy._text_commands import SYSTEM_WRITE, find_in_python, iter_met
from repotrial.policy._text_model import (
    TextFinding,
    build_finding,
    has_letter,
    iter_written,
    list_watched,
    load_text_rules,
    place,
)
from repotrial.shell import ShellCommand, ShellScript, Word, load_programs, parse_shell

_MOST_WORDS: Final = 2000
_MOST_CHARACTERS: Final = 64 * 1024
_MOST_SEGMENT: Final = 2000
_HOME_OF_SCRIPTS: Final = "/tmp"  # noqa: S108 -- `~` of scripts and commands in the sandbox
_NOWHERE: Final = re.compile(
    r"/dev/(?:null|zero|full|tty|std(?:in|out|err)|fd/.*|pts/.*)|/proc/self/fd/.*|/opt/repotrial/.*"
)
"""Writing there changes nothing that lasts, or the harness asks for it."""
_STANDING: Final = re.compile(
    r"/(?:etc|opt|srv|var(?:/(?:cache|lib|log))?|usr(?:/local)?|usr/(?:local/)?(?:bin|include|lib|sbin|share|src))"
)
"""Directories of the system that are there before anything runs."""
_MULTIPLE: Final = frozenset({"busybox", "toybox", "coreutils"})
"""One file for many programs: the name under which it was started says which."""
_TELLING = re.compile(r"^/(?:proc|sys|run|var/run|root)(?:/|$)|^/dev/(?!null$|shm/)|\.sock$|/\.ssh(?:/|$)")
_VERSIONED = re.compile(r"(?<=[a-z])[\d.]+$|\.(?:openbsd|traditional|basic|tiny)$")


def check_deed(
    argv: Sequence[str], *, cwd: str, exe: str | None = None, places: tuple[str, ...] = ()
) -> tuple[TextFinding, ...]:
    """Prohibited and suspicious rules that a program meets by having started; never raises.

    Args:
        argv: Its words.
        cwd: Its working directory, absolute; empty where that is not known.
        exe: The file that the kernel started; None where that is not known.
        places: What the contract gives to write in besides.
    """
    words = tuple(argv[:_MOST_WORDS])
    if len(words) > 1 and words[0].rpartition("/")[2] in _MULTIPLE:
        words = words[1:]
    return _check(words, cwd, exe or "", places) if words else ()


@lru_cache(maxsize=512)
def _check(argv: tuple[str, ...], cwd: str, exe: str, places: tuple[str, ...]) -> tuple[TextFinding, ...]:
    found: dict[str, TextFinding] = {}
    for name in _list_names(argv[0], exe):
        if not _is_watched(name, argv):
            continue
        for rule in _iter_rules(name, argv[1:], cwd, places):
            if load_text_rules()[rule].finding_class == "note" or rule in found:
                continue
            finding = build_finding(
                rule, text_format="command", steps_down=0, segment=_describe(argv), offset_bytes=0
            )
            if finding is not None:
                found[rule] = finding
    return tuple(found.values())


def _list_names(first: str, exe: str) -> list[str]:
    """What a program is called and what its file is called: either may be chosen to look harmless."""
    called, kept = first.rpartition("/")[2].removeprefix("-"), exe.rpartition("/")[2]
    names = [called] if kept in _MULTIPLE else [called, kept, _VERSIONED.sub("", kept)]
    return [name for name in dict.fromkeys(names) if name]


def _is_watched(name: str, arguments: Sequence[str]) -> bool:
    """Whether a rule may look at it: a build starts thousands of compilers, and none does."""
    if name in list_watched() or name in load_programs().names.shells or name.startswith("mkfs."):
        return True
    return any(_TELLING.search(text) for text in arguments)


def _iter_rules(name: str, arguments: tuple[str, ...], cwd: str, places: tuple[str, ...]) -> Iterator[str]:
    if name in load_programs().names.shells:
        yield from _iter_shell_rules(arguments, cwd, places)
        return
    command = _build_command(name, arguments, cwd)
    script = ShellScript(commands=(command,))
    if name.startswith(("python", "pypy")):
        yield from _iter_python_rules(arguments)
        return
    if _deletes_home(command):
        yield "destructive-delete"
    for rule in iter_met(command, script, places):
        if not _EXCUSES.get(rule, _has_no_excuse)(command):
            yield rule


def find_outside_writes(argv: Sequence[str], *, cwd: str, places: Sequence[str] = ()) -> tuple[str, ...]:
    """Paths that a program or a shell was told to write, beyond the agent's places and the contract's (Q3).

    The sandbox refuses such a write, or keeps it away from the host; that it was tried is the violation.
    """
    words = tuple(argv[:_MOST_WORDS])
    if len(words) > 1 and words[0].rpartition("/")[2] in _MULTIPLE:
        words = words[1:]
    if not words or not cwd:
        return ()
    name = words[0].rpartition("/")[2].removeprefix("-")
    if name in load_programs().names.shells:
        commands = tuple(_iter_opened(words[1:], cwd))
    else:
        commands = (_build_command(name, words[1:], cwd),)
    found = (path for each in commands if not _makes_nothing(each) for path in iter_written(each))
    return tuple(dict.fromkeys(path for path in found if _is_outside(path) and not is_declared(path, places)))


def _is_outside(path: str) -> bool:
    if not path.startswith("/"):
        return False
    plain = normpath(path)
    return not OWN_PLACES.fullmatch(plain) and not _NOWHERE.fullmatch(plain)


def _build_command(name: str, arguments: Sequence[str], cwd: str) -> ShellCommand:
    words = (Word(text=text, start=0, end=0, is_quoted=True) for text in (name, *arguments))
    return ShellCommand(words=tuple(words), cwd=cwd or None, start=0, end=0)


def _iter_shell_rules(arguments: tuple[str, ...], cwd: str, places: tuple[str, ...]) -> Iterator[str]:
    """What the shell itself opens; the programs that it starts are deeds of their own."""
    for opened in _iter_opened(arguments, cwd):
        script = ShellScript(commands=(opened,))
        yield from iter_met(opened, script, places)


def _iter_opened(arguments: tuple[str, ...], cwd: str) -> Iterator[ShellCommand]:
    """The redirections of a shell's own line, each as a command that does nothing else."""
    for option, text in pairwise(arguments):
        if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", option) is None:
            continue
        for command in parse_shell(text[:_MOST_CHARACTERS]).commands:
            if not command.redirections:
                continue
            base = cwd if command.cwd == "." else command.cwd
            yield msgspec.structs.replace(
                _build_command("true", (), base or ""), redirections=command.redirections
            )
        return


def _iter_python_rules(arguments: tuple[str, ...]) -> Iterator[str]:
    """Code in the command line: what it does by itself starts no program that would be seen."""
    for option, code in pairwise(arguments):
        if re.fullmatch(r"-[A-Za-z]*c", option) is not None:
            yield from (rule for rule, _, _ in find_in_python(code))
            return


def _deletes_home(command: ShellCommand) -> bool:
    if command.name != "rm" or not has_letter(command, "rR", "--recursive"):
        return False
    return any((place(command, word).rstrip("/") or "/") == _HOME_OF_SCRIPTS for word in command.arguments)


def _grants_at_home(command: ShellCommand) -> bool:
    """Permission bits in the workspace: file systems of the sandbox do not honor them."""
    files = [word for word in command.arguments if not word.text.startswith(("-", "+"))][1:]
    return command.name == "chmod" and _are_own(place(command, word) for word in files)


def _are_own(paths: Iterator[str]) -> bool:
    found = list(paths)
    return bool(found) and all(OWN_PLACES.fullmatch(path) for path in found)


def _digs_elsewhere(command: ShellCommand) -> bool:
    """Tests make repositories of their own, and clone them from one place of the sandbox to another."""
    if command.name == "git" and any(is_remote_word(word) for word in command.arguments):
        return False
    directories = [following.text for word, following in pairwise(command.words) if word.text == "-C"]
    where = command.locate(directories[-1]) if directories else command.cwd
    is_transfer = not {"clone", "fetch", "pull", "ls-remote", "remote"}.isdisjoint(command.argv[1:])
    return is_transfer or where is None or re.match(r"/workspace(?:/|$)", where) is None


def _pushes_nowhere(command: ShellCommand) -> bool:
    """A name of a remote is no address: in the sandbox it leads to a directory, or to nothing."""
    return command.name == "git" and not any(is_remote_word(word) for word in command.arguments)


def _serves_itself(command: ShellCommand) -> bool:
    """Only processes of the sandbox can be reached, and kernel parameters may be read."""
    if command.name == "sysctl":
        return not any(
            word.text in {"-w", "--write", "-p", "--system"} or "=" in word.text for word in command.arguments
        )
    return command.name in {"kill", "pkill", "killall"}


def _writes_own(command: ShellCommand) -> bool:
    return _are_own(iter_written(command)) or _makes_nothing(command)


def _makes_nothing(command: ShellCommand) -> bool:
    """`mkdir -p` of a directory that stands already succeeds and writes nothing."""
    options = {word.text for word in command.arguments if word.text.startswith("-")}
    if command.name != "mkdir" or options not in ({"-p"}, {"--parents"}):
        return False
    return all(
        _STANDING.fullmatch(path.rstrip("/")) or OWN_PLACES.fullmatch(path) for path in iter_written(command)
    )


def _has_no_excuse(_: ShellCommand) -> bool:
    return False


_EXCUSES: Final[dict[str, Callable[[ShellCommand], bool]]] = {
    "privilege-grant": _grants_at_home,
    "git-history": _digs_elsewhere,
    "network-access": _pushes_nowhere,
    "system-service": _serves_itself,
    SYSTEM_WRITE: _writes_own,
}
"""What tests of a product do at home, and what would be remarkable in a text alone."""


def _describe(argv: tuple[str, ...]) -> str:
    return " ".join(_quote(word) for word in argv)[:_MOST_SEGMENT]


def _quote(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./~-]+", word) else "'" + word.replace("'", "'\\''") + "'"
