"""Providers over a real connection."""

from __future__ import annotations

import gzip
import http.client

import msgspec
import pytest
from aiohttp import web

from fakes.exchanges import FakeUpstream
from repotrial.gateway import ProviderConfig, ProviderUpstream
from support.errors import raises_code
from support.gateways import KEY, Reply, ask, build_chat, build_text_stream, open_gateway
from support.providers import Provider, open_provider

CHAT = "/v1/chat/completions"
SECRET = "sk-of-the-host-0123456789"
STREAM = build_text_stream(*(f"word {index} " for index in range(20)))


async def _stream(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream", "x-request-id": "r-1"})
    await response.prepare(request)
    for piece in STREAM:
        await response.write(piece)
    return response


def _configure(provider: Provider, path: str = "", **more: object) -> ProviderConfig:
    settings = {"key_variable": "HOST_KEY", **more, "base_url": f"http://127.0.0.1:{provider.port}{path}"}
    return msgspec.convert(settings, ProviderConfig)


def _ask_through(config: ProviderConfig, *requests: tuple[str, object]) -> list[Reply]:
    upstream = ProviderUpstream(config, {"HOST_KEY": SECRET})
    with open_gateway(upstream) as gateway:
        return [ask(gateway.port, target, body) for target, body in requests]


def test_a_provider_gets_the_bytes_and_the_hosts_key() -> None:
    body = b'{ "model": "m-1", "stream": true, "messages": [{"role":"user","content":"x"}] }'
    with open_provider(_stream) as provider:
        (reply,) = _ask_through(_configure(provider), (f"{CHAT}?beta=1", body))
    assert reply.body == b"".join(STREAM)
    assert reply.headers["x-request-id"] == "r-1"
    (asked,) = provider.asked
    assert (asked.method, asked.target, asked.body) == ("POST", f"{CHAT}?beta=1", body)
    assert asked.headers["authorization"] == f"Bearer {SECRET}"
    assert asked.headers["accept-encoding"] == "identity"
    assert KEY not in str(asked)


@pytest.mark.parametrize("place", ["x-api-key", "x-goog-api-key", "api-key"])
def test_keys_go_where_the_provider_wants_them(place: str) -> None:
    with open_provider(_stream) as provider:
        _ask_through(_configure(provider, key_place=place), (CHAT, build_chat()))
    assert provider.asked[0].headers[place] == SECRET
    assert "authorization" not in provider.asked[0].headers


def test_connections_are_used_again() -> None:
    with open_provider(_stream) as provider:
        _ask_through(_configure(provider), *[(CHAT, build_chat())] * 5)
    assert len(provider.asked) == 5
    assert provider.connections == 1


def test_azure_is_a_matter_of_configuration() -> None:
    with open_provider(_stream) as provider:
        config = _configure(
            provider,
            "/openai/deployments/gpt-x",
            key_place="api-key",
            path_prefix_removed="/v1",
            query={"api-version": "2026-01-01"},
            headers={"x-tenant": "t"},
        )
        _ask_through(config, (CHAT, build_chat()))
    (asked,) = provider.asked
    assert asked.target == "/openai/deployments/gpt-x/chat/completions?api-version=2026-01-01"
    assert asked.headers["x-tenant"] == "t"


def test_vertex_is_a_matter_of_configuration_for_its_own_models() -> None:
    with open_provider(_stream) as provider:
        config = _configure(
            provider,
            "/v1/projects/p/locations/l/publishers/google",
            path_prefix_removed="/v1beta",
            models={"g-1": "g-1-001"},
        )
        target = "/v1beta/models/g-1:streamGenerateContent?alt=sse"
        _ask_through(config, (target, {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}))
    expected = "/v1/projects/p/locations/l/publishers/google/models/g-1-001:streamGenerateContent?alt=sse"
    assert provider.asked[0].target == expected


def test_models_are_renamed_only_where_it_is_asked_for() -> None:
    body = b'{"temperature": 1.00, "model" : "m-1", "messages": [ {"role":"user","content":"x"} ]}'
    with open_provider(_stream) as provider:
        _ask_through(_configure(provider, models={"m-1": "m-1-2026"}), (CHAT, body))
        _ask_through(_configure(provider, models={"m-2": "m-2-2026"}), (CHAT, body))
    renamed, same = (asked.body for asked in provider.asked)
    assert same == body
    assert msgspec.json.decode(renamed)["model"] == "m-1-2026"
    assert b"1.00" in renamed
    assert b'[ {"role":"user","content":"x"} ]' in renamed


def test_a_provider_that_compresses_anyway_is_unpacked() -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        headers = {"content-encoding": "gzip", "content-type": "text/event-stream"}
        return web.Response(body=gzip.compress(b"".join(STREAM)), headers=headers)

    with open_provider(answer) as provider:
        (reply,) = _ask_through(_configure(provider), (CHAT, build_chat()))
    assert reply.body == b"".join(STREAM)
    assert "content-encoding" not in reply.headers


@pytest.mark.parametrize("status", [200, 401])
def test_an_echoed_key_never_reaches_the_agent_however_it_is_cut(status: int) -> None:
    said = build_text_stream(f"your key is {SECRET}, or {SECRET[:8]}")
    whole = b"".join(said)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        headers = {"content-type": "text/event-stream", "x-key": SECRET}
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        for index in range(len(whole)):
            await response.write(whole[index : index + 1])
        return response

    with open_provider(answer) as provider:
        (reply,) = _ask_through(_configure(provider), (CHAT, build_chat()))
    assert SECRET not in str(reply)
    assert reply.body == whole.replace(SECRET.encode(), b"[credential]")


def test_a_redirect_is_not_followed_with_the_key() -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=307, headers={"location": "http://127.0.0.1:1/steal"})

    with open_provider(answer) as provider:
        (reply,) = _ask_through(_configure(provider), (CHAT, build_chat()))
    assert reply.status == 307
    assert len(provider.asked) == 1


def test_a_provider_that_hangs_up_is_a_failed_exchange() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(STREAM[0])
        assert request.transport is not None
        request.transport.close()
        return response

    with open_provider(answer) as provider:
        upstream = ProviderUpstream(_configure(provider), {"HOST_KEY": SECRET})
        with open_gateway(upstream) as gateway, pytest.raises(http.client.IncompleteRead):
            ask(gateway.port, CHAT, build_chat())
    assert gateway.supervisor.exchange.end.cause == "upstream-failed"


def test_nobody_there_is_a_failed_exchange_without_the_key_in_it() -> None:
    config = ProviderConfig(base_url="http://127.0.0.1:1", key_variable="HOST_KEY")
    (reply,) = _ask_through(config, (CHAT, build_chat()))
    assert reply.status == 502
    assert SECRET.encode() not in reply.body


@pytest.mark.parametrize("variables", [{}, {"HOST_KEY": ""}, {"HOST_KEY": "a\nb"}, {"HOST_KEY": "schlüssel"}])
def test_a_provider_without_a_usable_key_is_refused_at_once(variables: dict[str, str]) -> None:
    config = ProviderConfig(base_url="https://models.example.org", key_variable="HOST_KEY")
    with raises_code("provider-unusable", match="HOST_KEY"):
        ProviderUpstream(config, variables)


def test_a_key_is_not_sent_in_the_clear() -> None:
    config = ProviderConfig(base_url="http://models.example.org", key_variable="HOST_KEY")
    with raises_code("provider-unusable", match="https"):
        ProviderUpstream(config, {"HOST_KEY": SECRET})


def test_a_description_holds_no_credentials() -> None:
    config = ProviderConfig(base_url="https://models.example.org", headers={"Authorization": "Bearer x"})
    with raises_code("provider-unusable", match="Authorization"):
        ProviderUpstream(config, {})
    for url in ("https://user:pass@models.example.org", "ftp://x", "https://x/?key=1"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"base_url": url}, ProviderConfig)


def test_a_malformed_answer_never_reaches_the_agent() -> None:
    garbage = b'data: {"choices": [{"delta": \xff\xfe}\n\n'
    with open_gateway(FakeUpstream((garbage, *STREAM))) as gateway:
        reply = ask(gateway.port, CHAT, build_chat())
    assert reply.status == 502
    end = gateway.supervisor.exchange.end
    assert end.cause == "upstream-failed"
    assert end.body.startswith(garbage)
