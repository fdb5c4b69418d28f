from __future__ import annotations

from decimal import Decimal

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.canonical import (
    MAX_SAFE_INTEGER,
    JsonValue,
    canonical_bytes,
    canonical_digest,
    decimal_text,
)
from support.errors import raises_code

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_keys = st.text(st.characters(max_codepoint=0x7F), max_size=10)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER) | _text,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_keys, inner, max_size=5),
    max_leaves=20,
)


@given(_values)
def test_allowed_values_have_the_bytes_of_rfc_8785(value: JsonValue) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


def test_every_control_character_is_escaped_as_rfc_8785_asks() -> None:
    text = "".join(map(chr, range(0x100))) + "\u2028\u2029\ufeff\U0001f600"
    assert canonical_bytes(text) == rfc8785.dumps(text)


def test_key_order_does_not_matter() -> None:
    assert canonical_digest({"a": 1, "b": [2]}) == canonical_digest({"b": [2], "a": 1})


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [0, 1.5]}, "$.a[1]"),
        (float("nan"), "$"),
        (2**53, "$"),
        (-(2**53), "$"),
        ({"é": 1}, "$"),
        ({"k": {1: 2}}, "$.k"),
        (["\ud800"], "$[0]"),
        (b"bytes", "$"),
        ({"d": Decimal(1)}, "$.d"),
    ],
)
def test_what_has_no_canonical_form_is_refused_with_its_place(value: JsonValue, place: str) -> None:
    with raises_code("not-canonical") as caught:
        canonical_bytes(value)
    assert caught.value.message.startswith(f"{place}:")


@pytest.mark.parametrize(
    ("spelling", "text"),
    [
        ("5", "5"),
        ("5.00", "5"),
        ("5e0", "5"),
        ("0.50", "0.5"),
        ("-0.0", "0"),
        ("1e3", "1000"),
        ("1E-7", "0.0000001"),
    ],
)
def test_one_number_has_one_spelling(spelling: str, text: str) -> None:
    assert decimal_text(Decimal(spelling)) == text


@pytest.mark.parametrize("spelling", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_are_refused(spelling: str) -> None:
    with raises_code("not-canonical"):
        decimal_text(Decimal(spelling))


@pytest.mark.parametrize("levels", [201, 1_000, 100_000])
def test_nesting_too_deep_is_refused(levels: int) -> None:
    value: JsonValue = 1
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    with raises_code("not-canonical", match="levels of nesting"):
        canonical_bytes(value)


def test_a_decimal_keeps_all_its_digits() -> None:
    digits = "0." + "123456789" * 10
    assert decimal_text(Decimal(digits)) == digits


@pytest.mark.parametrize("spelling", ["1e999999", "-1e-999999", "1e1001"])
def test_a_decimal_that_would_fill_the_memory_is_refused(spelling: str) -> None:
    with raises_code("not-canonical", match="sensible size"):
        decimal_text(Decimal(spelling))
