"""Rules over the commands of a script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from repotrial.policy import _rules_network as network
from repotrial.policy import _rules_system as system
from repotrial.policy._places import writes_declared
from repotrial.policy._text_model import Hit
from repotrial.shell import ShellCommand, ShellScript, find_python_uses, parse_shell

LANGUAGES: Final = frozenset({"perl", "ruby", "node", "php", "lua", "deno", "bun", "awk", "gawk", "mawk"})
_STARTS = re.compile(r"\b(?:system|exec\w*|spawn\w*|popen|child_process|shell_exec|passthru|qx)\b|`")
_LITERAL = re.compile(
    r"'((?:[^'\\\n]|\\.){2,500})'|\"((?:[^\"\\\n]|\\.){2,500})\"|`([^`\n]{2,500})`|qx\{([^}\n]{2,500})\}"
)
_MAX_LITERALS: Final = 20


def find_started(command: ShellCommand) -> Iterator[str]:
    """Texts in a one-line program that may be commands, where it starts any."""
    if command.name not in LANGUAGES:
        return
    for code in _iter_codes(command):
        if _STARTS.search(code) is None:
            continue
        for count, found in enumerate(_LITERAL.finditer(code)):
            if count >= _MAX_LITERALS:
                return
            yield next(text for text in found.groups() if text is not None)


def _iter_codes(command: ShellCommand) -> Iterator[str]:
    if command.name in {"awk", "gawk", "mawk"}:
        yield from (word.text for word in command.arguments[:3])
        return
    for word, following in pairwise(command.words):
        if re.fullmatch(r"-[A-Za-z]*[erE]|--eval|--print|-p", word.text):
            yield following.text
    if command.runs_input and command.input_text is not None:
        yield command.input_text


_MAX_PYTHON_CHARACTERS: Final = 200_000
_FETCH = r"(?:urlopen|urlretrieve|requests\.(?:get|post)|httpx\.(?:get|post)|http\.client|urllib3?\b)"
_REMOTE = r"(?:https?|ftp)://(?!127\.|localhost|\[::1\]|0\.0\.0\.0)"
_PYTHON_RULES: Final = tuple(
    (rule, re.compile(pattern, re.DOTALL))
    for rule, pattern in (
        ("download-and-run", rf"\b(?:exec|eval)\s*\([^\n]{{0,200}}{_FETCH}"),
        ("download-and-run", rf"{_FETCH}[^\n]{{0,300}}(?:;|\n)[^\n]{{0,200}}\b(?:exec|eval)\s*\(\s*\w+"),
        ("download-and-run", rf"{_FETCH}[^\n]{{0,300}}\b(?:os\.system|subprocess\.\w+)\s*\("),
        ("exfiltration", rf"\b(?:requests|httpx|session)\.(?:post|put)\s*\(\s*f?['\"]{_REMOTE}"),
        ("exfiltration", rf"\bRequest\s*\(\s*['\"]{_REMOTE}[^\n]{{0,200}}\bdata\s*="),
        ("network-access", r"\.connect\s*\(\s*\(\s*['\"](?!127\.|localhost|::1|0\.0\.0\.0)[\w.:-]+['\"]\s*,"),
        ("network-access", rf"\b(?:requests|httpx|session)\.(?:get|head)\s*\(\s*f?['\"]{_REMOTE}"),
        ("network-access", rf"\burl(?:open|retrieve)\s*\(\s*f?['\"]{_REMOTE}"),
        (
            "destructive-delete",
            r"\brmtree\s*\(\s*(?:['\"](?:/|~|/home|/root|/etc|/usr)/?['\"]|(?:os\.path\.)?expanduser|Path\.home\(\))",
        ),
        (
            "secret-access",
            r"['\"](?:/proc/(?!self/)[^'\"/]+/environ|/etc/(?:shadow|sudoers)|[^'\"\n]{0,100}\.ssh/id_\w+|~/\.(?:netrc|ssh|aws)[^'\"\n]{0,60})['\"]",
        ),
        ("secret-access", r"f['\"]/proc/\{[^}]{1,40}\}/environ['\"]"),
        ("privilege-grant", r"\bos\.set(?:res)?[ug]id\s*\(\s*0"),
        (
            "sandbox-probe",
            r"\bptrace\b[^\n]{0,40}\(|\bos\.(?:unshare|setns)\s*\(|['\"]/proc/(?:self|1)/(?:ns|root|mem)\b",
        ),
        ("sandbox-escape", r"['\"]/(?:var/)?run/docker\.sock['\"]"),
        ("fork-bomb", r"while\s+(?:True|1)\s*:\s*(?:\n\s*)?os\.fork\s*\("),
    )
)


def find_in_python(code: str) -> Iterator[tuple[str, int, int]]:
    """Rules that code meets, each once, and between which characters."""
    seen: set[str] = set()
    for rule, pattern in _PYTHON_RULES:
        if rule not in seen and (found := pattern.search(code[:_MAX_PYTHON_CHARACTERS])) is not None:
            seen.add(rule)
            yield rule, found.start(), found.end()


_Rule: TypeAlias = Callable[[ShellCommand, ShellScript], bool]

SYSTEM_WRITE: Final = "system-path-write"

COMMAND_RULES: Final[dict[str, _Rule]] = {
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
    SYSTEM_WRITE: system.writes_system,
    "system-service": system.changes_system,
    "remote-package": network.installs_remote,
    "package-install": network.installs,
    "environment-dump": system.dumps,
}
"""Rules over one command, by their ids."""
_OF_PIPELINES: Final = frozenset({"download-and-run", "hidden-command", "exfiltration"})
_RUN: Final = "download-and-run"
_PYTHONS: Final = ("python", "pypy")
_MAX_CODES: Final = 300
"""Commands with code in them that is looked into."""
_MAX_DEPTH: Final = 3


def iter_met(command: ShellCommand, script: ShellScript, places: Sequence[str]) -> Iterator[str]:
    """Rules that one command meets; what the contract gives to write in is no path of the system."""
    for rule, is_met in COMMAND_RULES.items():
        if is_met(command, script) and not (rule == SYSTEM_WRITE and writes_declared(command, places)):
            yield rule


def find_in_script(
    script: ShellScript, depth: int = 0, *, is_leading_only: bool = False, places: Sequence[str] = ()
) -> Iterator[Hit]:
    """Rules that a script meets, with the piece that meets each.

    Args:
        script: What would run.
        depth: How many programs it stands in.
        is_leading_only: Whether only what begins where the script begins matters.
        places: What the contract gives to write in.
    """
    saved = network.find_saved(script)
    codes = 0
    for command in script.commands:
        if is_leading_only and _find_start(_RUN, command, script):
            continue
        for rule in iter_met(command, script, places):
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
