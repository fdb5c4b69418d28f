"""The gateway beside a bare pass-through proxy of the same library: what reading along costs."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Final

import aiohttp
import msgspec
from aiohttp import web

from repotrial.cost import TokenUsage
from repotrial.gateway import ExchangeEnd, GatewayLoop, ProviderConfig, ProviderUpstream
from repotrial.gateway._model import Exchange
from repotrial.wire import Refusal, WireRequest

__all__ = ["Latency", "bench_gateway"]

_GOAL: Final = 1.5
_KEY: Final = "key-of-the-bench"
_TARGET: Final = "/v1/chat/completions"
_EVENTS: Final = 60
_ROUNDS: Final = 400
_WARM_UP: Final = 30
_TOOLS: Final = [
    {"type": "function", "function": {"name": f"tool{number}", "parameters": {"type": "object"}}}
    for number in range(10)
]


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Ours against the proxy's, from a request's first byte to its answer's last; less is better."""

    name: str
    ours_ms: float
    """The median; both take turns."""
    peer_ms: float
    direct_ms: float
    """Without anything between."""
    is_identical: bool
    """Whether every answer came through byte for byte."""
    note: str
    goal: float = _GOAL

    @property
    def ratio(self) -> float:
        return self.ours_ms / self.peer_ms

    @property
    def is_met(self) -> bool:
        return self.is_identical and self.ratio <= self.goal

    def __str__(self) -> str:
        met = "met" if self.is_met else "NOT met"
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        same = "bytes identical" if self.is_identical else "bytes DIFFER"
        times = f"ours {self.ours_ms:.2f} ms, bare proxy {self.peer_ms:.2f} ms, none {self.direct_ms:.2f} ms"
        return (
            f"{self.name}: {self.ratio:.2f}x (goal at most {self.goal:g}x, {met}); {times}; {same};"
            f" {self.note}; load {load}"
        )


def bench_gateway(rounds: int = _ROUNDS) -> tuple[Latency, ...]:
    """Median latency through the gateway and through the bare proxy, streamed and not."""
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(_open_process(_serve_provider))
        bare = stack.enter_context(_open_process(_serve_bare, provider))
        ours = stack.enter_context(_open_process(_serve_ours, provider))
        return tuple(
            _measure(name, (ours, bare, provider), is_streamed=is_streamed, rounds=rounds)
            for name, is_streamed in (("gateway, streamed answer", True), ("gateway, whole answer", False))
        )


def _measure(name: str, ports: tuple[int, int, int], *, is_streamed: bool, rounds: int) -> Latency:
    body = _build_request(is_streamed=is_streamed)
    times: list[list[float]] = [[], [], []]
    answers: set[bytes] = set()
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)))
            for port in ports
        ]
        for number in range(_WARM_UP + rounds):
            # Turn about, so that none always comes first.
            for place in sorted(range(3), key=lambda index: (index + number) % 3):
                start = time.perf_counter()
                clients[place].request("POST", _TARGET, body, {"authorization": f"Bearer {_KEY}"})
                answer = clients[place].getresponse().read()
                if number >= _WARM_UP:
                    times[place].append((time.perf_counter() - start) * 1000)
                answers.add(answer)
    ours, peer, direct = (statistics.median(taken) for taken in times)
    size = len(next(iter(answers)))
    return Latency(
        name=name,
        ours_ms=ours,
        peer_ms=peer,
        direct_ms=direct,
        is_identical=len(answers) == 1,
        note=f"{rounds} rounds, request {len(body)} bytes, answer {size} bytes",
    )


def _build_request(*, is_streamed: bool) -> bytes:
    messages = [{"role": "user", "content": f"turn {number}: " + "text " * 200} for number in range(40)]
    return msgspec.json.encode(
        {"model": "m", "stream": is_streamed, "messages": messages, "tools": _TOOLS, "max_tokens": 500}
    )


@contextlib.contextmanager
def _open_process(serve: object, *arguments: int) -> Iterator[int]:
    """A server in a process of its own, so that the sides do not share an interpreter; its port."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_run_server, args=(serve, there, *arguments), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        here.send(None)
        process.join()


def _run_server(serve: object, pipe: Connection, *arguments: int) -> None:
    assert callable(serve)
    with socket.create_server(("127.0.0.1", 0)) as listener, serve(listener, *arguments):
        pipe.send(listener.getsockname()[1])
        pipe.recv()


class _HttpService:
    """One function behind one socket."""

    def __init__(self, upstream: int | None = None) -> None:
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None
        self._server: web.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        self._session = aiohttp.ClientSession(auto_decompress=False)
        self._server = web.Server(
            self._say if self._upstream is None else self._pass_through, access_log=None
        )
        await asyncio.get_running_loop().create_server(self._server, sock=listener)

    async def close(self) -> None:
        assert self._session is not None
        assert self._server is not None
        await self._session.close()
        await self._server.shutdown(timeout=1)

    async def _say(self, request: web.BaseRequest) -> web.StreamResponse:
        if b'"stream":true' not in (await request.read())[:200]:
            return web.Response(body=_WHOLE, headers={"content-type": "application/json"})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in _STREAM:
            await response.write(event)
        return response

    async def _pass_through(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self._session is not None
        url = f"http://127.0.0.1:{self._upstream}{request.raw_path}"
        data = await request.read()
        async with self._session.post(url, data=data, headers=request.headers) as answer:
            response = web.StreamResponse(status=answer.status)
            response.content_type = answer.content_type
            if answer.content_length is not None:
                response.content_length = answer.content_length
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response


@contextlib.contextmanager
def _serve_provider(listener: socket.socket) -> Iterator[None]:
    with GatewayLoop() as loop, loop.attach(listener, _HttpService()):
        yield


@contextlib.contextmanager
def _serve_bare(listener: socket.socket, provider: int) -> Iterator[None]:
    with GatewayLoop() as loop, loop.attach(listener, _HttpService(provider)):
        yield


@contextlib.contextmanager
def _serve_ours(listener: socket.socket, provider: int) -> Iterator[None]:
    upstream = ProviderUpstream(ProviderConfig(base_url=f"http://127.0.0.1:{provider}"), {})
    with GatewayLoop() as loop:
        with loop.serve(listener, key=_KEY, supervisor=_Admit(), upstream=upstream):
            yield
        loop.run(upstream.close())


class _Admit:
    """Lets everything pass: what is measured is the gateway itself."""

    async def open(self, request: WireRequest, body: bytes) -> Exchange | Refusal:
        assert request.is_streamed in {True, False}
        assert body
        return self

    async def refuse(self, refusal: Refusal, *, method: str, target: str, body: bytes) -> None:
        raise AssertionError((refusal, method, target, body))

    def count(self, usage: TokenUsage, sent_bytes: int) -> Refusal | None:
        assert usage.basis
        assert sent_bytes
        return None

    async def release(self, end: ExchangeEnd) -> Refusal | None:
        assert end.answer is not None
        assert end.answer.is_complete
        return None

    async def close(self, end: ExchangeEnd) -> None:
        assert end.cause == "complete"


def _build_event(delta: dict[str, object], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    value = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


_STREAM: Final = (
    *(_build_event({"content": f"word number {number} "}) for number in range(_EVENTS)),
    _build_event({}, "stop"),
    b"data: [DONE]\n\n",
)
_WHOLE: Final = msgspec.json.encode(
    {
        "id": "c",
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "word " * 500}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 9000, "completion_tokens": 500, "total_tokens": 9500},
    }
)
