"""Console blocks of pages: run as they stand, and held against what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from support.accounts import public_directory

ROOT = Path(__file__).parents[2]
REAL_AGENT = "repotrial agent install"
"""A block with it needs a registry."""
_VARYING = [
    (re.compile(r"sha256:[0-9a-f]+"), "sha256:#"),
    (re.compile(r"-r(\d+)-[0-9a-f]{10}-a1"), r"-r\1-#-a1"),
    (re.compile(r"\([0-9a-f]{12}\)"), "(#)"),
    (re.compile(r"\d+\.\d+s"), "#s"),
    # A run that takes longer has more samples of its use of resources.
    (re.compile(r"\b\d+ events verified"), "# events verified"),
    (re.compile(r"\bevent \d+:"), "event #:"),
    (re.compile(r"  +"), "  "),
]
# Commands share the cache of all tests; where they have no `--cache`, they keep nothing.
_PRELUDE = """\
repotrial() {
    case "$1 $2" in
        "run start" | "sandbox exec" | "contract certify" | "agent install")
            command repotrial "$1" "$2" --cache "$TESTS_CACHE" "${@:3}" ;;
        *) command repotrial "$@" ;;
    esac
}
"""


class Step(NamedTuple):
    """A command of a page, and what the page shows of its output."""

    line: int
    command: str
    shown: list[str]


def iter_blocks(text: str) -> Iterator[list[Step]]:
    for found in re.finditer(r"^```console\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        steps: list[Step] = []
        for number, line in enumerate(found[1].splitlines(), text[: found.start()].count("\n") + 2):
            if line.startswith("$ "):
                steps.append(Step(number, line.removeprefix("$ "), []))
            elif steps[-1].command.endswith("\\"):
                steps[-1] = steps[-1]._replace(command=f"{steps[-1].command}\n{line}")
            else:
                steps[-1].shown.append(line)
        yield steps


def _normalize(line: str) -> str:
    for pattern, replacement in _VARYING:
        line = pattern.sub(replacement, line)
    return line.strip()


def find_missing(shown: list[str], output: str) -> str | None:
    """The first line of a page that is not in the output, in its order; a table may be shown in part."""
    lines = map(_normalize, output.splitlines())
    for line in map(_normalize, shown):
        if not any(said.startswith(line) for said in lines):
            return line
    return None


@contextmanager
def open_copy() -> Iterator[Path]:
    """What a user of a clone finds in it."""
    with public_directory() as place:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "examples", place / "examples", ignore=ignored)
        (place / ".venv" / "bin").mkdir(parents=True)
        command = place / ".venv" / "bin" / "repotrial"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m repotrial "$@"\n')
        command.chmod(0o755)
        yield place


def verify_steps(page: Path, steps: list[Step], *, place: Path, cache: Path) -> None:
    """Execute them, and hold what they say and how they end against the page."""
    for step, status, output in _execute(steps, place, cache):
        where = f"{page.name}:{step.line}: {step.command}\n{output}"
        is_to_fail = any(line.startswith(("invalid ", "does not hold ")) for line in step.shown)
        assert status == (1 if is_to_fail else 0), where
        assert find_missing(step.shown, output) is None, where


def _execute(steps: list[Step], place: Path, cache: Path) -> Iterator[tuple[Step, int, str]]:
    """All steps in one shell, in which one command may prepare the next."""
    script = [_PRELUDE]
    for number, step in enumerate(steps):
        script.append(f"{{ {step.command}\n}} >said-{number} 2>&1\necho $? >status-{number}\n")
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/nonexistent"),
        "XDG_CONFIG_HOME": str(place / "config"),
        "TESTS_CACHE": str(cache),
    }
    subprocess.run(["bash", "-c", "\n".join(script)], cwd=place, env=variables, check=True)
    for number, step in enumerate(steps):
        status = int((place / f"status-{number}").read_text())
        yield step, status, (place / f"said-{number}").read_text()
