"""`repotrial error`, and the catalogue behind it."""

from __future__ import annotations

import csv
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import repotrial
from repotrial import api
from support.command_line import call

_RELEASED = Path(__file__).resolve().parents[2] / "data" / "released_errors.csv"
"""Codes that users may rely on. One that cannot be raised any more is taken out, never renamed."""

_ALL_CODES = """
import importlib, json
for name in {names!r}:
    importlib.import_module(name)
from repotrial._core.errors import ERROR_CODES
print(json.dumps(sorted(ERROR_CODES)))
"""


def test_list_has_a_line_per_code(capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "error", "list")
    assert ended.status == 0
    assert [line.split()[0] for line in ended.out.splitlines()] == [entry.code for entry in api.list_errors()]
    listed = json.loads(call(capsys, "error", "list", "--json").out)
    assert [entry["code"] for entry in listed] == [entry.code for entry in api.list_errors()]


def test_list_knows_every_error_of_every_module() -> None:
    """Modules that are imported late must not be missing from the catalogue."""
    names = [
        module.name
        for module in pkgutil.walk_packages(repotrial.__path__, "repotrial.")
        if not module.name.endswith("__main__")
    ]
    script = _ALL_CODES.format(names=names)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    script = "from repotrial.cli import main; main(['error', 'list', '--json'])"
    fresh = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert [entry["code"] for entry in json.loads(fresh.stdout)] == json.loads(done.stdout)


def test_released_codes_keep_their_blame_and_exit_code() -> None:
    found = {entry.code: (entry.blame, str(entry.exit_code)) for entry in api.list_errors()}
    with _RELEASED.open(encoding="utf-8", newline="") as stream:
        released = {row["code"]: (row["blame"], row["exit"]) for row in csv.DictReader(stream)}
    assert released
    assert {code: found.get(code) for code in released} == released


@pytest.mark.parametrize("code", [entry.code for entry in api.list_errors()])
def test_every_code_is_explained(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "error", "show", code)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith(f"{code}: ")
    entry = json.loads(call(capsys, "error", "show", code, "--json").out)
    assert entry["exit_code"] in {1, 2, 3}
    assert entry["description"]


_GENERAL = {"machine", "usage"}
"""They are raised with a hint of their own, or with none."""


@pytest.mark.parametrize("code", [entry.code for entry in api.list_errors()])
def test_every_code_says_what_to_do(code: str) -> None:
    assert api.find_error(code).hint or code in _GENERAL
