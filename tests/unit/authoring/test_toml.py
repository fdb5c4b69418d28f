"""TOML on the way out must be the same on the way back in."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.authoring._template import render_comment, render_key, render_string, render_value

_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_VALUE = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(_TEXT)
def test_every_text_survives_as_a_string(text: str) -> None:
    assert tomllib.loads(f"key = {render_string(text)}") == {"key": text}


@given(_TEXT)
def test_every_text_can_be_a_key(text: str) -> None:
    assert tomllib.loads(f"{render_key(text)} = 1") == {text: 1}


@given(_VALUE)
def test_every_value_survives(value: object) -> None:
    assert tomllib.loads(f"key = {render_value(value)}") == {"key": value}  # type: ignore[arg-type]


@given(st.text())
def test_no_text_breaks_out_of_a_comment(text: str) -> None:
    assert tomllib.loads(f"{render_comment(text)}\nkey = 1") == {"key": 1}


@given(st.text())
def test_strings_stay_on_one_line_of_valid_utf8(text: str) -> None:
    rendered = render_string(text)
    rendered.encode()
    assert len(rendered.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", '"plain"'),
        ('say "x"', """'say "x"'"""),
        ("a\\b", r"'a\b'"),
        ("""it's "x\\y\"""", r'''"it's \"x\\y\""'''),
        ("\x1b[31m", r'"\u001B[31m"'),
        ("a\u202eb", r'"a\u202Eb"'),
        ("\U000e0001", r'"\U000E0001"'),
        ("幅 é", '"幅 é"'),
        ("\ud800", '"\N{REPLACEMENT CHARACTER}"'),
    ],
)
def test_what_could_deceive_is_escaped(text: str, expected: str) -> None:
    assert render_string(text) == expected


def test_long_arrays_take_one_line_for_each_item() -> None:
    rendered = render_value(["tests/a_rather_long_path_of_a_test_file.py"] * 4)
    assert rendered.count("\n") == 5
