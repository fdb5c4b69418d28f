"""Agents that ask a model, as a command line names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial._core.errors import UsageError
from repotrial.agents import find_adapter, list_adapters
from repotrial.api import MachineSettings, ModelChoice
from repotrial.api._models import describe_upstream, verify_price
from repotrial.fleet import build_roster
from repotrial.run import ModelAgent
from repotrial.run._agents import build_agent_configuration
from support.errors import raises_code

OWN = """\
schema = "repotrial/agent@1"
name = "{name}"
title = "Mine"
license = "MIT"
tested_version = "1.0"
dialect = "openai-chat"
model = "some-model"

[install]
kind = "host"
program = ["mine"]

[launch]
argv = ["{{program}}", "{{task}}"]
"""


def find(name: str, *, adapters: Path | None = None, model: str | None = None) -> ModelAgent:
    ((agent, only),) = build_roster([name], [], adapters=adapters, model=model).agents
    assert isinstance(agent, ModelAgent)
    assert only is None
    return agent


@pytest.mark.parametrize(
    ("name", "model", "expected"),
    [
        ("codex", None, find_adapter("codex").adapter.model),
        ("codex", "other", "other"),
        ("codex@chosen", "other", "chosen"),
        ("codex@vendor/chosen:free", None, "vendor/chosen:free"),
        ("codex@", "other", "other"),
    ],
)
def test_a_model_is_chosen_by_name_then_by_option_then_by_default(
    name: str, model: str | None, expected: str
) -> None:
    found = find(name, model=model)
    assert (found.name, found.model) == ("codex", expected)


def test_a_file_of_the_users_own_is_an_agent(tmp_path: Path) -> None:
    path = tmp_path / "a@b.toml"
    path.write_text(OWN.format(name="mine"))
    assert find(f"agent:{path}").model == "some-model"
    assert find(f"agent:{path}@other").model == "other"


def test_a_directory_of_the_users_own_adds_names(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(OWN.format(name="mine"))
    assert find("mine@m", adapters=tmp_path).model == "m"
    with raises_code("agent-name"):
        find("mine")


def test_an_adapter_cannot_pass_for_an_agent_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(OWN.format(name="reference"))
    assert find(f"agent:{path}").name == "agent-reference"


def test_a_name_that_is_almost_right_is_told() -> None:
    with raises_code("agent-name") as caught:
        find("claude-cod@x")
    assert "did you mean claude-code?" in (caught.value.hint or "")


def test_a_file_that_is_no_adapter_is_told(tmp_path: Path) -> None:
    with raises_code("adapter-invalid", match="expected a file"):
        find(f"agent:{tmp_path / 'none.toml'}")


def test_what_decides_how_an_agent_works_is_in_its_configuration() -> None:
    codex = find("codex@m1")
    found = build_agent_configuration(codex, reference_digest=None)
    again = build_agent_configuration(find("codex@m2"), reference_digest=None)
    other = build_agent_configuration(find("pi@m1"), reference_digest=None)
    assert (found.name, found.version, found.model) == ("codex", codex.adapter.version, "m1")
    assert again.adapter_digest == found.adapter_digest
    assert again.model == "m2"
    assert other.adapter_digest != found.adapter_digest


@pytest.mark.parametrize("name", [loaded.adapter.name for loaded in list_adapters()])
def test_what_an_agent_asks_for_by_default_has_a_price(name: str) -> None:
    verify_price(ModelChoice(upstream="provider:openai"), find(name).model)


def test_a_model_without_a_price_is_refused_before_its_agent_fails_for_it() -> None:
    provider = ModelChoice(upstream="provider:openai")
    with raises_code(
        "model-unpriced", match="gpt-5-codex: expected a price in the bundled price book"
    ) as caught:
        verify_price(provider, "gpt-5-codex")
    assert "did you mean gpt-5.3-codex" in (caught.value.hint or "")
    with raises_code("model-unpriced") as unknown:
        verify_price(provider, "zzz")
    assert "--prices" in (unknown.value.hint or "")


def test_a_provider_that_there_is_not_is_told_with_the_nearest(tmp_path: Path) -> None:
    machine = MachineSettings(cache=tmp_path, home=tmp_path, variables={})
    with raises_code("upstream-name", match=r"\(openai, anthropic, gemini\) or a file") as caught:
        describe_upstream("provider:opnai", machine)
    assert caught.value.hint == "did you mean provider:openai?"
    with pytest.raises(UsageError, match="No such file") as missing:
        describe_upstream(f"provider:{tmp_path / 'mine.toml'}", machine)
    assert missing.value.code == "provider-invalid", "a path is looked for as one"


@pytest.mark.parametrize("upstream", ["script:x.toml", "recording:runs/one"])
def test_what_costs_nothing_needs_no_price(upstream: str) -> None:
    verify_price(ModelChoice(upstream=upstream), "zzz")


def test_a_book_of_ones_own_prices_its_own_models(tmp_path: Path) -> None:
    book = tmp_path / "book.csv"
    book.write_text(
        "action_type,unit,unit_price,notes\n"
        "model:local-*:input,token,0,our own machines\nmodel:local-*:output,token,0,our own machines\n"
    )
    choice = ModelChoice(upstream="provider:local.toml", prices=book)
    verify_price(choice, "local-coder")
    with raises_code("model-unpriced", match=r"gpt-5\.4: expected a price in .*book\.csv"):
        verify_price(choice, "gpt-5.4")
