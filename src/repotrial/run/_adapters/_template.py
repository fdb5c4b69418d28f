"""Templates of adapters: `{url}` and the like are filled in, everything else stays as it is.

A placeholder is a lower-case word in braces, so JSON and TOML can be written as they are; `{{word}}`
stands for `{word}` itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

PLACEHOLDERS: Final = {
    "url": "the gateway's address inside the sandbox, without a slash at its end",
    "key": "the run's own key for the gateway",
    "model": "the model's name",
    "task": "the briefing; where it is too long for a command line, a sentence that names its file",
    "task_file": "the briefing as a file",
    "home": "the home directory inside",
    "prefix": "the installed tree inside",
    "program": "the installed program",
    "retries": "how often the agent may ask again after an error",
    "turns": "how many turns it may take; in `caps.turns` only",
}
"""What can be filled in, and what each stands for."""

_WORD: Final = re.compile(r"\{\{([a-z][a-z_]*)\}\}|\{([a-z][a-z_]*)\}")


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders filled in, once: a value that looks like a placeholder stays."""
    return _WORD.sub(lambda found: f"{{{found[1]}}}" if found[1] else values[found[2]], template)


def iter_unknown(template: str, known: Mapping[str, object]) -> Iterator[str]:
    """Placeholders that nothing can be filled in for."""
    for found in _WORD.finditer(template):
        if found[2] and found[2] not in known:
            yield found[2]
