"""Every package exports exactly what it says, sorted."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

import repotrial

_MEANS = {"annotations", "TYPE_CHECKING", "build_hooks"}
"""What a package needs to say what it exports."""


ROOMS = sorted(
    front.parent.name
    for front in Path(repotrial.__file__).parent.glob("*/__init__.py")
    if front.parent.name != "_core"
)


@pytest.mark.parametrize("name", ["repotrial", *(f"repotrial.{room}" for room in ROOMS)])
def test_all_names_what_is_exported(name: str) -> None:
    module = importlib.import_module(name)
    public = {
        key
        for key in dir(module)
        if not key.startswith("_") and not isinstance(getattr(module, key), ModuleType) and key not in _MEANS
    }
    exported = getattr(module, "__all__", [])
    assert public == {key for key in exported if not key.startswith("_")}
    assert len(set(exported)) == len(exported)
