"""Runs from Python: lazy, typed, the same rows as the CSV; and why a run ended, on one screen."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import repotrial
from repotrial import api
from repotrial.signing import SigningKey
from support.caps import find_unlabeled_caps
from support.command_line import call
from support.errors import raises_code
from support.hostile import ATTACKS
from support.score_runs import FAILED, ScoreRun, write_run

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "use-from-python.md"
GOLDEN = Path(__file__).parents[2] / "data" / "golden-runs"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    key = SigningKey.load(tmp_path / "key.pem")
    write_run(tmp_path / "runs" / "bad", {"unit": FAILED}, run_id="bad", key=key)
    write_run(tmp_path / "runs" / "good", run_id="good", replicate=1, key=key)
    return tmp_path / "runs"


def test_the_lines_of_the_page_do_what_they_say(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(runs.parent)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    exec("\n".join(blocks), {})
    said = capsys.readouterr().out
    assert said.startswith("2 runs\nfailure ")
    assert "G3 failed" in said
    assert "of 2 solved" in said


def test_rows_are_those_of_the_csv(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    api.build_report([runs], api.ReportRequest(out=out, form="csv"))
    written = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    rows = repotrial.open_runs(runs).rows()
    shown = [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]
    by_name = {row["run_id"]: row for row in written}
    assert [by_name[row["run_id"]] for row in shown] == shown


def test_nothing_is_read_until_it_is_asked_for(runs: Path) -> None:
    opened = repotrial.open_runs(runs)
    (runs / "bad" / "trace.jsonl").unlink()
    assert [record.directory.name for record in opened[:1]] == ["bad"]
    assert opened[1].status == "success"
    assert opened[0].status == "invalid"
    with raises_code("run-directory-missing"):
        repotrial.open_runs(runs / "gone")


def test_importing_the_package_loads_nothing_else() -> None:
    heavy = "('repotrial.', 'numpy', 'msgspec')"
    code = f"import repotrial, sys; print([n for n in sys.modules if n.startswith({heavy})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_why_names_the_gate_the_tests_and_the_event(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = call(capsys, "run", "why", runs / "bad").out
    assert said.startswith("failure  wide-chars  script\n")
    assert re.search(r"^G3 failed .*event \d+$", said, re.MULTILINE)
    assert "test_a, test_b" in said
    assert re.search(r"^cause +finished", said, re.MULTILINE)
    assert said.count("\n") <= 24
    built = json.loads(call(capsys, "run", "why", runs / "good", "--json").out)
    assert built["reasons"][0] == {"word": "gates", "text": "all four passed", "seq": None}


@pytest.mark.parametrize("attack", ATTACKS)
def test_why_fits_a_screen_whatever_the_agent_says(
    attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ScoreRun(tmp_path / "run")
    run.end_acting(rationale=ATTACKS[attack] * 5000, category="circuit-breaker", code="cost-cap")
    said = call(capsys, "run", "why", run.finish()).out
    assert said.count("\n") <= 24
    assert all(character.isprintable() or character == "\n" for character in said)


def test_every_output_that_names_a_cap_calls_it_a_policy_choice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capped = GOLDEN / "tool-call-cap"
    said = call(capsys, "run", "why", capped).out
    assert "cap" in said
    assert all(
        "policy choice" in line
        for line in said.splitlines()
        if re.search(r"\bcap\b", line) and "/" not in line
    )
    runs = tmp_path / "runs"
    for name in ("tool-call-cap", "quiet-success"):
        shutil.copytree(GOLDEN / name, runs / name)
    for words in (
        ("show", capped),
        ("list", runs),
        ("summary", runs, "--pool-versions"),
        ("compare", "--force", capped, GOLDEN / "quiet-success"),
    ):
        said = call(capsys, "run", *words).out
        assert "policy choice" in said, words
        if words[0] != "show":
            continue
        named = [line for line in said.splitlines() if re.search(r"-cap\b|\brun-limit\b", line)]
        assert len(named) > 2
        assert all("policy choice" in line for line in named)
    for form in ("html", "md"):
        out = tmp_path / f"page.{form}"
        api.build_report([capped], api.ReportRequest(out=out, form=form))
        lines = [line for line in out.read_text(encoding="utf-8").splitlines() if "-cap:" in line]
        assert lines
        assert all("policy choice" in line for line in lines)
        assert find_unlabeled_caps(out.read_text(encoding="utf-8")) == []
