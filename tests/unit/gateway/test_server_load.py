"""Many runs at once behind one loop: nothing lost, nothing crossed, nothing piled up."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec

from fakes.exchanges import FakeSupervisor, FakeUpstream
from repotrial.cost import TokenUsage
from repotrial.gateway import ExchangeEnd, GatewayLoop
from repotrial.wire import Refusal, WireRequest
from support.gateways import (
    KEY,
    Exchange,
    UpstreamAnswer,
    UpstreamRequest,
    build_chat,
    build_delta,
    build_stop,
    open_gateway,
)
from support.waiting import wait_until

CHAT = "/v1/chat/completions"
CLIENTS = 100
FILLER = "lorem ipsum " * 500


class _Echo:
    """Says in many pieces who asked for what."""

    description = "echo"

    def __init__(self, name: str) -> None:
        self.name = name

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        said = msgspec.json.decode(request.parsed.messages[-1].data)["content"]
        return UpstreamAnswer(
            status=200,
            headers={"content-type": "text/event-stream"},
            chunks=self._iter_chunks(said.partition("|")[0]),
        )

    async def _iter_chunks(self, said: str) -> AsyncIterator[bytes]:
        for word in (self.name, "/", said):
            await asyncio.sleep(0)
            yield build_delta(content=word)
        yield build_stop()

    async def close(self) -> None:
        """Nothing is open."""


class _Tally:
    """Keeps numbers and short texts only, so that what grows is the gateway's."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.causes: Counter[str] = Counter()
        self.released = 0

    async def open(self, request: WireRequest, body: bytes) -> Exchange | Refusal:
        assert len(body) > len(FILLER)
        assert request.is_streamed
        return self

    async def refuse(self, refusal: Refusal, *, method: str, target: str, body: bytes) -> None:
        raise AssertionError((refusal, method, target, body))

    def count(self, usage: TokenUsage, sent_bytes: int) -> Refusal | None:
        assert usage.output is not None
        assert sent_bytes
        return None

    async def release(self, end: ExchangeEnd) -> Refusal | None:
        assert end.answer is not None
        self.released += end.answer.is_complete
        return None

    async def close(self, end: ExchangeEnd) -> None:
        assert end.answer is not None
        self.said.append("".join(end.answer.texts))
        self.causes[end.cause] += 1


async def _converse(session: aiohttp.ClientSession, port: int, name: str, turns: range) -> list[str]:
    heard = []
    for turn in turns:
        body = msgspec.json.encode(build_chat(f"{name}-{turn}|{FILLER}"))
        url = f"http://127.0.0.1:{port}{CHAT}"
        async with session.post(url, data=body, headers={"x-api-key": f"{KEY}-{name}"}) as response:
            assert response.status == 200
            heard.append(_read_text(await response.read()))
    return heard


def _read_text(body: bytes) -> str:
    events = (msgspec.json.decode(line[6:]) for line in body.splitlines() if line.startswith(b"data: {"))
    return "".join(event["choices"][0]["delta"].get("content", "") for event in events)


async def _converse_all(ports: dict[str, int], turns: range) -> dict[str, list[str]]:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=90)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        answers = await asyncio.gather(
            *(_converse(session, port, name, turns) for name, port in ports.items())
        )
    return dict(zip(ports, answers, strict=True))


def _measure_memory() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_hundred_runs_at_once_lose_and_cross_nothing_and_leave_nothing_behind() -> None:
    tallies = {f"run{number}": _Tally() for number in range(CLIENTS)}
    ports = {}
    with GatewayLoop() as loop, contextlib.ExitStack() as stack:
        for name, tally in tallies.items():
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            ports[name] = listener.getsockname()[1]
            stack.enter_context(
                loop.serve(listener, key=f"{KEY}-{name}", supervisor=tally, upstream=_Echo(name))
            )
        threads = threading.active_count()
        asyncio.run(_converse_all(ports, range(2)))
        before = _measure_memory()
        heard = asyncio.run(_converse_all(ports, range(2, 8)))
        grown = _measure_memory() - before
        assert threading.active_count() == threads
    for name, tally in tallies.items():
        said = [f"{name}/{name}-{turn}" for turn in range(8)]
        assert heard[name] == said[2:]
        assert tally.said == said
        assert tally.causes == {"complete": 8}
        assert tally.released == 8
    # 600 requests of 6 kB each went through; what is kept of each would show.
    assert grown < 8 * 1024 * 1024


def test_an_agent_that_does_not_read_slows_the_stream_behind_down() -> None:
    piece = build_delta(content="x" * 250_000)
    upstream = FakeUpstream([piece] * 150 + [build_stop()])
    taken = 0

    async def count(index: int) -> None:
        nonlocal taken
        taken = index

    upstream.pause = count
    with open_gateway(upstream, supervisor=FakeSupervisor()) as gateway:
        body = msgspec.json.encode(build_chat())
        with socket.create_connection(("127.0.0.1", gateway.port), 90) as client:
            head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\ncontent-length: {len(body)}\r\n"
            client.sendall(f"{head}connection: close\r\n\r\n".encode() + body)
            assert wait_until(lambda: taken > 2)
            time.sleep(0.3)  # where the machine is slow, less is taken, and nothing fails
            assert taken < 100
            received = 0
            while piece := client.recv(1 << 20):
                received += len(piece)
    assert received > 150 * 250_000
    assert gateway.supervisor.exchange.end.cause == "complete"
