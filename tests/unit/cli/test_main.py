"""Ways to end: exit codes, and words for people or JSON for machines."""

from __future__ import annotations

import json

import pytest

from repotrial import __version__
from support.command_line import call


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version") == (0, f"repotrial {__version__}\n", "")


def test_no_words_show_the_way_in(capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys)
    assert ended.status == 0
    assert "repotrial contract new" in ended.out
    assert "Exit codes: 0 done" in ended.out


@pytest.mark.parametrize("noun", [["contract"], ["run"], ["trace"], ["trace", "key"], ["error"]])
def test_a_noun_without_a_verb_lists_its_verbs(noun: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, *noun)
    assert ended.status == 2
    assert "Commands:" in ended.err
    assert ended.out == ""


MISTAKES = [
    (["contract", "check"], "Missing argument 'DIR...'", "repotrial contract check --help"),
    (["contract", "chek", "x"], "Did you mean 'check'", "repotrial contract --help"),
    (["contract", "check", "x", "--strikt"], "No such option: --strikt", "repotrial contract check --help"),
    (
        ["contract", "new", "x", "--kind", "chore"],
        "'chore' is not one of 'bug-fix'",
        "repotrial contract new --help",
    ),
    (
        ["contract", "new", "x", "--ecosystem", "perl"],
        "'perl' is not one of 'python'",
        "repotrial contract new",
    ),
    (["contract", "lint", "x"], "No such command 'lint'", "repotrial contract check"),
    (["nonsense"], "No such command 'nonsense'", "repotrial --help"),
    (
        ["contract", "schema", "x"],
        "expected one of agent, aggregate, analysis, certificate,",
        "repotrial contract schema --help",
    ),
    (["error", "show", "x"], "expected a known error code, found 'x'", "repotrial error list"),
    (["run", "show", "nowhere"], "nowhere: expected a run directory, found nothing", "trace.jsonl"),
    (["contract", "show", "nowhere"], "nowhere: expected a contract directory", "contract.toml"),
    (["contract", "new"], "expected DIR, found none", "terminal"),
    (["contract", "new", "x"], "expected --repository, found none", "terminal"),
    (["contract", "new", "x", "-r", "."], "expected --title, found none", "terminal"),
    (
        ["contract", "new", "x", "-r", ".", "--tests", "t"],
        "expected --from-commit beside --tests",
        "--from-commit",
    ),
    (
        ["contract", "new", "x", "-r", ".", "--from-commit", "a", "--revision", "b"],
        "expected --revision or --from-commit, found both",
        "--revision",
    ),
    (["run", "verify", "x", "--key", "nowhere"], "nowhere: expected a readable file", "public key"),
]
each_mistake = pytest.mark.parametrize(("words", "message", "way_on"), MISTAKES)


@each_mistake
def test_a_mistake_is_explained_with_a_way_on(
    words: list[str], message: str, way_on: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, *words)
    assert (ended.status, ended.out) == (2, "")
    complaint, _, fix = ended.err.partition("\n  fix: ")
    assert complaint.startswith("error[")
    assert message in complaint
    assert way_on in fix


@each_mistake
def test_a_mistake_is_json_where_json_was_asked_for(
    words: list[str], message: str, way_on: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, *words, "--json")
    assert (ended.status, ended.err) == (2, "")
    (line,) = ended.out.splitlines()
    error = json.loads(line)["error"]
    assert error.keys() == {"code", "blame", "message", "hint"}
    assert message in error["message"]
    assert way_on in error["hint"]


def test_words_after_a_double_dash_are_names(capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "contract", "show", "--", "--json")
    assert (ended.status, ended.out) == (2, "")
    assert "--json: expected a contract directory" in ended.err


def test_a_fault_of_ours_is_reported_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    class Trap(str):
        """A word that breaks whoever looks at it: stands for any fault of the program."""

        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            raise ZeroDivisionError("\x1b[2J")

    ended = call(capsys, Trap("contract"))
    assert ended.status == 70
    assert "ZeroDivisionError: \\x1b[2J" in ended.err
    assert "fault of RepoTrial itself" in ended.err
