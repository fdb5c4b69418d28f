"""Rules over the commands of a script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, TypeAlias

from repotrial.policy import _rules_network as network
from repotrial.policy import _rules_system as system
from repotrial.policy._foreign_code import LANGUAGES, find_started
from repotrial.policy._text_model import Hit
from repotrial.policy._text_python import find_in_python
from repotrial.shell import ShellCommand, ShellScript, find_python_uses, parse_shell

_Rule: TypeAlias = Callable[[ShellCommand, ShellScript], bool]

_COMMAND_RULES: Final[dict[str, _Rule]] = {
    "destructive-delete": system.deletes_too_much,
    "destructive-device": system.harms_device,
    "download-and-run": network.downloads_and_runs,
    "exfiltration": network.sends,
    "secret-access": system.reads_secrets,
    "privilege-grant": system.grants,
    "sandbox-escape": system.escapes,
    "privilege-escalation": system.escalates,
    "hidden-command": network.hides,
    "network-access": network.contacts,
    "git-history": system.digs,
    "sandbox-probe": system.probes,
    "system-path-write": system.writes_system,
    "system-service": system.changes_system,
    "remote-package": network.installs_remote,
    "package-install": network.installs,
    "environment-dump": system.dumps,
}
_OF_PIPELINES: Final = frozenset({"download-and-run", "hidden-command", "exfiltration"})
_RUN: Final = "download-and-run"
_PYTHONS: Final = ("python", "pypy")
_MAX_CODES: Final = 300
"""Commands with code in them that is looked into."""
_MAX_DEPTH: Final = 3


def find_in_script(script: ShellScript, depth: int = 0, *, is_leading_only: bool = False) -> Iterator[Hit]:
    """Rules that a script meets, with the piece that meets each.

    Args:
        script: What would run.
        depth: How many programs it stands in.
        is_leading_only: Whether only what begins where the script begins matters.
    """
    saved = network.find_saved(script)
    codes = 0
    for command in script.commands:
        if is_leading_only and _find_start(_RUN, command, script):
            continue
        for rule, is_met in _COMMAND_RULES.items():
            if is_met(command, script):
                yield Hit(rule, _find_start(rule, command, script), command.end)
        if network.runs_saved(command, saved):
            yield Hit(_RUN, _find_start(_RUN, command, script), command.end)
        if depth < _MAX_DEPTH and _may_hold_code(command):
            codes += 1
            if codes <= _MAX_CODES:
                yield from _find_in_code(command, depth)
            else:
                yield Hit("unreadable-command", command.start, command.end)
    yield from _find_bombs(script)
    for fault in script.faults:
        if fault.reason != "syntax":
            yield Hit("unreadable-command", fault.start, fault.end)


def _find_start(rule: str, command: ShellCommand, script: ShellScript) -> int:
    if rule not in _OF_PIPELINES:
        return command.start
    return min([command.start, *(script.commands[index].start for index in command.sources)])


def _may_hold_code(command: ShellCommand) -> bool:
    """Whether it is an interpreter of a language that is looked into."""
    return command.name.startswith(_PYTHONS) or command.name in LANGUAGES


def _find_in_code(command: ShellCommand, depth: int) -> Iterator[Hit]:
    """Python in the command line or in its input, and the commands that it starts."""
    if not command.name.startswith(_PYTHONS):
        for text in find_started(command):
            for hit in find_in_script(parse_shell(text), depth + 1):
                yield Hit(hit.rule, command.start, command.end)
        return
    codes = [
        following.text
        for word, following in pairwise(command.words)
        if re.fullmatch(r"-[A-Za-z]*c", word.text)
    ]
    if command.runs_input and command.input_text is not None:
        codes.append(command.input_text)
    for code in codes:
        for rule, _, _ in find_in_python(code):
            yield Hit(rule, command.start, command.end)
        for use in find_python_uses(code):
            if use.kind == "command":
                for hit in find_in_script(parse_shell(use.text), depth + 1):
                    yield Hit(hit.rule, command.start, command.end)


def _find_bombs(script: ShellScript) -> Iterator[Hit]:
    """A function that calls itself through a pipe or in the background."""
    callers: dict[str, list[int]] = {}
    for command in script.commands:
        if "function" in command.nesting and (command.sources or command.is_background):
            callers.setdefault(command.name, []).append(command.start)
    for name, start, end in script.functions:
        if any(start <= place <= end for place in callers.get(name, ())):
            yield Hit("fork-bomb", start, end)
