"""Every key of `[policy]`, `[limits]` and `[environment]`, and the test that breaks it (C7).

The schema is walked: a key that is new has no row in `contract-keys.toml`, and fails here until a test breaks
it. A row names a test function whose file speaks of the key, so that it cannot point at something else.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec.inspect as mi
import pytest

from repotrial.contract import Environment, Limits, Policy

ROOT: Final = Path(__file__).parents[3]
TABLE: Final = tomllib.loads((ROOT / "tests" / "data" / "contract-keys.toml").read_text(encoding="utf-8"))
ROWS: Final[dict[str, str]] = TABLE["rows"]
NAMES: Final = frozenset(TABLE["names"])
UNBROKEN: Final[dict[str, str]] = TABLE["unbroken"]
MOST_UNBROKEN: Final = 7
"""It may only shrink."""


def _iter_keys(model: type, place: str) -> Iterator[str]:
    info = mi.type_info(model)
    assert isinstance(info, mi.StructType)
    for field in info.fields:
        key = f"{place}.{field.encode_name}"
        below = list(_iter_models(field.type))
        for each in below:
            yield from _iter_keys(each, key)
        if not below:
            yield key


def _iter_models(info: mi.Type) -> Iterator[type]:
    match info:
        case mi.StructType(cls=cls):
            yield cls
        case mi.UnionType(types=types):
            for each in types:
                yield from _iter_models(each)
        case mi.VarTupleType(item_type=item) | mi.DictType(value_type=item) | mi.Metadata(type=item):
            yield from _iter_models(item)
        case _:
            return


KEYS: Final = sorted(
    {
        key
        for model, place in ((Policy, "policy"), (Limits, "limits"), (Environment, "environment"))
        for key in _iter_keys(model, place)
    }
)


def _find_row(key: str) -> str | None:
    """The row of a key, or of the table that it stands in."""
    while key:
        if key in ROWS:
            return key
        key = key.rpartition(".")[0]
    return None


@cache
def _read(path: str) -> tuple[str, frozenset[str]]:
    text = (ROOT / path).read_text(encoding="utf-8")
    found = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    return text, frozenset(node.name for node in found)


def test_the_walk_finds_keys_at_every_depth() -> None:
    assert {"policy.stages", "limits.memory_mb.kill", "environment.services.readiness.port"} <= set(KEYS)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_has_a_test_that_breaks_it(key: str) -> None:
    row = _find_row(key)
    assert (row is not None) + (key in NAMES) + (key in UNBROKEN) == 1, "one row, and one only"


@pytest.mark.parametrize("row", sorted(ROWS))
def test_a_row_names_a_test_that_is_there_and_speaks_of_the_key(row: str) -> None:
    path, _, function = ROWS[row].partition("::")
    text, functions = _read(path)
    assert function in functions
    *_, table, leaf = row.split(".")
    assert re.search(rf"\b{leaf if leaf not in _BELOW else table}\b", text), f"{path} never says {leaf}"


_BELOW: Final = frozenset({"kill"})
"""Keys whose table says what they are about."""


def test_no_row_speaks_of_a_key_that_is_gone() -> None:
    used = {_find_row(key) for key in KEYS}
    assert set(ROWS) <= used
    assert NAMES | set(UNBROKEN) <= set(KEYS)
    assert len(UNBROKEN) <= MOST_UNBROKEN
