from __future__ import annotations

import argparse
import ast
import gc
import inspect
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import repotrial
from repotrial._core.python_source import parse_python

SOURCE = inspect.getsource(argparse)


class Finalized:
    """Lets other threads at work whenever the collector finds one."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(50):
            pass


@pytest.fixture
def _busy_collector() -> Iterator[None]:
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    yield
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("_busy_collector")
def test_threads_that_parse_at_once_all_get_their_trees() -> None:
    def parse(_: int) -> int:
        Finalized()
        return len(parse_python(SOURCE).body)

    with ThreadPoolExecutor(6) as pool:
        assert len({*pool.map(parse, range(36))}) == 1


def test_what_is_no_source_is_said_as_python_says_it() -> None:
    with pytest.raises(SyntaxError):
        parse_python("def")
    with pytest.raises((SyntaxError, ValueError)):
        parse_python("a\0b")


def test_nobody_hears_of_what_an_author_wrote() -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        parse_python(r"pattern = '\d'")
    assert not heard


def test_nobody_else_makes_trees() -> None:
    found = [
        path
        for path in sorted(Path(repotrial.__file__).parent.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"ast.parse", "ast.literal_eval"}
    ]
    assert [path.name for path in found] == ["python_source.py"] * 2
