"""Price books: read exactly, or refused with every problem named."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from pathlib import Path

import pytest

from repotrial.cost import load_price_book
from support.costs import read_book
from support.errors import raises_code

HEADER = "action_type,unit,unit_price,notes,above_tokens,team\n"
BOOK = HEADER + (
    "model:one:input,1M-tokens,2,,,blue\n"
    "model:one:input,1M-tokens,4,long,200000,blue\n"
    "model:one:output,1k-tokens,0.01,,,\n"
    "model:one-*:input,token,0.000001,,,\n"
    "model:one-*:output,token,0.000002,,,\n"
    "model:one-big-*:input,token,0.00001,,,\n"
    "model:one-big-*:output,token,0.00002,,,\n"
    "model:host:8b:input,token,0,runs on our own machine,,\n"
    "model:host:8b:output,token,0,runs on our own machine,,\n"
    "exec:wall,hour,0.36,,,\n"
)


def _problems(text: str) -> list[tuple[int, str]]:
    with raises_code("price-book") as caught:
        read_book(text.encode())
    assert all(f"prices.csv:{problem.line}: " in str(caught.value) for problem in caught.value.details)
    assert all("expected" in problem.message and problem.fix for problem in caught.value.details)
    return [(problem.line, problem.field) for problem in caught.value.details]


def test_the_identity_of_a_book_is_the_digest_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(BOOK, encoding="utf-8")
    book = load_price_book(path)
    assert book.digest == "sha256:" + hashlib.sha256(BOOK.encode()).hexdigest()
    assert book.method == f"price-book:{book.digest}"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("one", "one"),
        ("one-mini", "one-*"),
        ("one-big-2026", "one-big-*"),
        ("one-big-", "one-big-*"),
        ("host:8b", "host:8b"),
    ],
)
def test_the_whole_name_wins_then_the_longest_pattern(model: str, name: str) -> None:
    found = read_book(BOOK.encode()).find_model(model)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("model", ["on", "One", "two", "", "host:8", "xone-1"])
def test_a_model_that_nobody_declared_has_no_price(model: str) -> None:
    assert read_book(BOOK.encode()).find_model(model) is None


def test_a_name_in_a_book_has_a_length_and_a_star_only_at_its_end() -> None:
    for name in ("x" * 201, "a*b", "**", ""):
        rows = f"model:{name}:input,token,1,,,\nmodel:{name}:output,token,1,,,\n"
        assert _problems(HEADER + rows) == [(2, "action_type"), (3, "action_type")]


def test_a_pattern_of_nothing_fits_every_model() -> None:
    book = read_book((HEADER + "model:*:input,token,1,,,\nmodel:*:output,token,1,,,\n").encode())
    for model in ("", "*", "anything", "x" * 10**6):
        assert book.find_model(model) is book.models["*"]


def test_the_order_of_rows_does_not_matter() -> None:
    header, *rows = BOOK.splitlines(keepends=True)
    backwards = read_book("".join([header, *reversed(rows)]).encode())
    for model, price in (("one-mini", "0.000001"), ("one-big-1", "0.00001"), ("one", "2")):
        prices = backwards.find_model(model)
        assert prices is not None
        assert prices.choose_price("input", 1)[0].unit_price == Decimal(price)


@pytest.mark.parametrize(("tokens", "price"), [(0, 2), (1, 2), (200_000, 2), (200_001, 4), (10**9, 4)])
def test_a_tier_begins_above_its_number(tokens: int, price: int) -> None:
    prices = read_book(BOOK.encode()).models["one"]
    assert prices.choose_price("input", tokens)[0].unit_price == price


def test_other_columns_are_kept() -> None:
    prices = read_book(BOOK.encode()).models["one"]
    assert prices.tiers["input"][1].extra == {"team": "blue"}
    assert prices.tiers["input"][1].notes == "long"


def test_all_problems_come_at_once_each_with_line_and_field() -> None:
    text = HEADER + (
        "model:one:inptu,1M-tokens,2,,,\n"
        "model:one:output,1M-token,2,,,\n"
        "model:one:input,1M-tokens,-2,,,\n"
        "exec:wall,hour,1,,5,\n"
        "exec:wal,hour,1,,,\n"
        "model:two:input,token,1,,many,\n"
        "storage:byte,byte,0,,,\n"
        "too,few\n"
    )
    assert _problems(text) == [
        (2, "action_type"),
        (3, "unit"),
        (4, "unit_price"),
        (5, "above_tokens"),
        (6, "action_type"),
        (7, "above_tokens"),
        (8, "notes"),
        (9, ""),
    ]


def test_a_misspelled_word_is_recognized() -> None:
    with raises_code("price-book", match=r"did you mean input\?"):
        read_book((HEADER + "model:one:inptu,token,1,,,\n").encode())


@pytest.mark.parametrize(
    "price", ["NaN", "Infinity", "1e-6", "-0", "+1", " ", "1,5", "0x1", "1.", ".5", "1_0"]
)
def test_a_price_is_a_plain_decimal(price: str) -> None:
    cell = f'"{price}"'
    assert (2, "unit_price") in _problems(HEADER + f"exec:wall,hour,{cell},free,,\n")


def test_a_model_needs_input_and_output_from_the_first_token_on() -> None:
    assert _problems(HEADER + "model:one:input,token,1,,,\n") == [(2, "action_type")]
    rows = "model:one:input,token,1,,5,\nmodel:one:output,token,1,,,\n"
    assert _problems(HEADER + rows) == [(2, "above_tokens")]


def test_one_price_is_not_declared_twice() -> None:
    rows = "exec:wall,hour,1,,,\nexec:wall,second,1,,,\n"
    assert _problems(HEADER + rows) == [(3, "action_type")]


def test_another_currency_is_not_taken_for_dollars() -> None:
    text = "action_type,unit,unit_price,notes,currency\nexec:wall,hour,1,,eur\n"
    assert _problems(text) == [(2, "currency")]


@pytest.mark.parametrize(
    ("header", "field"),
    [
        ("action_type,unit,notes", "unit_price"),
        ("action_type,unit,unit_price,notes,unit", "unit"),
        ("", "unit_price"),
    ],
)
def test_the_first_line_names_every_column_once(header: str, field: str) -> None:
    assert (1, field) in _problems(header + "\n")


def test_a_book_needs_no_notes_but_for_what_costs_nothing() -> None:
    header = "action_type,unit,unit_price\n"
    assert read_book(f"{header}exec:wall,hour,1\n".encode()).actions["exec:wall"].notes == ""
    assert _problems(f"{header}exec:wall,hour,0\n") == [(2, "notes")]


def test_a_book_without_prices_is_none() -> None:
    assert _problems(HEADER) == [(1, "")]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with raises_code("price-book", match=r"none\.csv:1: expected a readable file"):
        load_price_book(tmp_path / "none.csv")


def test_the_bundled_book_is_sound_and_knows_common_models() -> None:
    book = load_price_book(None)
    assert len([name for name in book.models if not name.endswith("*")]) >= 40
    for model in (
        "claude-sonnet-4-5-20250929",
        "gpt-5",
        "gemini-2.5-pro",
        "devstral-medium-latest",
        "grok-4.7",
    ):
        assert book.find_model(model) is not None, model
    assert book.find_model("gpt-5-something-new") is None


def test_every_price_of_the_bundled_book_says_where_it_is_from() -> None:
    book = load_price_book(None)
    prices = [price for model in book.models.values() for tier in model.tiers.values() for price in tier]
    assert all(price.notes.startswith("litellm ") and price.unit_price > 0 for price in prices)


def test_a_cache_read_never_costs_more_than_input_in_the_bundled_book() -> None:
    for model in load_price_book(None).models.values():
        for price in model.tiers.get("cache-read", ()):
            assert price.unit_price <= model.choose_price("input", price.above_tokens + 1)[0].unit_price
