"""Cost statements: four terms, each an amount or the reason why there is none."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from repotrial._core.absence import NotComputable, Unknown
from repotrial.cost import Amount, CostStatement, Metered, MeteredExchange, Tariff, TokenUsage
from support.costs import read_book

MODEL_ROWS = b"model:m:input,1M-tokens,1,\nmodel:m:output,1M-tokens,10,\n"
HEADER = b"action_type,unit,unit_price,notes\n"
FULL = read_book(
    HEADER + MODEL_ROWS + b"exec:wall,hour,0.36,\nexec:tool-call,call,0.01,\nhuman:minute,minute,1,\n"
    b"overhead:wall,second,0.001,\nstorage:byte,1GB,0.02,\n"
)
MODELS_ONLY = read_book(HEADER + MODEL_ROWS)
EXCHANGE = MeteredExchange(model="m", usage=TokenUsage(request_input=1000, output=100))
METERED = Metered(
    exchanges=(EXCHANGE, EXCHANGE),
    exec_wall_us=10_000_000,
    tool_calls=2,
    human_us=90_000_000,
    overhead_wall_us=1_000_000,
    stored_bytes=1_000_000,
)


def _value(term: object) -> str:
    assert isinstance(term, Amount), term
    return term.value


def test_four_terms_add_up() -> None:
    statement = CostStatement.build(Tariff(book=FULL), METERED)
    terms = (statement.lm, statement.exec, statement.human, statement.overhead, statement.total)
    assert [_value(term) for term in terms] == ["0.004", "0.021", "1.5", "0.00102", "1.52602"]
    assert statement.book_digest == FULL.digest
    assert isinstance(statement.total, Amount)
    assert statement.total.methods == (FULL.method,)


def test_an_exchange_that_broke_off_costs_its_bound() -> None:
    bound = Amount.build(Decimal("0.5"), "usd", methods=(FULL.method,))
    statement = CostStatement.build(Tariff(book=FULL), msgspec.structs.replace(METERED, bounds=(bound,)))
    assert _value(statement.lm) == "0.504"


def test_a_statement_survives_its_document() -> None:
    for book in (FULL, MODELS_ONLY, None):
        statement = CostStatement.build(Tariff(book=book), METERED)
        assert msgspec.json.decode(msgspec.json.encode(statement), type=CostStatement) == statement


def test_what_happened_and_has_no_price_is_not_free() -> None:
    statement = CostStatement.build(Tariff(book=MODELS_ONLY), METERED)
    assert isinstance(statement.exec, NotComputable)
    assert isinstance(statement.human, NotComputable)
    assert isinstance(statement.total, NotComputable)
    assert "exec, human, overhead" in statement.total.reason


def test_what_did_not_happen_costs_nothing_whatever_the_book_has() -> None:
    idle = Metered(exchanges=(), exec_wall_us=0, tool_calls=0, human_us=0, overhead_wall_us=0, stored_bytes=0)
    for book in (FULL, MODELS_ONLY, None):
        assert _value(CostStatement.build(Tariff(book=book), idle).total) == "0"


@pytest.mark.parametrize("book", [FULL, None])
def test_what_was_not_metered_is_unknown(book: object) -> None:
    blind = Metered(
        exchanges=None,
        exec_wall_us=None,
        tool_calls=None,
        human_us=None,
        overhead_wall_us=None,
        stored_bytes=None,
    )
    statement = CostStatement.build(Tariff(book=FULL if book else None), blind)
    for term in (statement.lm, statement.exec, statement.human, statement.overhead):
        assert isinstance(term, Unknown)
    assert isinstance(statement.total, NotComputable)


def test_without_a_book_everything_is_in_abstract_units() -> None:
    metered = msgspec.structs.replace(METERED, human_us=0)
    statement = CostStatement.build(Tariff(book=None), metered)
    assert isinstance(statement.total, Amount)
    assert (statement.total.unit, statement.total.methods) == ("units", ("fallback:1",))
    assert _value(statement.lm) == "2.2"
    assert _value(statement.exec) == "0.3"
    assert _value(statement.overhead) == "0.11"
    assert (statement.book_digest, statement.fallback_version) == (None, "1")


def test_people_are_not_free_in_abstract_units() -> None:
    statement = CostStatement.build(Tariff(book=None), METERED)
    assert isinstance(statement.human, NotComputable)


def test_dollars_and_units_are_not_added() -> None:
    stranger = MeteredExchange(model="stranger", usage=EXCHANGE.usage)
    metered = msgspec.structs.replace(METERED, exchanges=(EXCHANGE, stranger))
    statement = CostStatement.build(Tariff(book=FULL, unknown_models="abstract-units"), metered)
    assert isinstance(statement.lm, NotComputable)
    alone = msgspec.structs.replace(METERED, exchanges=(stranger,))
    statement = CostStatement.build(Tariff(book=FULL, unknown_models="abstract-units"), alone)
    assert _value(statement.lm) == "1.1"
    assert isinstance(statement.total, NotComputable)


def test_one_exchange_without_a_price_leaves_the_term_without_an_amount() -> None:
    vague = MeteredExchange(model="m", usage=TokenUsage(output=3))
    metered = msgspec.structs.replace(METERED, exchanges=(EXCHANGE, vague))
    assert isinstance(CostStatement.build(Tariff(book=FULL), metered).lm, NotComputable)
