"""How an agent asks, read off its requests: each setting has its own field, in every wire format."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest

from repotrial.wire import Dialect, RequestSettings, describe_settings
from support.wire import build_body, parse

DIALECTS: tuple[Dialect, ...] = ("openai-chat", "openai-responses", "anthropic-messages", "gemini")
TOOLS = {"shell": {"type": "object", "properties": {"command": {"type": "string"}}}}


def describe(dialect: Dialect, body: dict[str, Any]) -> RequestSettings:
    return describe_settings(parse(dialect, body))


def list_changed(one: RequestSettings, other: RequestSettings) -> set[str]:
    names = RequestSettings.__struct_fields__
    return {name for name in names if getattr(one, name) != getattr(other, name)}


def sampled(dialect: Dialect, body: dict[str, Any]) -> dict[str, Any]:
    return body.setdefault("generationConfig", {}) if dialect == "gemini" else body


@pytest.mark.parametrize("dialect", DIALECTS)
def test_another_temperature_changes_the_temperature_alone(dialect: Dialect) -> None:
    body = build_body(dialect, tools=TOOLS)
    sampled(dialect, body)["temperature"] = 0.70
    other = copy.deepcopy(body)
    sampled(dialect, other)["temperature"] = 1
    one, two = describe(dialect, body), describe(dialect, other)
    assert (one.temperature, two.temperature) == ("0.7", "1")
    assert list_changed(one, two) == {"temperature"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_tool_is_digested_with_its_description(dialect: Dialect) -> None:
    body = build_body(dialect, tools=TOOLS)
    other = json.loads(json.dumps(body).replace("shell", "shell2"))
    longer = copy.deepcopy(body)
    item = longer["tools"][0]
    tool = item["functionDeclarations"][0] if dialect == "gemini" else item.get("function", item)
    tool["description"] = "Runs a command, whatever it is."
    one = describe(dialect, body)
    assert [name for name, _ in one.tools] == ["shell"]
    assert list_changed(one, describe(dialect, longer)) == {"tools"}
    assert [name for name, _ in describe(dialect, other).tools] == ["shell2"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_another_system_prompt_changes_the_prompts_alone(dialect: Dialect) -> None:
    one = describe(dialect, with_system(dialect, "You fix bugs. Today's date: 2026-03-07"))
    same = describe(dialect, with_system(dialect, "You fix bugs. Today's date: 2026-11-18"))
    other = describe(dialect, with_system(dialect, "You fix bugs slowly. Today's date: 2026-03-07"))
    assert len(one.prompts) == 1
    assert one == same
    assert list_changed(one, other) == {"prompts"}


def with_system(dialect: Dialect, text: str) -> dict[str, Any]:
    body = build_body(dialect, tools=TOOLS)
    match dialect:
        case "openai-chat":
            said = [message for message in body["messages"] if message["role"] not in {"system", "developer"}]
            body["messages"] = [{"role": "system", "content": text}, *said]
        case "openai-responses":
            body["input"] = [
                item for item in body["input"] if item.get("role") not in {"system", "developer"}
            ]
            body["instructions"] = text
        case "anthropic-messages":
            body["system"] = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
        case "gemini":
            body["systemInstruction"] = {"parts": [{"text": text}]}
    return body


@pytest.mark.parametrize(
    ("dialect", "given"),
    [
        ("openai-chat", {"reasoning_effort": "high"}),
        ("openai-responses", {"reasoning": {"effort": "high", "summary": "auto"}}),
        ("anthropic-messages", {"output_config": {"effort": "high"}}),
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingLevel": "high"}}}),
    ],
)
def test_effort_is_read_wherever_the_dialect_has_it(dialect: Dialect, given: dict[str, Any]) -> None:
    assert describe(dialect, {**build_body(dialect, tools=TOOLS), **given}).effort == "high"


def test_everything_else_is_a_parameter_by_its_name_and_who_asks_is_none() -> None:
    body = build_body("openai-chat", tools=TOOLS) | {
        "top_p": 0.9,
        "response_format": {"type": "json_object"},
        "logit_bias": {str(number): 1 for number in range(40)},
        "stop": "x" * 500,
        "user": "someone",
        "metadata": {"session": "1"},
        "temperature": "warm",
    }
    found = describe("openai-chat", body).parameters
    assert found["top_p"] == "0.9"
    assert found["response_format.type"] == '"json_object"'
    assert found["stop"].startswith("sha256:")
    assert found["temperature"] == '"warm"'
    assert not {"user", "metadata", "metadata.session", "model", "tools", "messages"} & set(found)


def test_tools_that_the_provider_runs_are_offered_too() -> None:
    body = build_body("anthropic-messages", tools=TOOLS)
    body["tools"].append({"type": "web_search_20250305", "name": "web_search"})
    assert [name for name, _ in describe("anthropic-messages", body).tools] == ["shell", "web_search"]
    body = build_body("gemini", tools=TOOLS)
    body["tools"].append({"googleSearch": {}})
    assert [name for name, _ in describe("gemini", body).tools] == ["shell", "googleSearch"]


def test_what_no_program_would_send_is_described_all_the_same() -> None:
    body = build_body("openai-chat", tools=TOOLS) | {"temperature": 1e300, "x\u00e9": [1, {"a": None}]}
    found = describe("openai-chat", body)
    assert found.temperature is None
    assert found.parameters["x\\xe9"] == '[1, {"a": null}]'
    assert msgspec.json.encode(found)
