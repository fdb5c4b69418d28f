"""Modules of a change that take the place of the framework or of the standard library.

An interpreter takes the first module of a name on its path, and the directories of the tree come before those
of the installation. Which of them a check has there is found from the contract, without running anything.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from repotrial.contract import Contract
from repotrial.isolation import WORKSPACE

_FRAMEWORKS: Final = frozenset(
    {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "py", "exceptiongroup", "tomli", "pygments"}
)
# In no project a name of its own by chance: what bears it steers wherever an interpreter may look.
_UNMISTAKABLE: Final = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "unittest"})
# Names of the standard library that projects use for folders of their own.
_HARMLESS: Final = frozenset({"test", "tests", "site", "this", "code", "types", "platform", "resource"})
_SHADOWED: Final = (sys.stdlib_module_names | _FRAMEWORKS) - _HARMLESS
_SUFFIXES: Final = (".py", ".so", ".pyd")
# Where editable installations of a project usually point.
_USUAL: Final = ("src", "lib")
_ASSIGNED: Final = re.compile(r"\bPYTHONPATH=(?P<quote>[\"']?)(?P<value>[^\s\"';&|]*)(?P=quote)")

BaseTest = Callable[[str], bool]
"""Whether the untouched snapshot has an entry at a path."""


def find_import_roots(contract: Contract, targets: Iterable[str], is_in_base: BaseTest) -> frozenset[str]:
    """Directories of the tree in which a check's interpreter looks for modules first; `.` is its top.

    Args:
        contract: Its checks' folders, and what sets `PYTHONPATH` for them.
        targets: Where oracle files go: a framework puts the folder of a test on the path.
        is_in_base: A folder that is a package in the snapshot is imported under its own name.
    """
    found = {".", *(root for root in _USUAL if not is_in_base(f"{root}/__init__.py"))}
    for check in contract.checks:
        for runner in check.all_runners:
            found.add(posixpath.normpath(runner.cwd))
            values = [
                each.get("PYTHONPATH", "")
                for each in (contract.environment.variables, check.variables, runner.variables)
            ]
            values += [match["value"] for match in _ASSIGNED.finditer(runner.run)]
            found.update(root for value in values for root in _iter_entries(value, runner.cwd))
    found.update(_climb(target, is_in_base) for target in targets if target.endswith(".py"))
    return frozenset(found)


def _iter_entries(value: str, cwd: str) -> Iterator[str]:
    """The entries of a search path that lie in the tree."""
    for entry in re.sub(r"\$(?:PWD\b|\{PWD\}|\(pwd\))", ".", value).split(":"):
        path = posixpath.normpath(posixpath.join(WORKSPACE, cwd, entry))
        if entry and (path == WORKSPACE or path.startswith(f"{WORKSPACE}/")):
            yield posixpath.relpath(path, WORKSPACE)


def _climb(target: str, is_in_base: BaseTest) -> str:
    """The first folder above a test that is no package."""
    parents = (parent.as_posix() for parent in PurePosixPath(target).parents)
    return next((parent for parent in parents if not is_in_base(_join(parent, "__init__.py"))), ".")


def find_shadows(
    changed: Collection[str], *, links: Collection[str], roots: Collection[str], is_in_base: BaseTest
) -> frozenset[str]:
    """Of the changed paths those that would be imported in the place of a module that a judge needs.

    Args:
        changed: Paths of Δ.
        links: Those of them that are links or repositories: nothing here says what is behind one.
        roots: Where the checks' interpreters look first.
        is_in_base: What the project has is not a shadow.
    """
    paths, behind = frozenset(changed), frozenset(links)
    return frozenset(
        path
        for path in paths
        if (path in behind and any(root == path or root.startswith(f"{path}/") for root in roots))
        or any(
            _is_shadow(root, rest, paths, behind, roots=roots, is_in_base=is_in_base)
            for root, rest in _iter_splits(path)
        )
    )


def _iter_splits(path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every folder on the way to a path, with what follows."""
    parts = PurePosixPath(path).parts
    for number in range(len(parts)):
        yield "/".join(parts[:number]) or ".", parts[number:]


def _is_shadow(
    root: str,
    rest: tuple[str, ...],
    changed: frozenset[str],
    links: frozenset[str],
    *,
    roots: Collection[str],
    is_in_base: BaseTest,
) -> bool:
    place = _join(root, rest[0])
    if is_in_base(place):
        return False
    is_link = place in links
    name = rest[0] if len(rest) > 1 or is_link else _find_module(rest[0])
    if name not in _SHADOWED:
        return False
    if root == ".":
        return True
    # A folder without `__init__` yields to any package of its name that comes later.
    is_importable = len(rest) == 1 or any(f"{place}/__init__{suffix}" in changed for suffix in _SUFFIXES)
    if not is_importable:
        return False
    if root in roots:
        return True
    return name in _UNMISTAKABLE and is_in_base(root) and not is_in_base(f"{root}/__init__.py")


def _find_module(name: str) -> str:
    """The name under which an interpreter would import a file; empty if it would not."""
    return name.partition(".")[0] if name.endswith(_SUFFIXES) else ""


def _join(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"
