"""What all commands have in common."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from repotrial import api
from repotrial.cli._contract_new import EcosystemChoice, KindChoice
from support.command_line import call, iter_commands, surroundings

COMMANDS = dict(iter_commands())
each_command = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


def options_of(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def test_commands_are_a_noun_and_a_verb_but_for_the_doctor() -> None:
    assert {" ".join(words) for words in COMMANDS} == {
        "agent check",
        "agent install",
        "agent list",
        "image import",
        "image list",
        "image remove",
        "archive apply",
        "archive approve",
        "archive log",
        "archive open",
        "archive plan",
        "archive shred",
        "cache list",
        "cache prune",
        "contract certify",
        "contract check",
        "contract complexity",
        "contract import",
        "contract lock",
        "contract mine",
        "contract new",
        "contract prove",
        "contract refresh",
        "contract review",
        "contract schema",
        "contract show",
        "doctor",
        "error list",
        "error show",
        "fleet logs",
        "fleet pull",
        "fleet start",
        "fleet status",
        "fleet stop",
        "fleet work",
        "pilot analyze",
        "pilot bundle",
        "pilot freeze",
        "pilot init",
        "pilot plan",
        "pilot review",
        "pilot run",
        "pilot status",
        "report build",
        "report serve",
        "retrieval compare",
        "retrieval evaluate",
        "retrieval normalize",
        "retrieval report",
        "retrieval validate",
        "run compare",
        "run cost",
        "run decide",
        "run export",
        "run list",
        "run page",
        "run recompute",
        "run rejudge",
        "run replay",
        "run retry",
        "run score",
        "run show",
        "run start",
        "run summary",
        "run verify",
        "run why",
        "sandbox exec",
        "sandbox probe",
        "suite lock",
        "trace key add",
        "trace key list",
        "trace key remove",
        "trace key show",
    }


@pytest.mark.parametrize("words", sorted({words[:-1] for words in COMMANDS} | {("trace",)}), ids=" ".join)
def test_no_line_of_a_list_of_commands_is_cut_off(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with surroundings(COLUMNS="80"):
        listed = call(capsys, *words, "--help").out.partition("Commands:")[2]
    assert listed
    assert "..." not in listed


@each_command
def test_every_command_prints_json_on_request(words: tuple[str, ...]) -> None:
    assert "--json" in options_of(COMMANDS[words])


@each_command
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_has_an_example_that_names_the_command(
    words: tuple[str, ...], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, *words, flag)
    assert (ended.status, ended.err) == (0, "")
    assert f"Example: repotrial {' '.join(words)}" in " ".join(ended.out.split())


@each_command
def test_options_in_an_example_exist(words: tuple[str, ...]) -> None:
    ours, _, _ = COMMANDS[words].epilog.partition(" -- ")  # what follows belongs to another program
    used = {word for word in ours.split() if word.startswith("--")}
    assert used <= options_of(COMMANDS[words])


@each_command
def test_every_option_and_argument_is_explained(words: tuple[str, ...]) -> None:
    assert all(parameter.help for parameter in COMMANDS[words].params)


def test_choices_are_those_of_the_models() -> None:
    hints = get_type_hints(api.NewContract)
    assert set(get_args(KindChoice)) == set(get_args(hints["kind"]))
    assert set(get_args(EcosystemChoice)) == set(get_args(get_args(hints["ecosystem"])[0]))


def test_schema_help_names_every_schema(capsys: pytest.CaptureFixture[str]) -> None:
    helped = re.sub(r"-\n\s+", "-", call(capsys, "contract", "schema", "--help").out)
    assert all(name in helped for name in api.list_schemas())


@pytest.mark.parametrize("name", api.list_schemas())
def test_every_schema_is_printed_as_it_is_published(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    published = Path(__file__).parents[3] / "schemas" / f"{name}.schema.json"
    ended = call(capsys, "contract", "schema", name)
    assert ended.status == 0
    assert ended.out == call(capsys, "contract", "schema", name, "--json").out
    assert ended.out == published.read_text(encoding="utf-8")
