from __future__ import annotations

import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.authoring._text import build_slug, clean_line, clean_text, shorten
from repotrial.contract import Check


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x9b2Jtext", "text"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\u202eb\u200bc", "abc"),
        ("nul\0", "nul"),
        ("👩\u200d💻", "👩\u200d💻"),
    ],
)
def test_only_what_can_be_seen_stays(text: str, expected: str) -> None:
    assert clean_text(text) == expected


@given(st.text())
def test_cleaned_text_holds_no_controls(text: str) -> None:
    cleaned = clean_text(text)
    assert all(unicodedata.category(c) not in {"Cc", "Cs"} or c in "\n\t" for c in cleaned)
    assert "\n" not in clean_line(text)


@given(st.text(), st.integers(2, 50))
def test_shortened_text_fits(text: str, limit: int) -> None:
    assert len(shorten(text, limit)) <= limit


@given(st.text(), st.integers(1, 60))
def test_a_slug_is_empty_or_an_identifier(text: str, limit: int) -> None:
    slug = build_slug(text, limit=limit)
    assert len(slug) <= limit
    if slug:
        assert msgspec.convert({"id": slug, "gate": "build", "run": "make"}, Check).id == slug


def test_slugs_end_at_a_word() -> None:
    assert build_slug("fill() breaks East-Asian text", limit=16) == "fill-breaks-east"
