"""Faults in front of an upstream: what the gateway passes on, records and refuses."""

from __future__ import annotations

import http.client

from fakes.exchanges import FakeUpstream
from fakes.faults import CutFault, FaultPlan, FaultUpstream, MalformedFault, SlowFault, StatusFault
from repotrial.gateway import Upstream
from support.gateways import ask, build_chat, build_delta, build_text_stream, open_gateway

CHAT = "/v1/chat/completions"
STREAM = build_text_stream(*(f"word {index} " for index in range(20)))


def _ask_faulty(upstream: Upstream, requests: int) -> list[int | str]:
    results: list[int | str] = []
    with open_gateway(upstream) as gateway:
        for _ in range(requests):
            try:
                results.append(ask(gateway.port, CHAT, build_chat()).status)
            except http.client.IncompleteRead:
                results.append("cut")
    assert len(gateway.supervisor.exchanges) == requests
    return results


def test_faults_come_when_they_are_due() -> None:
    late = FaultPlan(fault=StatusFault(status=500), start=2)
    early = FaultPlan(fault=StatusFault(status=429, retry_after_seconds=3), requests=2)
    middle = FaultPlan(fault=CutFault(after_bytes=len(STREAM[0]) + 5), start=1, requests=1)
    assert _ask_faulty(FaultUpstream(FakeUpstream(STREAM), late), 4) == [200, 200, 500, 500]
    assert _ask_faulty(FaultUpstream(FakeUpstream(STREAM), early), 4) == [429, 429, 200, 200]
    assert _ask_faulty(FaultUpstream(FakeUpstream(STREAM), middle), 3) == [200, "cut", 200]


def test_an_early_fault_does_not_ask_the_upstream_and_speaks_the_dialect() -> None:
    behind = FakeUpstream(STREAM)
    fault = FaultUpstream(behind, FaultPlan(fault=StatusFault(status=429, retry_after_seconds=3)))
    with open_gateway(fault) as gateway:
        reply = ask(gateway.port, CHAT, build_chat())
    assert reply.headers["retry-after"] == "3"
    assert "error" in reply.json
    assert behind.requests == []
    assert behind.is_closed


def test_a_slow_answer_is_whole_in_the_end() -> None:
    fault = FaultUpstream(FakeUpstream(STREAM), FaultPlan(fault=SlowFault(head_ms=20, chunk_ms=2)))
    with open_gateway(fault) as gateway:
        assert ask(gateway.port, CHAT, build_chat()).body == b"".join(STREAM)
    assert gateway.supervisor.exchange.end.wall_us >= 20_000


def test_a_malformed_answer_is_refused_at_once_and_may_be_asked_for_again() -> None:
    fault = FaultUpstream(FakeUpstream(STREAM), FaultPlan(fault=MalformedFault()))
    with open_gateway(fault) as gateway:
        reply = ask(gateway.port, CHAT, build_chat())
    assert (reply.status, reply.headers["x-should-retry"]) == (502, "true")
    end = gateway.supervisor.exchange.end
    assert end.cause == "upstream-failed"
    assert end.answer is not None
    assert not end.answer.is_complete


def test_a_stream_that_is_cut_at_once_is_cut_for_the_agent() -> None:
    fault = FaultUpstream(FakeUpstream([build_delta(content="x")]), FaultPlan(fault=CutFault(after_bytes=0)))
    with open_gateway(fault) as gateway:
        assert ask(gateway.port, CHAT, build_chat()).status == 502
    assert gateway.supervisor.exchange.end.cause == "upstream-failed"
