"""Adapters as documents: the ones that are shipped, and the mistakes that people make in their own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from repotrial.agents import LoadedAdapter, find_adapter, list_adapters, load_adapter
from repotrial.agents._load import PLACEHOLDERS, fill_template
from repotrial.agents._model import NpmRecipe, PypiRecipe, Quirk
from support.errors import raises_code

SHIPPED = list_adapters()
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "add-an-agent.md"
SOUND = """\
schema = "repotrial/agent@1"
name = "mine"
title = "Mine"
license = "MIT"
tested_version = "1.0"
dialect = "openai-chat"
model = "some-model"

[install]
kind = "host"
program = ["mine"]

[launch]
argv = ["{program}", "--url", "{url}/v1", "{task}"]
"""


def write(directory: Path, text: str, name: str = "mine.toml") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def problems_of(path: Path) -> str:
    with raises_code("adapter-invalid") as caught:
        load_adapter(path)
    return "\n".join(map(str, caught.value.details))


def test_fourteen_agents_are_shipped() -> None:
    assert [loaded.adapter.name for loaded in SHIPPED] == [
        *("aider", "claude-code", "cline", "codex", "continue", "copilot", "gemini-cli", "goose"),
        *("mini-swe-agent", "opencode", "openhands", "pi", "qwen-code", "vibe"),
    ]


@pytest.mark.parametrize("loaded", SHIPPED, ids=lambda loaded: loaded.adapter.name)
def test_a_shipped_agent_is_locked_and_its_lock_names_no_host(loaded: LoadedAdapter) -> None:
    assert loaded.locks
    for data in loaded.locks.values():
        assert b'"resolved"' not in data


@pytest.mark.parametrize("loaded", SHIPPED, ids=lambda loaded: loaded.adapter.name)
def test_a_shipped_lock_holds_what_the_recipe_asks_for(loaded: LoadedAdapter) -> None:
    for data in loaded.locks.values():
        match loaded.adapter.install:
            case NpmRecipe(packages=packages):
                wanted = dict(package.rsplit("@", 1) for package in packages)
                assert json.loads(data)["packages"][""]["dependencies"] == wanted
            case PypiRecipe(requirements=requirements):
                pinned = {line.split(" ")[0] for line in data.decode().splitlines()}
                assert pinned >= set(requirements)
            case _:
                pytest.fail("a shipped agent is not installed")


def test_the_digest_covers_the_document_and_its_locks() -> None:
    loaded = find_adapter("codex")
    other_lock = msgspec.structs.replace(loaded, locks={"any": b"{}"})
    other_model = msgspec.structs.replace(
        loaded, adapter=msgspec.structs.replace(loaded.adapter, model="another")
    )
    other_place = msgspec.structs.replace(loaded, source="elsewhere")
    assert len({loaded.digest, other_lock.digest, other_model.digest}) == 3
    assert other_place.digest == loaded.digest


def test_an_adapter_of_the_users_own_needs_no_code(tmp_path: Path) -> None:
    loaded = load_adapter(write(tmp_path, SOUND))
    assert (loaded.adapter.name, loaded.version) == ("mine", "unknown")


def test_all_problems_are_told_at_once_each_with_its_line(tmp_path: Path) -> None:
    text = SOUND.replace('title = "Mine"', 'tittle = "Mine"').replace('"openai-chat"', '"openai-chats"')
    told = problems_of(write(tmp_path, text))
    assert "mine.toml:3: tittle" in told
    assert 'did you mean "title"?' in told
    assert "mine.toml:6: dialect" in told
    assert 'did you mean "openai-chat"?' in told


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("{url}/v1", "{ulr}/v1", "launch.argv[2]"),
        ("[launch]", '[launch]\nvariables = { A = "{keys}" }', "launch.variables.A"),
        ("[launch]", '[launch]\nfiles = { "a/b.json" = "{modell}" }', "launch.files.a/b.json"),
        ("[launch]", '[launch]\nprepare = [["x", "{turns}"]]', "launch.prepare[0][1]"),
    ],
    ids=["argv", "variable", "file", "turns elsewhere"],
)
def test_an_unknown_placeholder_is_named_with_file_and_field(
    tmp_path: Path, old: str, new: str, field: str
) -> None:
    told = problems_of(write(tmp_path, SOUND.replace(old, new)))
    assert told.startswith(f"mine.toml: {field}: expected a known placeholder")


def test_braces_of_json_are_no_placeholders_and_doubled_ones_stand_for_themselves() -> None:
    text = '{"a": {}, "b": {"c": "{url}"}, "d": "{{url}}", "e": ${HOME}}'
    filled = fill_template(text, {"url": "http://x"})
    assert filled == '{"a": {}, "b": {"c": "http://x"}, "d": "{url}", "e": ${HOME}}'


def test_a_value_that_looks_like_a_placeholder_is_not_filled_in_again() -> None:
    assert fill_template("{task}", {"task": "say {key}", "key": "secret"}) == "say {key}"


def test_an_unknown_importer_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    text = SOUND + '\n[[transcripts]]\nkind = "stdout"\nimporter = "codex-exe"\n'
    assert "did you mean 'codex-exec'?" in problems_of(write(tmp_path, text))


def test_versions_that_are_not_exact_are_refused(tmp_path: Path) -> None:
    recipe = '[install]\nkind = "npm"\npackages = ["a@^1.0.0"]\nnode = ">=20"\n'
    text = SOUND.replace('[install]\nkind = "host"\n', recipe)
    assert "install.packages[0]: expected a package with its exact version" in problems_of(
        write(tmp_path, text)
    )


def test_a_lock_that_is_not_there_is_named(tmp_path: Path) -> None:
    recipe = '[install]\nkind = "npm"\npackages = ["a@1.0.0"]\nnode = ">=20"\nlock = "a.json"\n'
    text = SOUND.replace('[install]\nkind = "host"\n', recipe)
    assert "a.json" in problems_of(write(tmp_path, text))


def test_another_major_is_refused(tmp_path: Path) -> None:
    told = problems_of(write(tmp_path, SOUND.replace("agent@1", "agent@2")))
    assert "this version reads repotrial/agent@1 only" in told


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "none.toml" in problems_of(tmp_path / "none.toml")


def test_an_own_adapter_stands_in_place_of_a_shipped_one(tmp_path: Path) -> None:
    write(tmp_path, SOUND.replace('name = "mine"', 'name = "codex"'), "other.toml")
    assert find_adapter("codex", tmp_path).adapter.title == "Mine"
    assert find_adapter("codex").adapter.title == "Codex CLI"


def test_two_own_adapters_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path, SOUND, "a.toml")
    write(tmp_path, SOUND, "b.toml")
    with raises_code("adapter-invalid", match=r"b\.toml: name: .* found mine as in a\.toml"):
        list_adapters(tmp_path)


def test_a_name_that_nobody_has_is_told_with_all_that_there_are() -> None:
    with raises_code("adapter-unknown", match=r"claude-code, .*found 'clause'"):
        find_adapter("clause")


def test_every_placeholder_and_every_quirk_is_described_for_users() -> None:
    text = PAGE.read_text(encoding="utf-8")
    words = [f"`{{{word}}}`" for word in PLACEHOLDERS] + [f"`{quirk}`" for quirk in get_args(Quirk)]
    assert [word for word in words if word not in text] == []


def test_the_example_for_users_is_sound(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    write(tmp_path, "{}", "mine.lock.json")
    assert load_adapter(write(tmp_path, example)).version == "1.2.3"


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a/./b", "..", "a\\\\b"])
def test_files_stay_in_the_home(tmp_path: Path, path: str) -> None:
    text = SOUND.replace("[launch]", f'[launch]\nfiles = {{ "{path}" = "" }}')
    assert "expected a relative path without '..'" in problems_of(write(tmp_path, text))
