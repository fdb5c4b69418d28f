"""Pricing: exact where usage is known, a bound or nothing where it is not, never free."""

from __future__ import annotations

import itertools
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.absence import NotComputable
from repotrial.cost import Amount, Charge, RequestEstimate, Tariff, TokenUsage, estimate_usage
from repotrial.cost._tariff import FALLBACK, EstimateRules
from support.costs import read_book

BOOK = read_book(
    b"""action_type,unit,unit_price,notes,above_tokens,max_output_tokens
model:full:input,1M-tokens,3,,,
model:full:input,1M-tokens,6,,200000,
model:full:cache-read,1M-tokens,0.3,,,
model:full:cache-write-5m,1M-tokens,3.75,,,
model:full:cache-write-1h,1M-tokens,6,,,
model:full:output,1M-tokens,15,,,64000
model:full:output,1M-tokens,22.5,,200000,64000
model:plain:input,1M-tokens,2,,,
model:plain:output,1M-tokens,8,,,
"""
)
TARIFF = Tariff(book=BOOK)
COUNTS = st.integers(0, 10**9)


def _price(model: str, usage: TokenUsage, tariff: Tariff = TARIFF) -> Amount:
    amount = tariff.price_exchange(model, usage)
    assert isinstance(amount, Amount)
    return amount


def _estimate(
    model: str = "full", *, request_bytes: int = 4000, own: int | None, answers: int = 1
) -> RequestEstimate:
    estimate = TARIFF.estimate_request(
        model, request_bytes=request_bytes, max_output_tokens=own, answers=answers
    )
    assert isinstance(estimate, RequestEstimate)
    return estimate


def test_every_kind_of_token_has_its_own_price() -> None:
    usage = TokenUsage(
        input_uncached=1000, cache_read=10_000, cache_write_5m=100, cache_write_1h=10, output=500
    )
    amount = _price("full", usage)
    assert amount.decimal == Decimal("0.003") + Decimal("0.003") + Decimal("0.000375") + Decimal(
        "0.00006"
    ) + Decimal("0.0075")
    assert amount.basis == "reported"
    assert amount.methods == (BOOK.method,)


def test_reasoning_is_part_of_the_output_and_is_not_charged_twice() -> None:
    with_reasoning = TokenUsage(request_input=1, output=100, reasoning=90)
    assert _price("plain", with_reasoning) == _price("plain", TokenUsage(request_input=1, output=100))


def test_the_tier_depends_on_all_input_and_holds_for_the_output_too() -> None:
    usage = TokenUsage(
        input_uncached=1, cache_read=200_000, cache_write_5m=0, cache_write_1h=0, output=1_000_000
    )
    assert _price("full", usage).decimal == Decimal("0.000006") + Decimal("0.06") + Decimal("22.5")


def test_a_total_that_the_known_kinds_use_up_leaves_nothing_unknown() -> None:
    usage = TokenUsage(input_uncached=900, cache_read=100, request_input=1000, output=1)
    assert _price("full", usage).basis == "reported"


def test_an_unknown_kind_is_charged_at_the_dearest_it_can_be() -> None:
    usage = TokenUsage(cache_read=100, request_input=1100, output=0)
    amount = _price("full", usage)
    assert amount.decimal == Decimal("0.00003") + Decimal("0.006")  # an hour's cache write
    assert amount.basis == "bound"


def test_a_kind_without_a_price_costs_as_input_and_is_an_estimate() -> None:
    amount = _price(
        "plain", TokenUsage(input_uncached=0, cache_read=1000, cache_write_5m=0, cache_write_1h=0, output=0)
    )
    assert amount.decimal == Decimal("0.002")
    assert amount.basis == "estimated"


@pytest.mark.parametrize(
    "usage",
    [
        TokenUsage(),
        TokenUsage(input_uncached=5, output=5),
        TokenUsage(input_uncached=5, cache_read=5, cache_write_5m=0, output=5),
        TokenUsage(request_input=5),
    ],
)
def test_unknown_usage_is_never_zero(usage: TokenUsage) -> None:
    assert isinstance(TARIFF.price_exchange("full", usage), NotComputable)
    assert isinstance(TARIFF.build_charge("full", usage), NotComputable)


@given(st.tuples(COUNTS, COUNTS, COUNTS, COUNTS), COUNTS, st.sets(st.integers(0, 3)))
def test_forgetting_a_kind_never_makes_an_exchange_cheaper(
    counts: tuple[int, int, int, int], output: int, forgotten: set[int]
) -> None:
    names = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h")
    total = TokenUsage(request_input=sum(counts), output=output)
    whole = msgspec.structs.replace(total, **dict(zip(names, counts, strict=True)))
    known = {
        name: count
        for index, (name, count) in enumerate(zip(names, counts, strict=True))
        if index not in forgotten
    }
    part = msgspec.structs.replace(total, **known)
    assert _price("full", part).decimal >= _price("full", whole).decimal


def test_a_total_smaller_than_its_parts_is_not_believed() -> None:
    usage = TokenUsage(
        input_uncached=1000, cache_read=0, cache_write_5m=0, cache_write_1h=0, request_input=1, output=0
    )
    assert _price("full", usage).decimal == Decimal("0.003")


def test_an_unknown_model_is_refused_or_charged_in_units_but_never_free() -> None:
    usage = TokenUsage(request_input=10, output=100)
    refused = TARIFF.price_exchange("stranger", usage)
    assert isinstance(refused, NotComputable)
    assert "'stranger'" in refused.reason
    charged = _price("stranger", usage, Tariff(book=BOOK, unknown_models="abstract-units"))
    assert (charged.value, charged.unit, charged.methods) == ("1.1", "units", ("fallback:1",))
    assert _price("full", usage, Tariff(book=None)) == charged


def test_missing_usage_is_counted_in_bytes_and_marked() -> None:
    usage = estimate_usage(None, request_bytes=4001, response_bytes=7)
    assert usage == TokenUsage(request_input=1001, output=2, basis="estimated")
    assert _price("plain", usage).basis == "estimated"


def test_reported_usage_is_left_as_it_is() -> None:
    usage = TokenUsage(request_input=1, output=1)
    assert estimate_usage(usage, request_bytes=10**6, response_bytes=10**6) is usage


def test_only_the_missing_part_is_estimated() -> None:
    usage = estimate_usage(TokenUsage(input_uncached=7, output=3), request_bytes=8, response_bytes=999)
    assert usage == TokenUsage(input_uncached=7, request_input=7, output=3, basis="estimated")
    usage = estimate_usage(TokenUsage(request_input=9, reasoning=50), request_bytes=8, response_bytes=4)
    assert usage == TokenUsage(request_input=9, output=50, reasoning=50, basis="estimated")


def test_a_request_is_estimated_by_its_bytes_at_the_dearest_input_and_its_own_maximum() -> None:
    estimate = _estimate(own=2000)
    assert estimate.least == Charge(
        cost=_price("full", TokenUsage(request_input=1000, output=0, basis="estimated")), tokens=1000
    )
    assert estimate.least.cost.decimal == Decimal("0.006")
    assert estimate.most.cost.decimal == Decimal("0.006") + Decimal("0.03")
    assert (estimate.most.tokens, estimate.bound_source) == (3000, "request")


@pytest.mark.parametrize(
    ("model", "own", "bound", "source"),
    [
        ("full", 64_000, 64_000, "request"),
        ("full", 10**9, 64_000, "model-maximum"),
        ("plain", 10**9, 128_000, "policy-ceiling"),
        ("full", None, 32_000, "policy-default"),
        ("full", 0, 32_000, "policy-default"),
        ("full", -1, 32_000, "policy-default"),
    ],
)
def test_the_output_bound_is_the_requests_own_within_reason(
    model: str, own: int | None, bound: int, source: str
) -> None:
    estimate = _estimate(model, own=own)
    assert (estimate.output_bound_tokens, estimate.bound_source) == (bound, source)


def test_several_answers_need_several_bounds() -> None:
    assert _estimate(own=100, answers=10).output_bound_tokens == 1000
    assert _estimate(own=10**9, answers=10).output_bound_tokens == 640_000


@given(
    request_bytes=COUNTS, own=st.integers(1, 64_000), output=st.integers(0, 64_000), kind=st.integers(0, 3)
)
def test_an_exchange_within_its_tokens_costs_no_more_than_was_estimated(
    request_bytes: int, own: int, output: int, kind: int
) -> None:
    rules = EstimateRules(bytes_per_token=1)
    estimate = TARIFF.estimate_request(
        "full", request_bytes=request_bytes, max_output_tokens=own, rules=rules
    )
    assert isinstance(estimate, RequestEstimate)
    counts = [0, 0, 0, 0]
    counts[kind] = request_bytes
    usage = TokenUsage(
        input_uncached=counts[0],
        cache_read=counts[1],
        cache_write_5m=counts[2],
        cache_write_1h=counts[3],
        output=min(output, own),
    )
    assert _price("full", usage).decimal <= estimate.most.cost.decimal


def test_a_request_for_an_unknown_model_is_not_estimated() -> None:
    found = TARIFF.estimate_request("stranger", request_bytes=1, max_output_tokens=1)
    assert isinstance(found, NotComputable)


def test_the_coefficients_of_a_schedule_belong_to_its_version() -> None:
    coefficients = (
        FALLBACK.per_request,
        FALLBACK.per_output_token,
        FALLBACK.per_tool_call,
        FALLBACK.per_second,
        FALLBACK.per_stored_byte,
    )
    assert {"1": ("1", "0.001", "0.1", "0.01", "0.0000001")}[FALLBACK.version] == coefficients


def test_the_schedule_prices_what_it_says() -> None:
    assert FALLBACK.price_request(1500).value == "2.5"
    assert FALLBACK.price_execution(tool_calls=3, wall_us=2_500_000).value == "0.325"
    assert FALLBACK.price_storage(1_000_000).value == "0.1"


def test_the_four_kinds_of_input_are_all_priced() -> None:
    for kinds in itertools.product((0, 1), repeat=4):
        names = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h")
        amount = _price(
            "full", msgspec.structs.replace(TokenUsage(output=0), **dict(zip(names, kinds, strict=True)))
        )
        assert bool(amount.decimal) == any(kinds)
