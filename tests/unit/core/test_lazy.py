"""Packages whose names are imported when they are first asked for."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from repotrial import api
from repotrial._core.lazy import load_all

_PACKAGE = """\
from typing import TYPE_CHECKING
from repotrial._core.lazy import build_hooks
if TYPE_CHECKING:
    from {name}._quick import quick
    from {name}._slow import (
        slow,
        slow as slower,
    )
else:
    __getattr__, __dir__ = build_hooks(__name__)
"""


@pytest.fixture(name="package")
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    name = "lazily_made"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(_PACKAGE.format(name=name), encoding="utf-8")
    (tmp_path / name / "_quick.py").write_text("quick = 'quick'\n", encoding="utf-8")
    (tmp_path / name / "_slow.py").write_text("slow = 'slow'\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for loaded in [module for module in sys.modules if module.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, loaded)
    return importlib.import_module(name)


def test_a_name_brings_its_own_module_and_no_other(package: ModuleType) -> None:
    assert package.quick == "quick"
    assert "lazily_made._quick" in sys.modules
    assert "lazily_made._slow" not in sys.modules
    assert vars(package)["quick"] == "quick"


def test_all_names_are_listed_before_any_is_loaded(package: ModuleType) -> None:
    assert {"quick", "slow", "slower"} <= set(dir(package))
    assert "lazily_made._quick" not in sys.modules


def test_everything_comes_at_once_where_that_is_wanted(package: ModuleType) -> None:
    load_all(package.__name__)
    assert {"lazily_made._quick", "lazily_made._slow"} <= set(sys.modules)


def test_a_name_that_is_not_there_is_missed_as_anywhere(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"module 'lazily_made' has no attribute 'absent'"):
        _ = package.absent
    with pytest.raises(ImportError, match="absent"):
        exec("from lazily_made import absent")
    assert not hasattr(api, "absent")
