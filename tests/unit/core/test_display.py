from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.display import escape_unprintable, neutralize


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ünïcode, 漢字", "plain, ünïcode, 漢字"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb", "a\\nb"),
        ("\u202eevil", "\\u202eevil"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_does_not_print_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert escape_unprintable(text) == shown


def test_what_the_caller_keeps_stays() -> None:
    assert escape_unprintable("a\n\tb\x07", keep="\n\t") == "a\n\tb\\x07"


@given(st.text(), st.integers(1, 50))
def test_one_line_of_bounded_length(text: str, limit: int) -> None:
    shown = neutralize(text, max_characters=limit)
    assert shown.isprintable()
    assert len(shown) <= limit
