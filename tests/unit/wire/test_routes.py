"""Which dialect a path speaks, and where its key stands."""

from __future__ import annotations

import pytest

from repotrial.gateway._headers import find_key, strip_key
from repotrial.wire import Dialect
from support.wire import Route, find_route


@pytest.mark.parametrize(
    ("target", "dialect"),
    [
        ("/v1/chat/completions", "openai-chat"),
        ("/chat/completions", "openai-chat"),
        ("/openai/v1/chat/completions", "openai-chat"),
        ("/v1/responses", "openai-responses"),
        ("/openai/responses?api-version=2025-04-01-preview", "openai-responses"),
        ("/v1/messages?beta=true", "anthropic-messages"),
        ("/messages", "anthropic-messages"),
        ("/anthropic/v1/messages", "anthropic-messages"),
    ],
)
def test_a_path_tells_the_dialect_and_the_body_tells_the_rest(target: str, dialect: Dialect) -> None:
    assert find_route("POST", target) == Route(kind="generate", dialect=dialect)


def test_a_deployment_in_the_path_is_the_model() -> None:
    target = "/openai/deployments/gpt-4.1/chat/completions?api-version=2024-10-21"
    assert find_route("POST", target) == Route(kind="generate", dialect="openai-chat", model="gpt-4.1")


@pytest.mark.parametrize(
    ("verb", "kind", "is_streamed"),
    [
        ("generateContent", "generate", False),
        ("streamGenerateContent?alt=sse", "generate", True),
        ("countTokens", "count", False),
    ],
)
@pytest.mark.parametrize(
    "prefix", ["/v1beta/models/", "/v1/projects/p/locations/europe-west1/publishers/google/models/"]
)
def test_a_gemini_path_names_the_model_and_the_form(
    prefix: str, verb: str, kind: str, *, is_streamed: bool
) -> None:
    route = find_route("POST", f"{prefix}gemini-2.5-pro:{verb}")
    assert route is not None
    assert (route.dialect, route.kind, route.model, route.is_streamed) == (
        "gemini",
        kind,
        "gemini-2.5-pro",
        is_streamed,
    )


def test_a_colon_may_be_written_as_an_escape() -> None:
    route = find_route("POST", "/v1beta/models/gemini-2.5-pro%3AgenerateContent")
    assert route is not None
    assert route.model == "gemini-2.5-pro"


def test_counting_is_told_apart_from_asking() -> None:
    route = find_route("POST", "/v1/messages/count_tokens?beta=true")
    assert route == Route(kind="count", dialect="anthropic-messages", is_streamed=False)


@pytest.mark.parametrize(
    ("method", "target", "kind"),
    [
        ("HEAD", "/", "health"),
        ("GET", "/", "health"),
        ("GET", "/v1/models", "models"),
        ("GET", "/models", "models"),
    ],
)
def test_what_costs_nothing_is_known_too(method: str, target: str, kind: str) -> None:
    route = find_route(method, target)
    assert route is not None
    assert route.kind == kind


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/chat/completions"),
        ("DELETE", "/v1/responses"),
        ("POST", "/"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/threads/t1/messages"),
        ("POST", "/v1/batches/../messages"),
        ("POST", "/v1/%2e%2e/messages"),
        ("POST", "/v1/files/x/chat/completions"),
        ("POST", "//evil.example.org/v1/messages"),
        ("POST", "http://evil.example.org/v1/messages"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1beta/models/a/b:generateContent"),
        ("POST", "/v1beta/models/:generateContent"),
        ("POST", "/openai/deployments/a%2Fb/chat/completions"),
        ("POST", "/v1/messages\n"),
        ("POST", "/v1/messages#x"),
        ("CONNECT", "api.example.org:443"),
    ],
)
def test_anything_else_is_no_route(method: str, target: str) -> None:
    assert find_route(method, target) is None


@pytest.mark.parametrize(
    ("headers", "target"),
    [
        ({"Authorization": "Bearer k-1"}, "/v1/responses"),
        ({"authorization": "bearer  k-1 "}, "/v1/responses"),
        ({"X-Api-Key": "k-1"}, "/v1/messages"),
        ({"api-key": "k-1"}, "/openai/responses"),
        ({"x-goog-api-key": "k-1"}, "/v1beta/models/m:generateContent"),
        ({}, "/v1beta/models/m:generateContent?alt=sse&key=k-1"),
        ({"authorization": "Basic eA==", "x-api-key": "k-1"}, "/v1/messages"),
    ],
)
def test_a_key_is_found_wherever_a_dialect_puts_it(headers: dict[str, str], target: str) -> None:
    assert find_key(headers, target) == "k-1"


def test_no_key_is_no_key() -> None:
    assert find_key({"authorization": "Bearer "}, "/v1/messages?beta=true&key=") is None


def test_no_key_goes_further_and_the_rest_of_the_query_stays_as_it_was() -> None:
    target = "/v1beta/models/m:streamGenerateContent?key=k&alt=sse&%6Bey=l&empty=&x=%20"
    assert strip_key(target) == "/v1beta/models/m:streamGenerateContent?alt=sse&empty=&x=%20"
    assert strip_key("/v1/messages?key=k") == "/v1/messages"
