"""The way of an exchange through the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import threading
from pathlib import Path

import msgspec
import pytest

from fakes.exchanges import FakeSupervisor, FakeUpstream
from repotrial.gateway import GatewayLoop
from repotrial.wire import Refusal
from support.gateways import (
    KEY,
    ask,
    build_call_stream,
    build_chat,
    build_delta,
    build_stop,
    build_text_stream,
    open_gateway,
)
from support.waiting import wait_until

CHAT = "/v1/chat/completions"
BUDGET = Refusal(status=402, kind="budget", message="the budget is spent")
POLICY = Refusal(status=403, kind="policy", message="not that command")


def test_bytes_pass_unchanged_in_both_directions() -> None:
    upstream = FakeUpstream(build_text_stream("Hello", " there"))
    body = b'{ "model":"m-1",\n "stream" : true, "messages": [ {"role":"user","content":"\\u0048i"} ] }'
    with open_gateway(upstream) as gateway:
        reply = ask(gateway.port, f"{CHAT}?beta=true", body, headers={"x-session": "7"})
    assert reply.status == 200
    assert reply.body == b"".join(upstream.chunks)
    asked = upstream.requests[0]
    assert (asked.method, asked.target, asked.body) == ("POST", f"{CHAT}?beta=true", body)
    assert asked.headers["x-session"] == "7"
    exchange = gateway.supervisor.exchange
    assert exchange.body == body
    assert (exchange.end.cause, exchange.end.status, exchange.end.body) == ("complete", 200, reply.body)
    assert exchange.end.answer is not None
    assert "".join(exchange.end.answer.texts) == "Hello there"
    assert exchange.released == [exchange.end.answer]
    assert gateway.run.problems == ()


def test_credentials_and_hop_by_hop_headers_stay_behind() -> None:
    upstream = FakeUpstream(
        build_text_stream("x"),
        headers={
            "content-type": "text/event-stream",
            "connection": "x-private",
            "x-private": "1",
            "set-cookie": "a=b",
            "openai-organization": "org-7",
            "x-request-id": "r-1",
            "x-split": "a\r\nset-cookie: evil=1",
        },
    )
    headers = {
        "x-api-key": "k",
        "x-goog-api-key": "g",
        "cookie": "c",
        "te": "trailers",
        "accept-encoding": "gzip",
    }
    with open_gateway(upstream) as gateway:
        reply = ask(gateway.port, CHAT, build_chat(), headers=headers)
    sent = upstream.requests[0].headers
    assert not {"authorization", "host", "content-length", *headers} & set(sent)
    assert reply.headers["x-request-id"] == "r-1"
    assert not {"x-private", "set-cookie", "openai-organization", "x-split"} & set(reply.headers)


@pytest.mark.parametrize("place", ["x-api-key", "x-goog-api-key", "api-key", "query"])
def test_the_key_is_found_wherever_a_dialect_puts_it(place: str) -> None:
    upstream = FakeUpstream([b'{"choices":[]}'], headers={"content-type": "application/json"})
    headers = {} if place == "query" else {place: KEY}
    target = f"{CHAT}?key={KEY}" if place == "query" else CHAT
    with open_gateway(upstream) as gateway:
        reply = ask(gateway.port, target, build_chat(is_streamed=False), headers=headers, key=None)
    assert reply.status == 200
    assert upstream.requests[0].target == CHAT


def test_a_whole_answer_passes_with_its_length() -> None:
    body = msgspec.json.encode(
        {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
    )
    upstream = FakeUpstream([body[:10], body[10:]], headers={"content-type": "application/json"})
    with open_gateway(upstream) as gateway:
        reply = ask(gateway.port, CHAT, build_chat(is_streamed=False))
    assert (reply.body, reply.headers["content-length"]) == (body, str(len(body)))
    assert gateway.supervisor.exchange.end.cause == "complete"


def test_an_error_of_the_provider_passes_as_it_is() -> None:
    upstream = FakeUpstream(
        [b'{"error":{"message":"slow down"}}'],
        status=429,
        headers={"content-type": "application/json", "retry-after": "7"},
    )
    with open_gateway(upstream) as gateway:
        reply = ask(gateway.port, CHAT, build_chat())
    assert (reply.status, reply.headers["retry-after"], reply.body) == (429, "7", upstream.chunks[0])
    end = gateway.supervisor.exchange.end
    assert (end.cause, end.status, end.answer) == ("complete", 429, None)
    assert gateway.supervisor.exchange.released == []


def test_a_tool_call_is_held_back_until_it_is_released() -> None:
    upstream = FakeUpstream(build_call_stream())
    supervisor = FakeSupervisor()
    with open_gateway(upstream, supervisor=supervisor) as gateway:
        supervisor.hold = gateway.loop.run(_make_event())
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=90)
        with contextlib.closing(connection):
            headers = {"authorization": f"Bearer {KEY}"}
            connection.request("POST", CHAT, msgspec.json.encode(build_chat()), headers)
            response = connection.getresponse()
            first = response.read1()
            assert wait_until(lambda: supervisor.exchange.released)
            assert first == upstream.chunks[0]
            gateway.loop.run(_set(supervisor.hold))
            assert first + response.read() == b"".join(upstream.chunks)
    (answer,) = supervisor.exchange.released
    assert [(call.name, call.arguments) for call in answer.calls] == [("bash", b'{"command":"ls"}')]


def test_a_refused_tool_call_never_reaches_the_agent() -> None:
    upstream = FakeUpstream(build_call_stream())
    supervisor = FakeSupervisor(on_release=lambda _: POLICY)
    with (
        open_gateway(upstream, supervisor=supervisor) as gateway,
        pytest.raises(http.client.IncompleteRead) as cut,
    ):
        ask(gateway.port, CHAT, build_chat())
    assert b"tool_calls" not in cut.value.partial
    assert b"not that command" in cut.value.partial
    assert (supervisor.exchange.end.cause, supervisor.exchange.end.status) == ("refused", 200)
    assert supervisor.exchange.end.body == b"".join(upstream.chunks)


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_refusal_before_the_first_byte_is_an_error_in_the_dialect(is_streamed: bool) -> None:  # noqa: FBT001
    call = {"id": "t", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    whole = {
        "choices": [{"message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "tool_calls"}]
    }
    chunks = build_call_stream()[1:] if is_streamed else (msgspec.json.encode(whole),)
    upstream = FakeUpstream(chunks)
    supervisor = FakeSupervisor(on_release=lambda _: POLICY)
    with open_gateway(upstream, supervisor=supervisor) as gateway:
        reply = ask(gateway.port, CHAT, build_chat(is_streamed=is_streamed))
    assert (reply.status, reply.json["error"]["message"]) == (403, "not that command")
    assert (supervisor.exchange.end.cause, supervisor.exchange.end.status) == ("refused", 403)


def test_a_request_that_is_not_admitted_is_answered_in_the_dialect() -> None:
    upstream = FakeUpstream()
    supervisor = FakeSupervisor(on_open=lambda _: BUDGET)
    body = {"model": "c", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    with open_gateway(upstream, supervisor=supervisor) as gateway:
        chat = ask(gateway.port, CHAT, build_chat())
        messages = ask(gateway.port, "/v1/messages", body)
    assert (chat.status, chat.json["error"]["type"]) == (402, "insufficient_quota")
    assert (messages.status, messages.json["error"]["type"]) == (402, "billing_error")
    assert upstream.requests == []


def test_a_stream_is_cut_when_the_count_says_so() -> None:
    upstream = FakeUpstream(build_text_stream(*(f"word{index} " for index in range(50))))
    supervisor = FakeSupervisor(on_count=lambda usage, _: BUDGET if (usage.output or 0) > 20 else None)
    with (
        open_gateway(upstream, supervisor=supervisor) as gateway,
        pytest.raises(http.client.IncompleteRead) as cut,
    ):
        ask(gateway.port, CHAT, build_chat())
    assert b"word0" in cut.value.partial
    assert b"word40" not in cut.value.partial
    assert b"insufficient_quota" in cut.value.partial
    end = supervisor.exchange.end
    assert (end.cause, end.detail) == ("cut", BUDGET.message)
    assert len(end.body) < len(b"".join(upstream.chunks))
    assert upstream.ended == [0], "the stream behind is closed"


def test_an_upstream_that_fails_is_a_server_error_worth_another_try() -> None:
    upstream = FakeUpstream(error=RuntimeError("no route"))
    with open_gateway(upstream) as gateway:
        reply = ask(gateway.port, CHAT, build_chat())
        again = ask(gateway.port, CHAT, build_chat())
    assert (reply.status, again.status) == (502, 502)
    assert reply.headers["x-should-retry"] == "true"
    assert "no route" in reply.json["error"]["message"]
    assert [exchange.end.cause for exchange in gateway.supervisor.exchanges] == ["upstream-failed"] * 2


def test_an_upstream_that_breaks_off_breaks_the_agents_connection() -> None:
    upstream = FakeUpstream([build_delta(content="a"), build_delta(content="b")], error=OSError("reset"))
    with open_gateway(upstream) as gateway, pytest.raises(http.client.IncompleteRead) as cut:
        ask(gateway.port, CHAT, build_chat())
    assert cut.value.partial == b"".join(upstream.chunks)
    end = gateway.supervisor.exchange.end
    assert (end.cause, end.status, end.body) == ("upstream-failed", 200, b"".join(upstream.chunks))
    assert end.answer is not None
    assert not end.answer.is_complete


def _raise(_: object) -> None:
    raise RuntimeError("a mistake of ours")


@pytest.mark.parametrize("where", ["on_open", "on_release", "on_close"])
def test_a_supervisor_that_fails_does_not_hang_the_agent(where: str) -> None:
    supervisor = FakeSupervisor()
    setattr(supervisor, where, _raise)
    upstream = FakeUpstream([b'{"choices":[]}'], headers={"content-type": "application/json"})
    with open_gateway(upstream, supervisor=supervisor) as gateway:
        reply = ask(gateway.port, CHAT, build_chat(is_streamed=False))
        problems = gateway.run.problems
    assert reply.status == {"on_open": 500, "on_release": 500, "on_close": 200}[where]
    assert any("a mistake of ours" in problem for problem in problems)
    if where == "on_release":
        assert supervisor.exchange.end.cause == "refused"
    if where == "on_open":
        assert supervisor.refusals[0][0].status == 500


def test_an_agent_that_leaves_ends_the_wait_and_is_recorded_once() -> None:
    upstream = FakeUpstream(build_text_stream("a", "b"))
    with open_gateway(upstream) as gateway:
        forever = gateway.loop.run(_make_event())

        async def pause(index: int) -> None:
            if index == 1:
                await forever.wait()

        upstream.pause = pause
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=90)
        connection.request(
            "POST", CHAT, msgspec.json.encode(build_chat()), {"authorization": f"Bearer {KEY}"}
        )
        assert connection.getresponse().read1() == upstream.chunks[0]
        connection.close()
        assert wait_until(lambda: gateway.supervisor.exchange.ends)
    end = gateway.supervisor.exchange.end
    assert (end.cause, end.status, end.body) == ("agent-left", 200, upstream.chunks[0])
    assert upstream.ended == [0]


@pytest.mark.parametrize("way", ["cut", "close"])
def test_the_end_of_a_run_cuts_what_is_under_way(way: str) -> None:
    upstream = FakeUpstream(build_text_stream("a", "b"))
    failures: list[int | str] = []

    def ask_and_fail(port: int) -> None:
        try:
            failures.append(ask(port, CHAT, build_chat()).status)
        except (http.client.HTTPException, ConnectionError) as error:
            failures.append(type(error).__name__)

    with open_gateway(upstream) as gateway:
        forever = gateway.loop.run(_make_event())
        upstream.pause = lambda index: forever.wait() if index == 1 else asyncio.sleep(0)
        thread = threading.Thread(target=ask_and_fail, args=(gateway.port,))
        thread.start()
        assert wait_until(lambda: [x for x in gateway.supervisor.exchanges if x.counts])
        if way == "cut":
            gateway.run.cut("stop now")
            assert gateway.supervisor.exchange.end.detail == "stop now"
    thread.join()
    assert gateway.supervisor.exchange.end.cause == "cut"
    assert failures == ["IncompleteRead"]


def test_one_loop_serves_sockets_of_any_kind_and_starts_again(tmp_path: Path) -> None:
    before = threading.enumerate()
    loop = GatewayLoop()
    for _ in range(2):
        with socket.socket(socket.AF_UNIX) as listener:
            path = tmp_path / "s"
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            listener.listen()
            supervisor = FakeSupervisor()
            upstream = FakeUpstream(build_text_stream("x"))
            with loop.serve(listener, key=KEY, supervisor=supervisor, upstream=upstream):
                client = http.client.HTTPConnection("localhost", timeout=90)
                client.sock = socket.socket(socket.AF_UNIX)
                client.sock.connect(str(path))
                with contextlib.closing(client):
                    client.request("POST", CHAT, msgspec.json.encode(build_chat()), {"x-api-key": KEY})
                    assert client.getresponse().read() == b"".join(upstream.chunks)
            assert supervisor.exchange.end.cause == "complete"
        loop.close()
    # The loop that a whole process shares may run beside it, for another test.
    left = [thread for thread in threading.enumerate() if thread not in before]
    assert not [thread for thread in left if thread.name == "repotrial-gateway"]


def test_agents_may_ask_what_there_is() -> None:
    with open_gateway(FakeUpstream(), models=("m-1", "m-2")) as gateway:
        assert ask(gateway.port, "/", method="HEAD", key=None).status == 200
        chat = ask(gateway.port, "/v1/models", method="GET")
        one = ask(gateway.port, "/v1/models/m-2", method="GET")
        none = ask(gateway.port, "/v1/models/m-3", method="GET")
        gemini = ask(gateway.port, "/v1beta/models", method="GET")
    assert [entry["id"] for entry in chat.json["data"]] == ["m-1", "m-2"]
    assert one.json["id"] == "m-2"
    assert none.status == 404
    assert gemini.json["models"][0]["name"] == "models/m-1"


def test_a_client_that_waits_for_leave_to_send_gets_it() -> None:
    upstream = FakeUpstream(build_text_stream("x"))
    body = msgspec.json.encode(build_chat())
    with (
        open_gateway(upstream) as gateway,
        socket.create_connection(("127.0.0.1", gateway.port), 90) as client,
    ):
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nconnection: close\r\n"
        client.sendall(f"{head}authorization: Bearer {KEY}\r\ncontent-length: {len(body)}\r\n\r\n".encode())
        assert client.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        received = b""
        while piece := client.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")


def test_the_end_of_an_answer_comes_after_its_record() -> None:
    order: list[str] = []
    supervisor = FakeSupervisor(on_close=lambda _: order.append("recorded"))
    upstream = FakeUpstream([build_delta(content="a"), build_stop()])
    with open_gateway(upstream, supervisor=supervisor) as gateway:
        ask(gateway.port, CHAT, build_chat())
        order.append("answered")
    assert order == ["recorded", "answered"]


async def _make_event() -> asyncio.Event:
    return asyncio.Event()


async def _set(event: asyncio.Event) -> None:
    event.set()
