"""Versions against constraints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.environment._versions import meets, parse_version

_PARTS = st.lists(st.integers(0, 30), min_size=1, max_size=4)
_VERSIONS = _PARTS.map(lambda parts: ".".join(map(str, parts)))


@pytest.mark.parametrize(
    ("version", "constraint", "expected"),
    [
        ("3.11.2", ">=3.11", True),
        ("3.11", "==3.11.0", True),
        ("3.9.18", ">=3.11", False),
        ("3.11.2", ">=3.11,<3.12", True),
        ("3.12.0", ">=3.11,<3.12", False),
        ("20.20.2", "~=20.1", True),
        ("21.0.0", "~=20.1", False),
        ("3.11", "~=3.11.0", True),
        ("3.12", "~=3.11.0", False),
        ("2.43.0.windows.1", ">=2.30", True),
        ("3.13.0rc1", ">=3.13", True),
        ("v18.1.0", "!=18.1", False),
        ("", ">=0", False),
        ("unknown", ">=0", False),
        ("3.11", "3.11", False),
        ("3.11", ">=", False),
        ("3.11", "", False),
    ],
)
def test_constraints_mean_what_authors_expect(version: str, constraint: str, *, expected: bool) -> None:
    assert meets(version, constraint) is expected


@given(_VERSIONS, _VERSIONS)
def test_comparisons_are_those_of_the_padded_numbers(left: str, right: str) -> None:
    length = max(left.count("."), right.count(".")) + 1
    numbers = [tuple([*map(int, text.split(".")), *[0] * length][:length]) for text in (left, right)]
    found, wanted = numbers
    assert meets(left, f">={right}") == (found >= wanted)
    assert meets(left, f"<={right}") == (found <= wanted)
    assert meets(left, f">{right}") == (found > wanted)
    assert meets(left, f"<{right}") == (found < wanted)
    assert meets(left, f"=={right}") == (found == wanted)
    assert meets(left, f"!={right}") == (found != wanted)


@given(_VERSIONS, _PARTS.filter(lambda parts: len(parts) > 1))
def test_compatible_release_is_a_lower_bound_and_a_prefix(version: str, wanted: list[int]) -> None:
    text = ".".join(map(str, wanted))
    upper = ".".join(map(str, [*wanted[:-2], wanted[-2] + 1]))
    assert meets(version, f"~={text}") == meets(version, f">={text},<{upper}")


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_text_is_too_strange(version: str, constraint: str) -> None:
    assert meets(version, constraint) in {True, False}


def test_endless_numbers_are_no_versions() -> None:
    assert parse_version("9" * 5000) is None or parse_version("9" * 5000) == (int("9" * 100),)
