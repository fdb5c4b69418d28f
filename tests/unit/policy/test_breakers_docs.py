"""The published tables of rules are those of the files."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

from repotrial.policy import parse_thresholds, read_thresholds
from repotrial.policy._text_model import load_text_rules

PAGE = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "breakers.md"
_TEXT = files("repotrial.policy").joinpath("_data", "thresholds.toml").read_text("utf-8")
_SECTIONS = {name: values for name, values in tomllib.loads(_TEXT).items() if isinstance(values, dict)}


def _find_row(name: str) -> list[str]:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith(f"| `{name}` |")]
    assert len(rows) == 1, name
    return [cell.strip() for cell in rows[0].strip("|").split("|")]


def test_a_threshold_of_the_code_without_a_value_in_the_file_is_noticed() -> None:
    loaded = msgspec.to_builtins(parse_thresholds(read_thresholds()))
    others = {"schema", "rules", "changes", "digest"}
    assert {name: values for name, values in loaded.items() if name not in others} == _SECTIONS


@pytest.mark.parametrize("name", sorted(_SECTIONS))
def test_a_breaker_is_published_with_its_thresholds(name: str) -> None:
    published = {key: int(value) for key, value in re.findall(r"`(\w+)` (\d+)", _find_row(name)[2])}
    assert published == _SECTIONS[name]


@pytest.mark.parametrize("name", sorted(load_text_rules()))
def test_a_rule_over_text_is_published_with_its_class(name: str) -> None:
    rule = load_text_rules()[name]
    assert _find_row(name)[1:] == [rule.finding_class, rule.severity, rule.summary]


def test_no_published_rule_is_missing_from_the_files() -> None:
    tables = re.findall(r"^\| rule \|.*\n(?:\|.*\n)+", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(tables) == 2
    names = set(re.findall(r"^\| `([\w-]+)` \|", "".join(tables), re.MULTILINE))
    assert names == set(_SECTIONS) | set(load_text_rules())
