"""Agents by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repotrial.fleet import build_roster
from repotrial.run import Agent, CommandAgent, PatchAgent, ScriptAgent
from repotrial.run._agents import build_agent_configuration
from support.errors import raises_code


def build(name: str) -> Agent:
    ((agent, only),) = build_roster([name], ["some-contract"]).agents
    assert only is None
    return agent


@pytest.mark.parametrize("name", ["noop", "reference", "human"])
def test_agents_of_ours_need_only_their_name(name: str) -> None:
    assert build(name).name == name


def test_a_file_gives_its_name_and_its_bytes(tmp_path: Path) -> None:
    script = tmp_path / "My Fix_2.sh"
    script.write_bytes(b"true\n")
    assert build(f"script:{script}") == ScriptAgent(name="my-fix-2", script=b"true\n")
    assert build(f"patch:{script}") == PatchAgent(name="my-fix-2", patch=b"true\n")


def test_nobody_takes_the_name_of_an_agent_of_ours(tmp_path: Path) -> None:
    script = tmp_path / "reference.sh"
    script.write_bytes(b"true\n")
    assert build(f"script:{script}").name == "script-reference"
    script.rename(tmp_path / "☃.sh")
    assert build(f"script:{tmp_path}/☃.sh").name == "script"


def test_a_command_is_split_as_a_shell_does() -> None:
    assert build("command:/bin/sed -i 's/a b/c/' file") == CommandAgent(
        name="sed", argv=("/bin/sed", "-i", "s/a b/c/", "file")
    )


@pytest.mark.parametrize(
    "name", ["", "nobody", "noop:x", "script:", "command:", "command:  ", "command:'", "predictions", ":x"]
)
def test_what_is_no_agent_is_refused(name: str) -> None:
    with raises_code("agent-name", match="expected"):
        build_roster([name], [])


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for kind in ("patch", "script", "predictions"):
        with raises_code("agent-file"):
            build_roster([f"{kind}:{tmp_path}/nowhere"], [])


def write_predictions(path: Path, *lines: object) -> str:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return f"predictions:{path}"


def prediction(instance: str, patch: str | None = "x", model: str = "m") -> dict[str, str | None]:
    return {"instance_id": instance, "model_patch": patch, "model_name_or_path": model, "extra": "kept out"}


def test_predictions_go_to_the_contracts_that_they_are_for(tmp_path: Path) -> None:
    name = write_predictions(
        tmp_path / "p.jsonl",
        prediction("Astropy__astropy-12907"),
        "",
        prediction("django__django-1", None),
        prediction("sympy__sympy-1", model="vendor/Model-X"),
    )
    roster = build_roster([name], ["astropy-astropy-12907", "sympy_sympy-1"])
    assert [(agent.name, only) for agent, only in roster.agents] == [
        ("m", "astropy-astropy-12907"),
        ("vendor-model-x", "sympy_sympy-1"),
    ]
    assert roster.unmatched == ("django__django-1",)


def test_predictions_of_one_file_count_as_one_agents(tmp_path: Path) -> None:
    name = write_predictions(tmp_path / "p.jsonl", prediction("a", "1"), prediction("b", None))
    configurations = [
        build_agent_configuration(agent, reference_digest=None)
        for agent, _ in build_roster([name], ["a", "b"]).agents
    ]
    assert len({found.version for found in configurations}) == 1
    assert len({found.adapter_digest for found in configurations}) == 2, "what they hand in is told apart"


def write_scripts(place: Path, **texts: str) -> str:
    for contract, text in texts.items():
        (place / contract).mkdir(exist_ok=True)
        (place / contract / "fix.sh").write_text(text)
    return f"script:{place}/{{contract}}/fix.sh"


def test_each_contract_has_its_own_file_and_all_are_one_agents(tmp_path: Path) -> None:
    template = write_scripts(tmp_path, a="one", b="two")
    roster = build_roster([template, "noop"], ["a", "b"])
    (one, first), (two, second), (noop, _) = roster.agents
    assert isinstance(one, ScriptAgent)
    assert isinstance(two, ScriptAgent)
    assert (first, one.script, second, two.script) == ("a", b"one", "b", b"two")
    found = [build_agent_configuration(agent, reference_digest=None) for agent in (one, two)]
    assert {(agent.name, agent.version) for agent in found} == {("fix", found[0].version)}
    assert found[0].adapter_digest != found[1].adapter_digest, "what they do is told apart"
    assert noop.name == "noop"


def test_the_version_of_templated_files_is_that_of_the_set(tmp_path: Path) -> None:
    def find_version(*contracts: str) -> str:
        ((agent, _), *_) = build_roster([template], contracts).agents
        return build_agent_configuration(agent, reference_digest=None).version

    template = write_scripts(tmp_path, a="one", b="two")
    version = find_version("a", "b")
    assert find_version("b") == version, "whichever contracts a command names"
    write_scripts(tmp_path, a="two", b="one")
    assert find_version("a", "b") != version
    write_scripts(tmp_path, a="one", b="three")
    assert find_version("a") != version


def test_a_template_may_hold_what_a_shell_would_expand(tmp_path: Path) -> None:
    place = tmp_path / "[x]*"
    place.mkdir()
    (place / "a.patch").write_text("one")
    (agent,) = build_roster([f"patch:{place}/{{contract}}.patch"], ["a"]).agents
    expected = build_roster([f"patch:{place}/a.patch"], []).agents[0][0]
    assert isinstance(agent[0], PatchAgent)
    assert isinstance(expected, PatchAgent)
    assert (agent[0].name, agent[0].patch) == ("patch", expected.patch)


def test_a_contract_that_a_template_has_no_file_for_is_named(tmp_path: Path) -> None:
    template = write_scripts(tmp_path, a="one")
    with raises_code("agent-file", match=r"b/fix\.sh: expected a file"):
        build_roster([template], ["a", "b"])


def test_line_separators_inside_a_patch_do_not_end_a_line(tmp_path: Path) -> None:
    name = write_predictions(
        tmp_path / "p.jsonl", json.dumps(prediction("a", "x\u2028y"), ensure_ascii=False)
    )
    ((agent, _),) = build_roster([name], ["a"]).agents
    assert isinstance(agent, PatchAgent)
    assert agent.patch == "x\u2028y".encode()


@pytest.mark.parametrize(
    ("line", "place"),
    [("[]", ":2:"), ('{"instance_id": "b"}', ":2:"), ("{", ":2:"), (prediction("A"), "line 1")],
)
def test_a_file_that_is_not_of_predictions_is_refused_with_the_line(
    tmp_path: Path, line: object, place: str
) -> None:
    name = write_predictions(tmp_path / "p.jsonl", prediction("a"), line)
    with raises_code("predictions", match=place):
        build_roster([name], ["a"])
