"""Commands that one-line programs of other languages start: `perl -e 'system("…")'`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from repotrial.shell import ShellCommand

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
