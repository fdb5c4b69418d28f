"""Models in clouds, by configuration alone: servers that refuse what the services do not document."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from aiohttp import web

from repotrial.gateway import ProviderConfig, ProviderUpstream, load_provider
from support.errors import raises_code
from support.gateways import Reply, ask, build_chat, open_gateway
from support.providers import Answer, Provider, open_provider

_KEY: Final = "key-of-the-cloud-0123456789"
_SAID: Final = b'{"said":"Hi"}'
_CHAT: Final = {"model": "m-1", "messages": [{"role": "user", "content": "Hi"}]}
_MESSAGES: Final = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 16}
_CONTENTS: Final = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


def _expect(
    path: str, *, query: dict[str, str] | None = None, header: tuple[str, str], absent: tuple[str, ...] = ()
) -> Answer:
    """A service that answers one kind of request, and says of any other what is wrong with it."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        split = urlsplit(request.raw_path)
        found = {name: values[0] for name, values in parse_qs(split.query).items()}
        wrong = [
            *([] if split.path == path else [f"path {split.path}"]),
            *([] if found == (query or {}) else [f"query {found}"]),
            *([] if request.headers.get(header[0]) == header[1] else [f"header {header[0]}"]),
            *(f"header {name} is there" for name in absent if name in request.headers),
        ]
        if wrong:
            return web.json_response({"wrong": wrong}, status=400)
        return web.Response(body=_SAID, headers={"content-type": "application/json"})

    return answer


def _describe(place: Path, provider: Provider, text: str) -> ProviderConfig:
    """A description as an operator writes it, with the service's host in it."""
    path = place / "provider.toml"
    path.write_text(text.replace("https://HOST", f"http://127.0.0.1:{provider.port}"), encoding="utf-8")
    return load_provider(path)


def _ask(config: ProviderConfig, target: str, body: object) -> Reply:
    with open_gateway(ProviderUpstream(config, {"CLOUD_KEY": _KEY})) as gateway:
        return ask(gateway.port, target, body)


def _try(place: Path, service: Answer, text: str, target: str, body: object) -> None:
    with open_provider(service) as provider:
        reply = _ask(_describe(place, provider, text), target, body)
    assert (reply.status, reply.body) == (200, _SAID)


_AZURE: Final = ("/openai/deployments/gpt-prod/chat/completions", {"api-version": "2024-10-21"})
_ONLY_KEY: Final = ("authorization", "x-api-key")


def test_azure_deployments_for_an_agent_that_speaks_plain_openai(tmp_path: Path) -> None:
    service = _expect(_AZURE[0], query=_AZURE[1], header=("api-key", _KEY), absent=_ONLY_KEY)
    text = """
        base_url = "https://HOST/openai/deployments/gpt-prod"
        path_prefix_removed = "/v1"
        key_variable = "CLOUD_KEY"
        key_place = "api-key"
        query = { api-version = "2024-10-21" }
    """
    _try(tmp_path, service, text, "/v1/chat/completions", _CHAT)


def test_azure_deployments_for_an_agent_that_speaks_azures_form_itself(tmp_path: Path) -> None:
    service = _expect(_AZURE[0], query=_AZURE[1], header=("api-key", _KEY), absent=_ONLY_KEY)
    text = """
        base_url = "https://HOST"
        key_variable = "CLOUD_KEY"
        key_place = "api-key"
        models = { gpt-x = "gpt-prod" }
    """
    target = "/openai/deployments/gpt-x/chat/completions?api-version=2024-10-21"
    _try(tmp_path, service, text, target, _CHAT)


@pytest.mark.parametrize("way", ["chat/completions", "responses"])
def test_azure_v1_with_an_entra_token(tmp_path: Path, way: str) -> None:
    service = _expect(f"/openai/v1/{way}", header=("authorization", f"Bearer {_KEY}"), absent=("api-key",))
    text = """
        base_url = "https://HOST/openai"
        key_variable = "CLOUD_KEY"
    """
    body = _CHAT if way == "chat/completions" else {"model": "m-1", "input": "Hi"}
    _try(tmp_path, service, text, f"/v1/{way}", body)


def test_vertex_for_an_agent_that_speaks_gemini(tmp_path: Path) -> None:
    path = "/v1/projects/p-1/locations/europe-west1/publishers/google/models/g-1:generateContent"
    service = _expect(path, header=("authorization", f"Bearer {_KEY}"), absent=("x-goog-api-key",))
    text = """
        base_url = "https://HOST/v1/projects/p-1/locations/europe-west1/publishers/google"
        path_prefix_removed = "/v1beta"
        key_variable = "CLOUD_KEY"
    """
    _try(tmp_path, service, text, "/v1beta/models/g-1:generateContent", _CONTENTS)


@pytest.mark.parametrize("verb", ["rawPredict", "streamRawPredict"])
def test_vertex_for_an_agent_that_speaks_its_form_of_anthropic(tmp_path: Path, verb: str) -> None:
    path = f"/v1/projects/p-1/locations/global/publishers/anthropic/models/c-1@20250929:{verb}"
    service = _expect(path, header=("authorization", f"Bearer {_KEY}"))
    text = 'base_url = "https://HOST"\nkey_variable = "CLOUD_KEY"\n'
    _try(tmp_path, service, text, path, {**_MESSAGES, "anthropic_version": "vertex-2023-10-16"})


def test_bedrocks_own_address_for_openai(tmp_path: Path) -> None:
    service = _expect("/openai/v1/chat/completions", header=("authorization", f"Bearer {_KEY}"))
    text = """
        base_url = "https://HOST/openai"
        key_variable = "CLOUD_KEY"
        models = { m-1 = "openai.gpt-oss-20b-1:0" }
    """
    with open_provider(service) as provider:
        reply = _ask(_describe(tmp_path, provider, text), "/v1/chat/completions", _CHAT)
    assert reply.body == _SAID
    assert msgspec.json.decode(provider.asked[0].body)["model"] == "openai.gpt-oss-20b-1:0"


@pytest.mark.parametrize("colon", [":", "%3A"])
def test_bedrock_for_an_agent_that_speaks_its_form_of_anthropic(tmp_path: Path, colon: str) -> None:
    target = f"/model/anthropic.c-1-20250929-v1{colon}0/invoke"
    service = _expect(target, header=("authorization", f"Bearer {_KEY}"), absent=("x-amz-date",))
    text = 'base_url = "https://HOST"\nkey_variable = "CLOUD_KEY"\n'
    _try(tmp_path, service, text, target, {**_MESSAGES, "anthropic_version": "bedrock-2023-05-31"})


def test_a_model_of_bedrock_is_renamed_with_its_version(tmp_path: Path) -> None:
    service = _expect("/model/eu.c-1-v2:0/invoke", header=("authorization", f"Bearer {_KEY}"))
    text = """
        base_url = "https://HOST"
        key_variable = "CLOUD_KEY"
        models = { "c-1-v1:0" = "eu.c-1-v2:0" }
    """
    _try(tmp_path, service, text, "/model/c-1-v1:0/invoke", _MESSAGES)


@pytest.mark.parametrize("way", ["invoke-with-response-stream", "converse", "converse-stream"])
def test_what_bedrock_answers_in_a_form_that_cannot_be_metered_is_refused(tmp_path: Path, way: str) -> None:
    text = 'base_url = "https://HOST"\nkey_variable = "CLOUD_KEY"\n'
    with open_provider(_expect("/", header=("x", "y"))) as provider:
        reply = _ask(_describe(tmp_path, provider, text), f"/model/c-1/{way}", _MESSAGES)
    assert reply.status == 404
    assert provider.asked == []


def test_a_key_in_a_file_is_read_again_when_somebody_has_renewed_it(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first-token\n", encoding="utf-8")

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=_SAID, headers={"content-type": "application/json"})

    with open_provider(answer) as provider:
        config = _describe(tmp_path, provider, f'base_url = "https://HOST"\nkey_file = "{token}"\n')
        with open_gateway(ProviderUpstream(config, {})) as gateway:
            ask(gateway.port, "/v1/chat/completions", build_chat(is_streamed=False))
            token.write_text("second-token\n", encoding="utf-8")
            ask(gateway.port, "/v1/chat/completions", build_chat(is_streamed=False))
            token.unlink()
            lost = ask(gateway.port, "/v1/chat/completions", build_chat(is_streamed=False))
    sent = [asked.headers["authorization"] for asked in provider.asked]
    assert sent == ["Bearer first-token", "Bearer second-token"]
    assert lost.status == 502
    with raises_code("provider-unusable", match="expected a file with a key"):
        ProviderUpstream(config, {})


def test_a_key_has_one_place_only(tmp_path: Path) -> None:
    text = 'base_url = "https://models.example.org"\nkey_variable = "A"\nkey_file = "b"\n'
    (tmp_path / "p.toml").write_text(text, encoding="utf-8")
    with raises_code("provider-unusable", match="found both"):
        ProviderUpstream(load_provider(tmp_path / "p.toml"), {"A": "x"})
