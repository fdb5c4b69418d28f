"""Which packages a command installs, and whether it resolves dependencies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from repotrial.shell._commands import classify_command
from repotrial.shell._model import ShellCommand, ShellScript
from repotrial.shell._programs import load_programs

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
