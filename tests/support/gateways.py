"""A gateway on a loopback port of its own, clients that speak to it, and bodies of every dialect."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from fakes.exchanges import FakeSupervisor
from repotrial.gateway import GatewayLoop, Upstream
from repotrial.gateway._loop import LoopService, ServedRun
from repotrial.gateway._model import Exchange, GatewayLimits, UpstreamAnswer, UpstreamRequest
from repotrial.wire import HttpAnswer

__all__ = [
    "KEY",
    "SECONDS",
    "Exchange",
    "Gateway",
    "GatewayLimits",
    "HttpAnswer",
    "LoopService",
    "Reply",
    "UpstreamAnswer",
    "UpstreamRequest",
    "ask",
    "build_call_delta",
    "build_call_stream",
    "build_chat",
    "build_delta",
    "build_event",
    "build_stop",
    "build_text_stream",
    "open_gateway",
    "send_raw",
]


KEY: Final = "key-of-this-run-0123456789abcdef"
SECONDS: Final = 90.0


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Gateway(NamedTuple):
    """A gateway that listens."""

    port: int
    supervisor: FakeSupervisor
    run: ServedRun
    loop: GatewayLoop


@contextlib.contextmanager
def open_gateway(
    upstream: Upstream,
    *,
    supervisor: FakeSupervisor | None = None,
    limits: GatewayLimits | None = None,
    models: tuple[str, ...] = (),
    stripped: frozenset[str] = frozenset(),
) -> Iterator[Gateway]:
    """Serve one run, on a loop of its own."""
    watched = supervisor or FakeSupervisor()
    with GatewayLoop() as loop, socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with loop.serve(
            listener,
            key=KEY,
            supervisor=watched,
            upstream=upstream,
            limits=limits,
            models=models,
            stripped=stripped,
        ) as run:
            try:
                yield Gateway(port, watched, run, loop)
            finally:
                loop.run(upstream.close())


def ask(
    port: int,
    target: str,
    body: bytes | object = b"",
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
    key: str | None = KEY,
) -> Reply:
    """One request on a connection of its own; raises what `http.client` raises where an answer is cut."""
    sent = body if isinstance(body, bytes) else msgspec.json.encode(body)
    every = {
        "content-type": "application/json",
        **({} if key is None else {"authorization": f"Bearer {key}"}),
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request(method, target, body=sent, headers={**every, **(headers or {})})
        response = connection.getresponse()
        return Reply(
            response.status,
            {name.lower(): value for name, value in response.getheaders()},
            response.read(),
        )


def send_raw(port: int, data: bytes) -> bytes:
    """Exactly these bytes, and everything that comes back until the other side closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        connection.sendall(data)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                received += piece
        return received


def build_chat(text: str = "Hi", *, is_streamed: bool = True, **more: object) -> dict[str, object]:
    """A chat request."""
    return {"model": "m-1", "stream": is_streamed, "messages": [{"role": "user", "content": text}], **more}


def build_event(value: object) -> bytes:
    """A server-sent event."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def build_delta(**delta: object) -> bytes:
    """A piece of a chat answer."""
    return build_event(
        {"id": "c", "model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    )


def build_call_delta(arguments: str, *, name: str = "bash") -> bytes:
    """The beginning of a tool call."""
    function = {"name": name, "arguments": arguments}
    return build_delta(tool_calls=[{"index": 0, "id": "t1", "type": "function", "function": function}])


def build_stop(reason: str = "stop") -> bytes:
    """The end of a chat answer."""
    return (
        build_event({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        + b"data: [DONE]\n\n"
    )


def build_text_stream(*words: str) -> tuple[bytes, ...]:
    """A whole streamed answer, one piece for each word."""
    return (*(build_delta(content=word) for word in words), build_stop())


def build_call_stream(arguments: str = '{"command":"ls"}') -> tuple[bytes, ...]:
    """A streamed answer: a word, then a tool call in two pieces."""
    return (
        build_delta(content="Looking."),
        build_call_delta(arguments[:5]),
        build_event(
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"tool_calls": [{"index": 0, "function": {"arguments": arguments[5:]}}]},
                    }
                ]
            }
        ),
        build_stop("tool_calls"),
    )
