"""What a command does, from the table of programs and from its words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from repotrial.shell._model import ShellCommand, ShellScript
from repotrial.shell._programs import COMMAND_CLASSES, CommandClass, load_programs
from repotrial.shell._python_code import find_python_class
from repotrial.shell._script import parse_shell

_RANK: Final = {kind: rank for rank, kind in enumerate(COMMAND_CLASSES)}
_SCRATCH: Final = re.compile(
    r"/dev/(?:null|std(?:in|out|err)|tty|fd/\d+)|/tmp(?:/.*)?|/var/tmp(?:/.*)?", re.DOTALL
)
_TEST_NAME: Final = re.compile(
    r"(?:^|[_.\-])(?:run_?)?(?:all_?)?(?:unit_?)?(?:py)?tests?(?:[_.\-]|$)|^runtests", re.IGNORECASE
)
_GIT_HISTORY: Final = frozenset(
    {"--all", "--reflog", "-g", "--walk-reflogs", "--batch-all-objects", "--lost-found", "--unreachable"}
)
_MAX_CLASSIFIED: Final = 500
_WRAPPER_CLASSES: Final = frozenset({"system", "privilege"})


def strongest(classes: Sequence[CommandClass]) -> CommandClass:
    """The class that comes last in the order; `read` where there is none."""
    return max(classes, key=_RANK.__getitem__, default="read")


def find_classes(script: ShellScript) -> frozenset[CommandClass]:
    """What the commands of a script do, each by itself; what a text does not say is `other`."""
    found: set[CommandClass] = {classify_command(command) for command in script.commands[:_MAX_CLASSIFIED]}
    if not script.is_complete or len(script.commands) > _MAX_CLASSIFIED:
        found.add("other")
    return frozenset(found)


def classify_command(command: ShellCommand) -> CommandClass:
    """What one command does; writing to a file by a redirection counts as well."""
    classes: list[CommandClass] = [_classify_words(command)]
    classes += [
        kind
        for wrapper in command.wrappers
        if (kind := load_programs().find_class(wrapper)) in _WRAPPER_CLASSES
    ]
    classes += ["write" for _ in _iter_written(command)]
    return strongest(classes)


def is_test_command(command: str | Sequence[str]) -> bool:
    """Whether a command line, or a program with its arguments, runs tests."""
    return _runs_tests(command if isinstance(command, str) else _quote(command))


@lru_cache(maxsize=1024)
def _runs_tests(text: str) -> bool:
    return "test" in {_classify_words(command) for command in parse_shell(text).commands[:_MAX_CLASSIFIED]}


def _quote(argv: Sequence[str]) -> str:
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in argv)


def _iter_written(command: ShellCommand) -> Iterator[str]:
    for stream in command.redirections:
        target = stream.target
        if stream.kind in {"write", "append"} and target is not None and not _SCRATCH.fullmatch(target.text):
            yield target.text


def _classify_words(command: ShellCommand) -> CommandClass:
    if not command.words:
        return "read"
    if command.is_dynamic and not command.words[0].is_static:
        return "other"
    table = load_programs()
    name = table.resolve(command.name)
    arguments = command.argv[1:]
    if (by_option := _find_by_option(command.name, arguments)) is not None:
        return by_option
    if name == "git":
        return _classify_git(arguments)
    if name in table.subcommands:
        return _find_subcommand(name, arguments)
    if name in table.names.shells or name in {"source", "."}:
        return _classify_file(arguments) if arguments else "other"
    if name in table.names.interpreters:
        return _classify_interpreter(name, command)
    if name in {"chmod", "chown"} and _grants_privilege(name, arguments):
        return "privilege"
    kind = table.find_class(name)
    if kind == "other" and name.startswith(("mkfs.", "docker-")):
        return "system"
    return _classify_file((command.argv[0],)) if kind == "other" else kind


def _find_by_option(name: str, arguments: Sequence[str]) -> CommandClass | None:
    for rule in load_programs().options:
        if name in rule.programs and any(_has_option(arguments, option) for option in rule.options):
            return rule.command_class
    return None


def _has_option(arguments: Sequence[str], option: str) -> bool:
    option, _, value = option.partition(" ")
    for index, text in enumerate(arguments):
        if text == "--":
            return False
        is_same = text == option or text.startswith(option + "=")
        if not option.startswith("--") and len(option) == 2 and re.fullmatch(r"-[A-Za-z]+.*", text):  # noqa: PLR2004 -- one letter
            cluster = re.match(r"-([A-Za-z]+)", text)
            is_same = is_same or (cluster is not None and option[1] in cluster[1])
        if is_same and (not value or arguments[index + 1 : index + 2] == (value,)):
            return True
    return False


def _positionals(arguments: Sequence[str], values: frozenset[str]) -> list[str]:
    """Words that are neither options before the subcommand nor their values."""
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        index += 2 if arguments[index] in values else 1
    return list(arguments[index:])


def _find_subcommand(name: str, arguments: Sequence[str]) -> CommandClass:
    table = load_programs().subcommands[name]
    text = " ".join(_positionals(arguments, frozenset(table.get("values", ()))))
    found: list[CommandClass] = [
        kind
        for kind in COMMAND_CLASSES
        for pattern in _patterns(table.get(kind, ()))
        if text == pattern or fnmatchcase(text, pattern) or fnmatchcase(text.partition(" ")[0], pattern)
    ]
    # The last of the weaker ones would hide `install`; a reading form of a writing subcommand is exact.
    if found:
        return found[0] if found[0] == "read" else strongest(found)
    default = table.get("default", "other")
    return next((kind for kind in COMMAND_CLASSES if kind == default), "other")


def _patterns(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _classify_git(arguments: Sequence[str]) -> CommandClass:
    kind = _find_subcommand("git", arguments)
    if kind in {"read", "git-history"} and not _GIT_HISTORY.isdisjoint(arguments):
        return "git-history"
    return kind


def _classify_interpreter(name: str, command: ShellCommand) -> CommandClass:
    arguments = command.argv[1:]
    options = [text for text in arguments if text.startswith("-")]
    if name == "python" and "-m" in options:
        index = arguments.index("-m")
        module = arguments[index + 1] if index + 1 < len(arguments) else ""
        return _classify_module(module, arguments[index + 2 :])
    if arguments and arguments[-1] in {"--version", "-V", "--help", "-h"}:
        return "read"
    code = _find_code(name, command)
    if code is not None:
        return find_python_class(code) if name == "python" else "other"
    return _classify_file([text for text in arguments if not text.startswith("-")])


def _find_code(name: str, command: ShellCommand) -> str | None:
    """Code that stands in the command line or in its input."""
    option = "-c" if name in {"python", "php"} else "-e"
    for index, text in enumerate(command.argv[1:], start=1):
        if text == option or (name == "python" and re.fullmatch(r"-[A-Za-z]*c", text)):
            return command.argv[index + 1] if index + 1 < len(command.argv) else ""
    return command.input_text if command.runs_input else None


def _classify_module(module: str, rest: Sequence[str]) -> CommandClass:
    table = load_programs()
    top = module.partition(".")[0]
    name = table.resolve(top)
    if name in table.subcommands:
        return _find_subcommand(name, rest)
    if (kind := table.modules.get(module) or table.modules.get(top)) is not None:
        return kind
    kind = table.find_class(name)
    return ("test" if _TEST_NAME.search(top) else "other") if kind == "other" else kind


def _classify_file(arguments: Sequence[str]) -> CommandClass:
    """A script of the project: its name may say that it runs tests."""
    if not arguments:
        return "other"
    base = arguments[0].rpartition("/")[2]
    if base in {"manage.py", "setup.py"}:
        return _classify_manager(base, arguments[1:])
    return "test" if _TEST_NAME.search(base) else "other"


def _classify_manager(base: str, rest: Sequence[str]) -> CommandClass:
    first = next((text for text in rest if not text.startswith("-")), "")
    if first.startswith("test"):
        return "test"
    if base == "setup.py":
        return "install" if first in {"install", "develop"} else "build"
    return "other"


def _grants_privilege(name: str, arguments: Sequence[str]) -> bool:
    text = " ".join(arguments)
    if name == "chown":
        return re.search(r"(?:^|\s)(?:root|0)(?::\S*)?\s", text) is not None
    return re.search(r"(?:^|[\s,])(?:[ugoa]*\+[rwxXt]*s|0?[4267][0-7]{3})(?=[\s,]|$)", text) is not None


_VALUES: Final = frozenset(
    {
        "-r",
        "--requirement",
        "-c",
        "--constraint",
        "-i",
        "--index-url",
        "--extra-index-url",
        "-f",
        "--find-links",
    }
    | {"-t", "--target", "--prefix", "--root", "--registry", "--python", "-p", "--group", "--extra"}
    | {"--features", "--version", "--vers", "--source", "--cache-dir"}
)
_VERBS: Final = frozenset(
    {
        "install",
        "add",
        "get",
        "i",
        "ci",
        "sync",
        "download",
        "require",
        "update",
        "upgrade",
        "pip",
        "pip3",
        "tool",
    }
    | {"run", "-m", "uv", "lock", "mod", "tidy", "fetch"}
)
_MAX_PACKAGES: Final = 50


def find_installs(script: ShellScript) -> tuple[tuple[str, ...], ...]:
    """For each command that resolves dependencies, what it names; `.` stands for the project's own lists."""
    return tuple(
        tuple(sorted(set(_iter_names(command))))[:_MAX_PACKAGES] or (".",)
        for command in script.commands
        if classify_command(command) == "install" or _is_wrapped_install(command)
    )


def _is_wrapped_install(command: ShellCommand) -> bool:
    """`sudo apt-get install x` is privileged first of all, and an install as well."""
    return (
        bool(command.wrappers)
        and load_programs().find_class(command.name) == "install"
        and any(word.text in {"install", "add"} for word in command.arguments[:2])
    )


def _iter_names(command: ShellCommand) -> Iterator[str]:
    skips = False
    for word in command.arguments:
        text = word.text
        if skips:
            skips = False
        elif text in _VALUES:
            skips = True
            if text in {"-r", "--requirement"}:
                yield "."
        elif not text.startswith("-") and text not in _VERBS:
            yield _normalize(text)


def _normalize(text: str) -> str:
    """The package without its version: `requests==2.0` and `requests` are the same package."""
    if text.startswith((".", "/")) or "://" in text:
        return text
    name = re.split(r"[=<>!~;\[ ]", text, maxsplit=1)[0]
    at = name.rfind("@")
    return (name[:at] if at > 0 else name).casefold().replace("_", "-")
