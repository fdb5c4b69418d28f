"""Names of a package that are imported on first use (PEP 562).

A package that joins many others would load all of them for the sake of a single name. Such a package writes
its imports under `if TYPE_CHECKING:`, where type checkers and readers look for them, and gets from here what
reads the same lines when the program runs:

    if TYPE_CHECKING:
        from package._module import name
    else:
        __getattr__, __dir__ = build_hooks(__name__)
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, NamedTuple

from repotrial._core.python_source import parse_python

_GUARD: Final = "TYPE_CHECKING"


class _Place(NamedTuple):
    module: str
    name: str


def build_hooks(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of a package whose imports wait until they are needed."""

    def find(name: str) -> object:
        place = _read_places(package).get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # import-linter reads the lines that this one obeys.
        value = getattr(importlib.import_module(place.module), place.name)  # noqa: TID251
        # Later uses find it without this hook.
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *_read_places(package)})

    return find, list_names


def load_all(package: str) -> None:
    """Import every module of a package, at any depth."""
    module = importlib.import_module(package)  # noqa: TID251 - as above
    for found in pkgutil.walk_packages(module.__path__, f"{package}."):
        if not found.name.endswith(".__main__"):
            importlib.import_module(found.name)  # noqa: TID251 - as above


@cache
def _read_places(package: str) -> Mapping[str, _Place]:
    """Where each name comes from, by the package's own source."""
    spec = importlib.util.find_spec(package)
    source = spec.loader.get_source(package) if spec and spec.loader else None  # type: ignore[attr-defined]
    if source is None:
        raise ImportError(f"{package}: expected its source, found none", name=package)
    return {
        alias.asname or alias.name: _Place(statement.module, alias.name)
        for block in parse_python(source).body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == _GUARD
        for statement in block.body
        if isinstance(statement, ast.ImportFrom) and statement.module is not None
        for alias in statement.names
    }
