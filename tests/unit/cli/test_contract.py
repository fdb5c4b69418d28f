"""`repotrial contract` on directories that are sound, usable, invalid and missing."""

from __future__ import annotations

import json
import os
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from repotrial.api import CreatedContract, ModelChoice
from repotrial.cli._contract_new import show_created
from repotrial.cli._run_start import _describe_ceiling
from repotrial.contract import Problem
from support.command_line import call, surroundings
from support.contracts import MINIMAL, write_contract

EXAMPLE = Path(__file__).parents[3] / "examples" / "contracts" / "textkit-wide-chars"
SAYS_ALL = '\nbaseline = "fail"\ntimeout_seconds = 60\nresults = [{ format = "exit-code" }]\n'
"""What lint misses in the last check of the smallest contract."""
TITLE_LEFT = Problem(
    code="draft-title-message", severity="warning", file="contract.toml", field="title", message="reword it"
)
INVALID = MINIMAL.replace('kind = "bug-fix"', 'kind = "bugfix"')


@pytest.fixture
def usable(tmp_path: Path) -> Path:
    """With a warning only: it is not locked."""
    place = tmp_path / "usable"
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns("contract.lock.json"))
    return place


@pytest.fixture
def invalid(tmp_path: Path) -> Path:
    return write_contract(tmp_path / "invalid", INVALID)


def entries(text: str) -> list[dict[str, Any]]:
    listed = json.loads(text)
    assert isinstance(listed, list)
    return listed


def test_a_sound_contract_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "contract", "check", EXAMPLE, "--strict")
    assert ended == (0, f"sound   {EXAMPLE}: 0 errors, 0 warnings\n", "")


def test_warnings_count_only_if_strict(usable: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "contract", "check", usable).status == 0
    assert call(capsys, "contract", "check", usable, "--strict").status == 1


def test_a_finding_has_file_line_and_fix(invalid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "contract", "check", invalid)
    assert ended.status == 1
    assert f"{invalid}/contract.toml:4: error[choice-unknown] kind: expected" in ended.out
    assert '    fix: did you mean "bug-fix"?' in ended.out
    assert f"invalid {invalid}: " in ended.out


def test_quiet_prints_findings_only(invalid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "contract", "check", EXAMPLE, EXAMPLE, "--quiet") == (0, "", "")
    ended = call(capsys, "contract", "check", EXAMPLE, invalid, "-q")
    assert ended.status == 1
    assert "error[choice-unknown]" in ended.out
    assert "sound" not in ended.out
    assert "contracts:" not in ended.out


def test_a_missing_directory_does_not_hide_the_others(
    tmp_path: Path, usable: Path, invalid: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "contract", "check", EXAMPLE, tmp_path / "nowhere", invalid, usable)
    assert ended.status == 2
    assert "error[contract-directory-missing]" in ended.err
    assert ended.out.endswith("4 contracts: 1 sound, 1 could not be looked at, 1 invalid, 1 usable\n")


def test_json_has_every_directory(tmp_path: Path, invalid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "contract", "check", EXAMPLE, tmp_path / "nowhere", invalid, "--json")
    assert (ended.status, ended.err) == (2, "")
    sound, missing, broken = entries(ended.out)
    assert (sound["id"], sound["problems"]) == ("textkit-wide-chars", [])
    assert missing["error"]["code"] == "contract-directory-missing"
    assert broken["problems"][0].keys() == {"code", "severity", "file", "line", "field", "message", "hint"}


@pytest.mark.parametrize("verb", [["check"], ["lock"], ["lock", "--check"], ["show"]])
@pytest.mark.parametrize("name", ["nowhere", "file", "file/below", "x" * 300, "loop"])
def test_what_is_not_a_directory_is_bad_usage(
    verb: list[str], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    ended = call(capsys, "contract", *verb, tmp_path / name)
    assert ended.status == 2
    assert "error[contract-directory-missing]" in ended.err
    assert "fix: name the directory that holds contract.toml" in ended.err


def test_a_directory_without_a_contract_is_invalid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "contract", "check", tmp_path)
    assert ended.status == 1
    assert "error[file-missing]" in ended.out


@pytest.mark.parametrize(
    "verb",
    [("contract", "check"), ("contract", "lock"), ("contract", "show"), ("run", "start", "--agent", "noop")],
)
def test_a_directory_of_contracts_says_how_to_name_them(
    verb: tuple[str, ...], usable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = usable.parent / "of all"
    (parent / "one").mkdir(parents=True)
    shutil.copy(usable / "contract.toml", parent / "one")
    ended = call(capsys, *verb, parent)
    assert ended.status == 2
    assert "expected a contract directory, found a directory of 1 contract(s)" in ended.err
    assert f"fix: name them one by one, or all: '{parent}'/*" in ended.err


def test_the_lock_of_an_example_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "contract", "lock", "--check", EXAMPLE).status == 0
    ended = call(capsys, "contract", "lock", "--check", EXAMPLE, "--json")
    assert [entry["problems"] for entry in entries(ended.out)] == [[]]


@pytest.mark.parametrize(
    ("problems", "what"), [((), "statement.md"), ((TITLE_LEFT,), "statement.md and the title")]
)
def test_what_comes_next_names_what_is_left_and_can_be_pasted(
    capsys: pytest.CaptureFixture[str], problems: tuple[Problem, ...], what: str
) -> None:
    created = CreatedContract(
        directory="my contracts/a",
        id="a",
        title="A",
        base_commit="1" * 40,
        files=(),
        guesses=(),
        problems=problems,
    )
    show_created(created)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"next: edit {what}, then `repotrial contract check 'my contracts/a'`"


def test_lock_writes_once_and_tells_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = MINIMAL.replace('kind = "git"\nsource = "repo.bundle"', 'kind = "directory"\nsource = "repo"')
    text = "\n".join(line for line in text.splitlines() if not line.startswith("commit"))
    place = write_contract(tmp_path / "mine", f"{text}{SAYS_ALL}", files={"repo/main.c": "int main;\n"})
    first = call(capsys, "contract", "lock", place)
    assert (first.status, first.err) == (0, "")
    assert first.out.startswith(f"written: {place}/contract.lock.json\n  version id  sha256:")
    assert call(capsys, "contract", "lock", place).out.startswith("unchanged: ")
    (place / "repo" / "main.c").write_text("int other;\n")
    assert call(capsys, "contract", "lock", place, "--check").status == 1
    again = call(capsys, "contract", "lock", place, "--json")
    (entry,) = entries(again.out)
    assert "repository.tree_digest" in {change["field"] for change in entry["changes"]}


def test_what_check_calls_invalid_is_not_locked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = write_contract(tmp_path / "my contract", f"{MINIMAL}{SAYS_ALL}", files={"statement.md": "# A\n"})
    ended = call(capsys, "contract", "lock", place)
    assert ended.status == 2
    assert "[empty-statement]" in ended.err
    assert f"fix: `repotrial contract check '{place}'` lists every problem" in ended.err
    assert not (place / "contract.lock.json").exists()


def test_a_requirements_file_without_hashes_is_refused_before_any_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{MINIMAL}{SAYS_ALL}".replace('"host"\n', '"host"\npython = { lock = "tests.lock" }\n')
    place = write_contract(tmp_path / "mine", text, files={"tests.lock": "# what tests need\npytest\n"})
    ended = call(capsys, "contract", "check", place)
    assert ended.status == 1
    expected = f"{place}/tests.lock:2: error[draft-python-lock] environment.python.lock: expected only lines"
    assert expected in ended.out
    assert call(capsys, "contract", "lock", place).status == 2


def test_lock_goes_on_after_a_contract_that_does_not_load(
    invalid: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "contract", "lock", "--check", invalid, EXAMPLE)
    assert ended.status == 2
    assert f"error[contract-invalid] {invalid}: expected a sound contract" in ended.err
    assert f"sound   {EXAMPLE}" in ended.out
    assert "2 contracts: 1 could not be looked at, 1 sound" in ended.out


def test_show_has_all_that_a_reader_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "contract", "show", EXAMPLE)
    assert (ended.status, ended.err) == (0, "")
    for word in (
        "textkit-wide-chars",
        "bug-fix",
        "## Observed",
        "sha256:",
        "mandatory",
        "$ python -m pytest",
    ):
        assert word in ended.out


def test_show_as_json_has_contract_statement_and_lock(capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(call(capsys, "contract", "show", EXAMPLE, "--json").out)
    assert shown.keys() == {"directory", "contract", "statement", "lock", "certificate"}
    assert shown["contract"]["id"] == shown["lock"]["id"] == "textkit-wide-chars"


@pytest.mark.parametrize("columns", ["1", "20", "40", "200"])
def test_show_fits_any_width(columns: str, capsys: pytest.CaptureFixture[str]) -> None:
    with surroundings(COLUMNS=columns):
        ended = call(capsys, "contract", "show", EXAMPLE)
    assert ended.status == 0
    assert max(map(len, ended.out.splitlines())) <= max(int(columns), 20)


def test_of_several_contracts_the_one_that_is_wrong_is_named(
    usable: Path, invalid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "run", "start", usable, invalid, "--agent", "noop", "--runs", tmp_path / "runs")
    assert ended.status == 2
    assert f"[contract-invalid] {invalid}: expected a sound contract" in ended.err
    assert not (tmp_path / "runs").exists()


def test_a_place_where_no_runs_can_be_kept_is_told_before_anything_is_prepared(
    usable: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("")
    assert call(capsys, "contract", "lock", usable).status == 0
    ended = call(capsys, "run", "start", usable, "--agent", "noop", "--runs", tmp_path / "taken")
    assert (ended.status, ended.out) == (2, "")
    assert f"[not-a-runs-directory] {tmp_path / 'taken'}: expected a directory for runs" in ended.err
    assert "--runs" in ended.err


def test_a_directory_that_cannot_be_written_to_is_told_before_anything_is_prepared(
    usable: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(capsys, "contract", "lock", usable).status == 0
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    ended = call(capsys, "run", "start", usable, "--agent", "noop", "--runs", tmp_path / "runs")
    assert (ended.status, ended.out) == (3, "")
    assert f"[runs-directory] {tmp_path / 'runs'}: expected a directory that can be written to" in ended.err


def test_what_models_may_cost_is_said_with_whose_limit_it_is() -> None:
    ceiling = Decimal("60.00")
    free = _describe_ceiling(ceiling, ModelChoice(upstream="script:x.toml"))
    bounded = _describe_ceiling(ceiling, ModelChoice(upstream="provider:openai", total_budget=Decimal(20)))
    loose = _describe_ceiling(ceiling, ModelChoice(upstream="provider:openai", total_budget=Decimal(90)))
    assert free.startswith("nothing for models")
    assert bounded == "at most 20.00 USD for models, by --total-budget (by the contracts' limits: 60.00)"
    assert loose == "at most 60.00 USD for models, by the contracts' limits"


def test_a_missing_table_is_asked_for_in_the_words_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / "contract.toml").write_text(
        'schema = "repotrial/contract@1"\nid = "x"\ntitle = "X"\nkind = "bug-fix"\n'
    )
    ended = call(capsys, "contract", "check", cut)
    assert ended.status == 1
    assert "fix: add a table [repository]" in ended.out
    assert "fix: add a table [[checks]]" in ended.out
