"""Versions of interpreters and package managers, asked of the programs; and lock files of a tree (P2)."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_file
from repotrial._core.errors import MachineError
from repotrial._core.words import LOCKFILES
from repotrial.environment._host import HostTool
from repotrial.environment._node_env import find_npm
from repotrial.environment._process import execute_program
from repotrial.environment._tools import SYSTEM_PATH, find_rule, list_known_tools, parse_version_output
from repotrial.trace import Lockfile

PACKAGE_MANAGERS: Final = frozenset(
    {"bundler", "cargo", "composer", "go", "gradle", "maven", "mvn", "npm", "pip", "pnpm", "poetry", "uv"}
    | {"yarn"}
)
_SECONDS: Final = 20
_MARK: Final = "--repotrial tool "


def ask_pip(interpreter: HostTool) -> str | Unknown:
    """The version of the pip that builds environments: the one that comes with the interpreter."""
    try:
        finished = execute_program(
            [str(interpreter.path), "-I", "-c", "import ensurepip; print(ensurepip.version())"],
            variables={"PATH": SYSTEM_PATH, "HOME": "/nonexistent"},
            seconds=_SECONDS,
        )
    except MachineError as error:  # `program-start`, `program-timeout`, `program-output`
        return Unknown(reason=error.message)
    version = finished.stdout.decode(errors="replace").strip()
    return version or Unknown(reason=f"{interpreter.path}: expected it to come with a pip, found none")


def ask_npm(node: HostTool) -> str | Unknown:
    """The version of the npm that builds trees of packages: the one that comes with Node.js."""
    try:
        package = msgspec.json.decode((find_npm(node).parent.parent / "package.json").read_bytes())
    except (MachineError, OSError, msgspec.DecodeError) as error:
        return Unknown(reason=f"npm: expected its package.json, found: {error}")
    version = package.get("version") if isinstance(package, dict) else None
    return version if isinstance(version, str) else Unknown(reason="npm: expected a version, found none")


def build_question() -> str:
    """A shell script that makes every known tool that is there say its version."""
    return "\n".join(_iter_questions())


def _iter_questions() -> Iterator[str]:
    for name in sorted({*list_known_tools(), *PACKAGE_MANAGERS}):
        rule = find_rule(name)
        for program in rule.programs[:2]:
            asked = shlex.join((program, *rule.arguments))
            yield (
                f"if command -v {program} >/dev/null 2>&1; then printf '%s\\n' {shlex.quote(_MARK + name)}; "
                f"{asked} 2>&1 </dev/null; printf '\\n'; fi"
            )


def parse_answers(printed: str) -> dict[str, str | Unknown]:
    """What the tools said; one that is there and says nothing of the kind is unknown, with what it said."""
    found: dict[str, str | Unknown] = {}
    for part in printed.split(_MARK)[1:]:
        name, _, text = part.partition("\n")
        version = parse_version_output(find_rule(name), text)
        said = " ".join(text.split())[:100] or "nothing"
        if version is not None or name not in found:
            found[name] = Unknown(reason=f"expected a version, found: {said}") if version is None else version
    return found


_SKIPPED: Final = frozenset({".git", "node_modules", "__pycache__"})
"""History, and packages that a lock led to."""
_MOST_LOCKFILES: Final = 1000


def find_lockfiles(tree: Path) -> tuple[Lockfile, ...] | Unknown:
    """Lock files of a prepared tree, by path."""
    found: list[Lockfile] = []
    for directory, names, files in os.walk(tree):
        names[:] = sorted(name for name in names if name not in _SKIPPED)
        for name in sorted(LOCKFILES.intersection(files)):
            path = Path(directory, name)
            if stat.S_ISREG(path.lstat().st_mode):
                place = path.relative_to(tree).as_posix().encode("utf-8", "backslashreplace").decode()
                found.append(Lockfile(path=place, digest=digest_file(path), origin="tree"))
        if len(found) > _MOST_LOCKFILES:
            return Unknown(reason=f"expected at most {_MOST_LOCKFILES} lock files in the tree, found more")
    return tuple(sorted(found, key=lambda item: item.path))
