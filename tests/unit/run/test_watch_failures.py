"""A watch that breaks: nothing goes on without it, and nobody waits for it."""

from __future__ import annotations

import threading

import pytest

from fakes.exchanges import FakeUpstream
from repotrial.gateway import GatewayLoop
from repotrial.run._watch._ending import EndingSwitch, RunEnding
from repotrial.trace import PhaseChanged
from support.gateways import ask, build_chat
from support.watches import Watched, open_watch, serve_watch

CHAT = "/v1/chat/completions"


def _disturb(watched: Watched) -> None:
    watched.writer.append(PhaseChanged(phase="act", previous="act"), actor="harness")


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, SystemExit, KeyboardInterrupt])
def test_a_watch_that_breaks_ends_the_run_and_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def fail(*_: object) -> None:
        raise error("a mistake of ours")

    upstream = FakeUpstream()
    with open_watch() as watched, GatewayLoop() as loop:
        monkeypatch.setattr("repotrial.run._watch._breakers.decide", fail)
        _disturb(watched)
        watched.breakers.settle()
        assert watched.breakers.ending is not None
        assert (watched.breakers.ending.category, watched.breakers.ending.code) == (
            "harness-fault",
            "overseer-failed",
        )
        assert "a mistake of ours" in watched.breakers.problems[0]
        with serve_watch(watched, upstream, loop) as port:
            assert ask(port, CHAT, build_chat()).status == 403
        assert upstream.requests == []


def test_a_watch_that_breaks_at_every_event_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("x" * 10_000)

    with open_watch() as watched:
        monkeypatch.setattr("repotrial.run._watch._breakers.decide", fail)
        for _ in range(300):
            _disturb(watched)
        watched.breakers.settle()
        assert len(watched.breakers.problems) == 100
        assert max(map(len, watched.breakers.problems)) <= 500


def test_an_ending_without_a_thread_for_its_grace_time_is_carried_out_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    ended: list[str] = []
    switch = EndingSwitch(lambda: ended.append("ended"))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    ending = RunEnding(category="circuit-breaker", nature="resource", code="cost-cap", rationale="enough")
    assert switch.decide(ending, grace_seconds=3600)
    assert ended == ["ended"]
    assert not switch.decide(ending, grace_seconds=3600)
    switch.close()
