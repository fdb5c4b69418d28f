"""Every package exports exactly what it says, sorted."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from repotrial._core.lazy import load_all

_MEANS = {"annotations", "TYPE_CHECKING", "build_hooks"}
"""What a package needs to say what it exports."""
PACKAGES = [
    "repotrial",
    "repotrial.analysis",
    "repotrial.api",
    "repotrial.authoring",
    "repotrial.change",
    "repotrial.contract",
    "repotrial.cost",
    "repotrial.fleet",
    "repotrial.policy",
    "repotrial.report",
    "repotrial.retrieval",
    "repotrial.run",
    "repotrial.sandbox",
    "repotrial.score",
    "repotrial.source",
    "repotrial.stats",
    "repotrial.trace",
    "repotrial.trace.importers",
]


@pytest.mark.parametrize("name", PACKAGES)
def test_all_names_what_is_exported(name: str) -> None:
    module = importlib.import_module(name)
    load_all(name)
    public = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and not isinstance(value, ModuleType) and key not in _MEANS
    }
    assert public == {key for key in module.__all__ if not key.startswith("_")}
    assert len(set(module.__all__)) == len(module.__all__)
