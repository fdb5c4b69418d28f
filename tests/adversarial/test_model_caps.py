"""Streams that reach a cap, and providers that break off: cut in time, and charged for what came."""

from __future__ import annotations

import http.client
import json
from typing import Final

import pytest

from fakes.exchanges import FakeUpstream
from repotrial.cost import BudgetCaps, MeasureState
from repotrial.gateway import GatewayLoop
from repotrial.trace import Response, ResponseUsage
from repotrial.wire import Dialect, Refusal
from repotrial.wire._dialects import build_answer
from repotrial.wire._refusals import build_break, build_refusal
from support.costs import get_measure
from support.gateways import Reply, ask
from support.watches import Watched, open_watch, serve_watch
from support.wire import DIALECTS, build_body, build_request, build_turn, target_of

_WORD: Final = "word"
"""A token, as they are estimated."""
_OUTPUT: Final = 100
"""Tokens that the cap leaves for an answer."""


def _build_stream(dialect: Dialect, words: int) -> list[bytes]:
    """An answer of so many words, each in an event of its own."""
    built = build_answer(build_request(dialect), build_turn(text=_WORD * 2, calls=()))
    events = [event + b"\n\n" for event in b"".join(built.chunks).split(b"\n\n") if event]
    place = next(number for number, event in enumerate(events) if _WORD.encode() in event)
    return [*events[:place], *[events[place]] * words, *events[place + 1 :]]


def _ask_in_vain(port: int, dialect: Dialect) -> bytes:
    """What comes of a stream that is broken off."""
    with pytest.raises(http.client.IncompleteRead) as cut:
        ask(port, target_of(dialect), build_body(dialect))
    return cut.value.partial


def _read_tokens(watched: Watched) -> MeasureState:
    return get_measure(watched.budget.read(), "tokens")


def _read_usage(watched: Watched) -> ResponseUsage:
    (event,) = watched.list_of(Response)
    assert isinstance(event.payload, Response)
    return event.payload.usage


def _find_message(reply: Reply) -> str:
    return str(reply.json["error"]["message"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_is_cut_at_the_cap_and_the_next_request_is_refused_in_the_dialects_own_form(
    dialect: Dialect,
) -> None:
    pieces = _build_stream(dialect, words=4000)
    upstream = FakeUpstream(pieces)
    input_tokens = -(-len(json.dumps(build_body(dialect), separators=(",", ":")).encode()) // 4)
    cap = max(input_tokens, 120) + _OUTPUT
    with open_watch(caps=BudgetCaps(tokens=cap)) as watched, GatewayLoop() as loop:
        with serve_watch(watched, upstream, loop) as port:
            got = _ask_in_vain(port, dialect)
            told = Refusal(status=402, kind="budget", message="budget reached within an answer")
            assert got.endswith(build_break(dialect, told))
            assert len(got) < len(b"".join(pieces)) / 4
            refused = ask(port, target_of(dialect), build_body(dialect))
        told = Refusal(status=402, kind="budget", message=_find_message(refused))
        assert (refused.status, refused.body) == (402, build_refusal(dialect, told).body)
        assert len(upstream.requests) == 1
        state = _read_tokens(watched)
        assert int(state.spent) >= cap
        assert int(state.overspend) == int(state.spent) - cap
        assert int(state.overspend) <= 1, "no more than a piece"
        assert int(state.overspend) <= int(state.overdraft), "and far less than the one declared bound"
        assert watched.breakers.ending is not None
        assert watched.breakers.ending.code == "token-cap"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_provider_that_breaks_off_is_charged_for_what_it_sent(dialect: Dialect) -> None:
    words = 60
    pieces = _build_stream(dialect, words=words)
    first = next(number for number, piece in enumerate(pieces) if _WORD.encode() in piece)
    upstream = FakeUpstream(pieces[: first + words], error=ConnectionResetError("gone"))
    with open_watch(caps=BudgetCaps(tokens=100_000)) as watched, GatewayLoop() as loop:
        with serve_watch(watched, upstream, loop) as port:
            _ask_in_vain(port, dialect)
        usage = _read_usage(watched)
        assert usage.basis == "estimated"
        assert usage.output_tokens == words
        state = _read_tokens(watched)
        assert int(state.spent) == usage.output_tokens + (usage.request_input_tokens or 0)
        assert (usage.request_input_tokens or 0) > 0
        assert state.reserved == "0"


def test_a_stream_without_usage_is_charged_for_what_it_says_and_not_for_its_form() -> None:
    pieces = [piece for piece in _build_stream("openai-chat", words=60) if b"usage" not in piece]
    with open_watch(caps=BudgetCaps(tokens=100_000)) as watched, GatewayLoop() as loop:
        with serve_watch(watched, FakeUpstream(pieces), loop) as port:
            assert ask(port, target_of("openai-chat"), build_body("openai-chat")).status == 200
        usage = _read_usage(watched)
        assert (usage.basis, usage.output_tokens) == ("estimated", 61)


def test_a_provider_that_fails_before_its_answer_began_is_charged_nothing() -> None:
    upstream = FakeUpstream(error=ConnectionRefusedError("nobody there"))
    with open_watch(caps=BudgetCaps(tokens=100_000)) as watched, GatewayLoop() as loop:
        with serve_watch(watched, upstream, loop) as port:
            assert ask(port, target_of("openai-chat"), build_body("openai-chat")).status == 502
        assert watched.budget.read().measures[0].spent == "0"
        assert watched.budget.read().open_reservations == 0
