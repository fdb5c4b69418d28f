"""Long bodies are worked on beside the loop, which serves all runs, and take no more room than they need."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.exchanges import FakeUpstream
from repotrial.gateway import GatewayLoop, Recorder, RecordingUpstream
from support.gateways import KEY, GatewayLimits, ask, build_chat, build_text_stream, open_gateway
from support.waiting import wait_until

CHAT = "/v1/chat/completions"
LONG = "long " * 128 * 1024
"""Longer than what is worked on within the loop."""


class _Witness:
    """Notes in which threads a function is used."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.threads: list[threading.Thread] = []

    def __call__(self, *args: Any, **named: Any) -> Any:
        self.threads.append(threading.current_thread())
        return self._work(*args, **named)


def _witness(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> _Witness:
    witness = _Witness(getattr(__import__(module, fromlist=[name]), name))
    monkeypatch.setattr(f"{module}.{name}", witness)
    return witness


def _find_loop(loop: GatewayLoop) -> threading.Thread:
    async def find() -> threading.Thread:
        return threading.current_thread()

    return loop.run(find())


def test_a_long_request_is_read_beside_the_loop_and_a_short_one_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    witness = _witness(monkeypatch, "repotrial.gateway._server", "parse_stripped")
    with open_gateway(FakeUpstream(build_text_stream("Hi"))) as gateway:
        assert ask(gateway.port, CHAT, build_chat("short")).status == 200
        assert ask(gateway.port, CHAT, build_chat(LONG)).status == 200
        short, long = witness.threads
        assert short is _find_loop(gateway.loop)
        assert long is not short


def test_a_long_request_is_recorded_and_replayed_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recording = "repotrial.gateway._recording"
    redacted = _witness(monkeypatch, f"{recording}._recorder", "redact_body")
    with open_gateway(Recorder(FakeUpstream(build_text_stream("Hi", LONG)), tmp_path)) as gateway:
        first = ask(gateway.port, CHAT, build_chat(LONG))
        loop = _find_loop(gateway.loop)
    assert len(redacted.threads) == 2
    assert loop not in redacted.threads
    compared = _witness(monkeypatch, f"{recording}._replay", "build_identity")
    upstream = RecordingUpstream(tmp_path)
    compared.threads.clear()
    with open_gateway(upstream) as gateway:
        assert ask(gateway.port, CHAT, build_chat(LONG)).body == first.body
        assert _find_loop(gateway.loop) not in compared.threads
    assert len(compared.threads) == 1


def test_a_recording_is_brought_to_the_disk_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorder = Recorder(FakeUpstream(build_text_stream("Hi")), tmp_path)
    witness = _Witness(recorder.finish)
    monkeypatch.setattr(recorder, "finish", witness)
    with open_gateway(recorder) as gateway:
        loop = _find_loop(gateway.loop)
    assert len(witness.threads) == 1
    assert loop not in witness.threads
    RecordingUpstream(tmp_path)


def test_a_request_of_more_messages_than_any_conversation_has_is_refused() -> None:
    body = build_chat()
    body["messages"] = [{"role": "user", "content": "x"}] * 21
    upstream = FakeUpstream(build_text_stream("Hi"))
    with open_gateway(upstream, limits=GatewayLimits(request_messages=20)) as gateway:
        reply = ask(gateway.port, CHAT, body)
        assert reply.status == 413
        assert reply.json["error"]["message"] == "expected at most 20 messages, found 21"
        assert upstream.requests == []
        ((refusal, *_),) = gateway.supervisor.refusals
        assert refusal.kind == "malformed"


def test_a_length_that_was_not_announced_takes_only_the_room_that_it_needs() -> None:
    upstream = FakeUpstream(build_text_stream("Hi"))
    is_open = asyncio.Event()
    upstream.pause = lambda _: is_open.wait()
    limits = GatewayLimits(request_bytes=1000, held_bytes=1500)
    data = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}'
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ntransfer-encoding: chunked"
    request = f"{head}\r\n\r\n{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n"
    with open_gateway(upstream, limits=limits) as gateway:
        agents = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(4)]
        for agent in agents:
            agent.sendall(request)
        assert wait_until(lambda: len(upstream.requests) == 4), "all of them under way at once"
        for agent in agents:
            agent.close()
