"""Synthetic instances of SWE-bench: a real repository with a base, a fix and tests, told in its own form."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from support.repositories import Files, RepositoryMaker

__all__ = ["BASE", "FIX", "INSTANCE_ID", "TESTS", "build_row", "drop_modes", "make_instance", "write_jsonl"]

INSTANCE_ID: Final = "Example__Clamp-12"

BASE: Final[Files] = {
    "pyproject.toml": '[project]\nname = "clamp"\nversion = "1.2"\n',
    "clamp/__init__.py": '"""Numbers between others."""\n\n\ndef clamp(value, low, high):\n'
    "    return max(low, value)\n",
    "tests/test_clamp.py": "from clamp import clamp\n\n\n"
    "def test_low():\n    assert clamp(-3, 0, 9) == 0\n\n\n"
    "def test_inside():\n    assert clamp(4, 0, 9) == 4\n",
    "tests/old_data.txt": "4\n",
}
FIX: Final[Files] = {
    "clamp/__init__.py": '"""Numbers between others."""\n\n\ndef clamp(value, low, high):\n'
    "    return min(high, max(low, value))\n",
}
TESTS: Final[Files] = {
    "tests/test_clamp.py": """\
import pytest

from clamp import clamp


def test_low():
    assert clamp(-3, 0, 9) == 0


def test_inside():
    assert clamp(4, 0, 9) == 4


class TestHigh:
    def test_integer(self):
        assert clamp(30, 0, 9) == 9

    @pytest.mark.parametrize(("value", "expected"), [(9.5, 9.0), (8.5, 8.5)], ids=["above::it", "below it"])
    def test_float(self, value, expected):
        assert clamp(value, 0.0, 9.0) == expected
""",
}


def make_instance(
    path: Path, *, fix: Files = FIX, tests: Files = TESTS, removed: tuple[str, ...] = (), **fields: Any
) -> dict[str, Any]:
    """A repository at `path` that has the base alone, and the instance that is about it."""
    maker = RepositoryMaker(path)
    base = maker.commit(BASE)
    patch = _diff(maker, base, fix)
    test_patch = _diff(maker, base, tests, removed)
    maker.git("checkout", "-q", "main")
    return {**build_row(base, patch, test_patch), **fields}


def build_row(base: str, patch: str, test_patch: str) -> dict[str, Any]:
    return {
        "instance_id": INSTANCE_ID,
        "repo": "Example/Clamp",
        "base_commit": base,
        "patch": patch,
        "test_patch": test_patch,
        "problem_statement": "Values above the bound stay\r\n\r\nExpected 9 for 30 in 0..9, got 30.\r\n",
        "hints_text": "never shown",
        "version": "1.2",
        "environment_setup_commit": base,
        "FAIL_TO_PASS": json.dumps(
            [
                "tests/test_clamp.py::TestHigh::test_integer",
                "tests/test_clamp.py::TestHigh::test_float[above::it]",
            ]
        ),
        "PASS_TO_PASS": [
            "tests/test_clamp.py::test_low",
            "tests/test_clamp.py::test_inside",
            "tests/test_clamp.py::TestHigh::test_float[below it]",
        ],
    }


def drop_modes(patch: str) -> str:
    """A patch as the data set has nearly all of them: nothing says what kind of file a changed one is."""
    return re.sub(r"^index [0-9a-f]+\.\.[0-9a-f]+(?: \d{6})?\n", "", patch, flags=re.MULTILINE)


def write_jsonl(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _diff(maker: RepositoryMaker, base: str, files: Files, removed: tuple[str, ...] = ()) -> str:
    """The change against the base, on a branch that nobody keeps."""
    maker.git("checkout", "-q", "--detach", base)
    for name in removed:
        (maker.path / name).unlink()
    changed = maker.commit(files)
    return maker.git("diff", "--binary", base, changed).decode()
