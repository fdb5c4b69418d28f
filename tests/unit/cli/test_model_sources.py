"""Who answered for a model stands beside every model and cost, and labels stay short."""

from __future__ import annotations

import json
import re
import shlex
from functools import partial
from pathlib import Path
from unittest import mock

import msgspec
import pytest

from repotrial import api
from repotrial._core.display import shorten_digests
from repotrial.cli._output import Screen
from repotrial.cli._progress import Tally
from repotrial.contract import AgentSpec
from repotrial.report import build_run_page
from repotrial.score import describe_model_source
from repotrial.trace import RunFacts, Signal
from support import score_runs
from support.command_line import call
from support.pages import read_page, read_report
from support.run_directories import build_facts
from support.score_runs import PASSED, ScoreRun

ONE, OTHER = f"script sha256:{'0a' * 32}", f"script sha256:{'b1' * 32}"
PROVIDER = "provider https://api.openai.com"


def build_facts_of(agent: str, run_id: str) -> RunFacts:
    facts = build_facts(run_id)
    worker = msgspec.structs.replace(facts.agent, name=agent, version="0.73.1", model="gpt-5.4")
    return msgspec.structs.replace(facts, agent=worker)


def write(root: Path, *, agent: str = "pi", upstream: str | None = ONE) -> Path:
    with mock.patch.object(score_runs, "build_facts", partial(build_facts_of, agent)):
        run = ScoreRun(root, run_id=root.name)
    configuration = AgentSpec(
        name=agent,
        version="0.73.1",
        model="gpt-5.4",
        adapter_digest=f"sha256:{'cc' * 32}",
        parameters={} if upstream is None else {"upstream": upstream},
    )
    run.spec = msgspec.structs.replace(run.spec, agent=configuration)
    run.end_acting(signals=(Signal(name="cost_usd", value="0.0298375"), Signal(name="tokens", value=11330)))
    run.apply()
    for check in run.contract.checks:
        run.check(check, PASSED)
    return run.finish()


@pytest.mark.parametrize(
    ("upstream", "words", "is_notional"),
    [
        (PROVIDER, PROVIDER, False),
        (ONE, "script 0a0a0a0a", True),
        (f"recording of {OTHER}", "recording of script b1b1b1b1", True),
        (f"recording of {PROVIDER}", f"recording of {PROVIDER}", True),
    ],
)
def test_only_a_provider_is_paid(upstream: str, words: str, *, is_notional: bool) -> None:
    found = describe_model_source(upstream)
    assert (found.words, found.is_notional) == (words, is_notional)


def test_only_whole_digests_are_shortened() -> None:
    assert shorten_digests("sha256:abc, sha256 of it") == "sha256:abc, sha256 of it"


def test_a_run_page_and_the_verdict_name_the_script_and_a_cost_that_nobody_paid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(tmp_path / "run")
    page = read_page(build_run_page(run)).text
    assert "Model gpt-5.4 Answered by script 0a0a0a0a" in page
    assert "Cost 0.0298 USD (notional: a script answered, nobody was paid), 11,330 tokens" in page
    assert ONE in page, "the whole digest is among the others"
    shown = call(capsys, "run", "show", run, "--verdict").out
    assert "model gpt-5.4, answered by script 0a0a0a0a; cost 0.0298 USD (notional: a script" in shown


def test_a_provider_is_named_and_its_cost_is_plain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(tmp_path / "run", upstream=PROVIDER)
    assert f"Answered by {PROVIDER}" in read_page(build_run_page(run)).text
    for words in (["show", "--verdict"], ["cost"], ["summary"]):
        said = call(capsys, "run", words[0], run, *words[1:]).out
        assert PROVIDER in said
        assert "notional" not in said


def test_a_run_without_a_model_says_nothing_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(tmp_path / "run", upstream=None)
    assert "Answered by" not in build_run_page(run)
    assert "answered by" not in call(capsys, "run", "show", run, "--verdict").out


def test_costs_of_scripts_are_notional(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write(tmp_path / "runs" / "one")
    alone = call(capsys, "run", "cost", run).out
    assert "answered by script 0a0a0a0a" in alone
    assert "models: notional, nobody was paid" in alone
    write(tmp_path / "runs" / "two", upstream=PROVIDER)
    table = call(capsys, "run", "cost", tmp_path / "runs").out
    assert "models: notional in 1 of 2 runs" in table
    (first, second) = json.loads(call(capsys, "run", "cost", tmp_path / "runs", "--json").out)
    assert (first["upstream"], first["is_notional"]) == (ONE, True)
    assert (second["upstream"], second["is_notional"]) == (PROVIDER, False)


def test_a_summary_and_its_page_name_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "runs" / "one")
    page = tmp_path / "page.html"
    said = call(capsys, "run", "summary", tmp_path / "runs", "--page", page).out
    for text in (said, read_report(page.read_text(encoding="utf-8")).text):
        assert "script 0a0a0a0a (cost notional)" in text
        assert "in the runs of pi a script or a recording answered for the model" in text
    whole = json.loads(call(capsys, "run", "summary", tmp_path / "runs", "--json").out)
    assert whole["agents"][0]["upstream"] == ONE


@pytest.fixture
def study(tmp_path: Path) -> Path:
    runs = tmp_path / "runs"
    write(runs / "a", upstream=ONE)
    write(runs / "b", upstream=OTHER)
    write(runs / "c", agent="goose")
    return runs


def test_labels_of_agents_are_short_for_people_and_whole_for_programs(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    said = call(capsys, "run", "summary", study, "--page", page)
    assert "sha256:" not in said.out
    for text in (said.out, page.read_text(encoding="utf-8")):
        assert "pi@0.73.1/gpt-5.4/script 0a0a0a0a" in text
        assert not re.search(r"script sha256:|0a0a0a0a0|b1b1b1b1b", text)
    whole = json.loads(call(capsys, "run", "summary", study, "--json").out)
    assert whole["agents"][1]["agent"] == f"pi@0.73.1/gpt-5.4/{ONE}"


def test_a_list_of_runs_tells_the_same_agents_apart_and_takes_their_names(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = call(capsys, "run", "list", study).out
    names = ("goose", "pi@0.73.1/gpt-5.4/script 0a0a0a0a", "pi@0.73.1/gpt-5.4/script b1b1b1b1")
    for name in names:
        assert said.count(f"  {name}  ") == 1
        assert call(capsys, "run", "list", study, "--agent", name).out.endswith("\n1 run\n")
    assert call(capsys, "run", "list", study, "--agent", "pi").out.endswith("\n2 runs\n")


def test_the_runs_of_a_command_are_listed_as_planned_and_tell_agents_apart(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = api.list_runs(study, api.RunFilter())
    tally = Tally(["a", "b", "c"])
    for run_id, entry in reversed(list(zip("abc", entries, strict=True))):
        tally.count(api.RunScored(run_id=run_id, entry=entry))
    tally.report(Screen(), study, is_stopped=False, json=False)
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split("  ")[1] for row in rows[:3]] == [
        "pi@0.73.1/gpt-5.4/script 0a0a0a0a",
        "pi@0.73.1/gpt-5.4/script b1b1b1b1",
        "goose",
    ]


def test_what_to_do_about_runs_that_could_not_be_conducted_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = Tally()
    for run_id in ("one", "two"):
        tally.count(
            api.RunNotConducted(run_id=run_id, fault="run-under-way: another does", hint="wait for it")
        )
    tally.count(api.RunNotConducted(run_id="three", fault="harness-exception: X: y"))
    tally.report(Screen(), tmp_path, is_stopped=False, json=False)
    assert capsys.readouterr().out == (
        "0 runs: no verdict\n3 runs could not be conducted\n  fix: wait for it\n"
    )


def test_all_tables_of_a_summary_tell_the_same_agents_apart(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who answered makes another agent: its runs are not pooled further down."""
    whole = json.loads(call(capsys, "run", "summary", study, "--json").out)
    names = [found["agent"] for found in whole["agents"]]
    assert len(names) == 3
    for table in ("by_version", "by_agent"):
        assert [row["agent_label"] for row in whole["aggregate"][table]] == names
        assert {row["attempted"] for row in whole["aggregate"][table]} == {1}
    said = call(capsys, "run", "summary", study).out
    for name in ("goose", "pi@0.73.1/gpt-5.4/script 0a0a0a0a", "pi@0.73.1/gpt-5.4/script b1b1b1b1"):
        below = said.partition("by contract version")[2]
        assert sum(f"  {name}  " in line for line in below.splitlines()) == 1


def test_an_agent_that_nobody_is_gets_the_names_of_those_that_are_there(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "run", "summary", study, "--agent", "nope")
    assert ended.status == 2
    assert "of the agents: goose, pi; on the contracts: wide-chars@" in ended.err
    assert "fix: name one of these with --agent or --contract" in ended.err


@pytest.mark.parametrize("name", ["pi@0.73.1/gpt-5.4/script b", f"pi@0.73.1/gpt-5.4/{OTHER}"])
def test_agents_are_compared_by_as_much_of_their_names_as_tells_them_apart(
    name: str, study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "run", "summary", study, "--compare", f"{name},goo")
    assert ended.status == 0
    assert "pi@0.73.1/gpt-5.4/script b1b1b1b1 less goose" in ended.out


def test_a_name_that_several_agents_begin_with_lists_them_shortened(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "run", "summary", study, "--compare", "pi,goose")
    assert ended.status == 2
    assert "'pi' may be any of: pi@0.73.1/gpt-5.4/script 0a0a0a0a, pi@0.73.1" in ended.err
    assert "goose" not in ended.err
    nobody = call(capsys, "run", "summary", study, "--compare", "nobody,goose")
    assert "error[agent-unknown] expected one of: goose, pi@" in nobody.err
    assert "sha256" not in ended.err + nobody.err


def test_a_whole_name_goes_before_a_beginning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "runs" / "a")
    write(tmp_path / "runs" / "b", agent="pi-other")
    ended = call(capsys, "run", "summary", tmp_path / "runs", "--compare", "pi,pi-")
    assert "pi less pi-other" in ended.out


def test_one_contract_is_one_contract(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "run", "summary", study, "--compare", "pi@0.73.1/gpt-5.4/script b,goose")
    assert "over 1 contract that both have" in ended.out


def test_the_next_command_can_be_copied_into_a_shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "Prüf ordner"
    tally = Tally()
    (entry,) = api.list_runs(write(runs / "one"), api.RunFilter())
    tally.count(api.RunScored(run_id="run-1", entry=entry))
    tally.report(Screen(), runs, is_stopped=False, json=False)
    hint = capsys.readouterr().out.splitlines()[-1]
    assert shlex.split(hint) == ["next:", "repotrial", "run", "summary", str(runs)]
