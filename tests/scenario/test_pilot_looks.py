"""Looks at a pilot that is under way: refused, or asked for, paid for and on record."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from repotrial import api
from repotrial.stats import plan_looks
from support.pages import read_report
from support.pilots import build_machine, write_pilot

_TASKS = 3
_ARMS = 5  # one more task is complete; stage 2 left two


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stopped in stage 3 with three of eight tasks complete, no registered moment; `early` is from before."""
    place = tmp_path_factory.mktemp("looks")
    directory = write_pilot(place, smallest_effect="0.9", least_tasks="4")
    file = directory / "pilot.toml"
    file.write_text(file.read_text("utf-8").replace("# contrast = ", "contrast = ", 1), "utf-8")
    machine = build_machine(place)
    key = place / "config" / "repotrial" / "seal-key.pem"
    api.plan_pilot(directory, machine)
    api.freeze_pilot(directory, machine, key_file=key, conducting=[], reason=None, removed={})
    _run(directory, until=2)
    shutil.copytree(directory.parent, place / "early")
    _run(directory, until=3, most=_ARMS)
    return directory


def _run(directory: Path, *, until: int, most: int | None = None) -> None:
    place, stopper, count = directory.parents[1], api.Stopper(), 0
    key = place / "config" / "repotrial" / "seal-key.pem"
    for event in api.run_pilot(
        directory, build_machine(place), key_file=key, stopper=stopper, jobs=1, until=until
    ):
        count += isinstance(event, api.RunEnded)
        if count == most:
            stopper.stop()


@pytest.fixture
def copy(paused: Path, tmp_path: Path) -> Path:
    shutil.copytree(paused.parents[1], tmp_path, dirs_exist_ok=True)
    return tmp_path / "example" / paused.name


def _call(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    place = directory.parents[1]
    variables = {**os.environ, "XDG_CONFIG_HOME": str(place / "config"), "COLUMNS": "400"}
    command = [sys.executable, "-m", "repotrial", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables, cwd=place)


def _journal(directory: Path, kind: str) -> list[dict[str, str]]:
    lines = (directory / "journal.jsonl").read_bytes().splitlines()
    entries = [msgspec.json.decode(line) for line in lines]
    return [entry["data"] for entry in entries if entry["kind"] == kind]


def _list_commands(directory: Path) -> dict[str, list[str]]:
    runs = str(directory / "runs")
    return {
        "list": ["run", "list", runs],
        "summary": ["run", "summary", runs],
        "report": ["report", "build", runs, "--out", "report.html"],
        "analyze": ["pilot", "analyze", str(directory)],
    }


@pytest.mark.parametrize("name", ["list", "summary", "report", "analyze"])
def test_peeking_without_look_shows_progress_and_causes_only(paused: Path, name: str) -> None:
    done = _call(paused, *_list_commands(paused)[name])
    assert done.returncode == 2
    assert ("error[pilot-unfinished]" if name == "analyze" else "error[peek-refused]") in done.stderr
    assert "stage 2: 40 of 40 runs are in" in done.stderr
    assert "stage 3: 5 of 30 runs are in" in done.stderr
    shown = done.stdout + done.stderr
    assert not any(word in shown for word in ("strong", "weak", "%", "success"))
    assert not (paused.parents[1] / "report.html").exists()


def test_a_report_of_a_pilot_under_way_is_its_plan_and_tells_of_no_arm(copy: Path) -> None:
    done = _call(copy, "report", "build", str(copy), "--out", "plan.html")
    assert done.returncode == 0, done.stderr
    page = read_report((copy.parents[1] / "plan.html").read_text("utf-8"))
    assert "stage 3: 5 of 30 runs are in" in page.text
    assert "This page has no outcome of any arm" in page.text
    assert {"p1-power", "p1-projection", "p1-weight", "p1-registrations"} <= set(page.ids)
    assert not any(word in page.text for word in ("strong", "weak", "success rate"))
    assert _journal(copy, "deviation") == [], "nothing was looked at"


def test_peeking_through_links_is_refused(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for run in (copy / "runs").iterdir():
        (tmp_path / "mine" / run.name).symlink_to(run)
    done = _call(copy, "run", "summary", str(tmp_path / "mine"))
    assert "error[peek-refused]" in done.stderr


def test_peeking_run_by_run_into_one_report_is_refused(copy: Path) -> None:
    runs = [str(path) for path in sorted((copy / "runs").iterdir()) if (path / "seal.json").is_file()]
    assert "error[peek-refused]" in _call(copy, "report", "build", *runs[:6], "--out", "report.html").stderr


def test_a_single_run_stays_readable(copy: Path) -> None:
    run = next(path for path in sorted((copy / "runs").iterdir()) if (path / "seal.json").is_file())
    assert _call(copy, "report", "build", str(run), "--out", "one.html").returncode == 0
    assert _journal(copy, "deviation") == []


@pytest.mark.parametrize("name", ["list", "summary", "report", "analyze"])
def test_a_look_before_stage_3_is_refused(paused: Path, name: str) -> None:
    early = paused.parents[1] / "early" / paused.name
    before = (early / "journal.jsonl").read_bytes()
    done = _call(early, *_list_commands(early)[name], "--look")
    assert done.returncode == 2
    assert "error[look-refused]" in done.stderr
    assert "found no stage 3 yet" in done.stderr
    assert (early / "journal.jsonl").read_bytes() == before


def test_a_look_with_a_key_that_is_not_registered_is_refused(copy: Path) -> None:
    (copy.parents[1] / "config" / "repotrial" / "seal-key.pem").unlink()
    done = _call(copy, "run", "summary", str(copy / "runs"), "--look")
    assert "error[key-not-registered]" in done.stderr


def test_an_unregistered_look_spends_alpha_and_is_a_deviation(copy: Path) -> None:
    commands = _list_commands(copy)
    listed = _call(copy, *commands["list"], "--look", "--json")
    assert listed.returncode == 0, listed.stderr
    entries = msgspec.json.decode(listed.stdout)
    # Complete tasks only: three tasks, five arms, two runs of each.
    assert (len(entries), len({entry["contract"] for entry in entries})) == (30, _TASKS)
    (look,) = _journal(copy, "look")
    assert (look["fraction"], look["asked"]) == ("0.375", "yes")
    assert 0 < float(look["spent"]) < 0.05
    (deviation,) = _journal(copy, "deviation")
    assert "asked for at 3 of 8 complete tasks, a moment that is not registered" in deviation["message"]
    for name in ("summary", "report"):
        done = _call(copy, *commands[name], "--look")
        assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(_call(copy, *commands["analyze"], "--look", "--json").stdout)
    # The same information is paid once.
    assert len(_journal(copy, "look")) == len(_journal(copy, "deviation")) == 1
    assert found["decision"] == "nothing is decided: under way: a look at 3 of 8 complete tasks"
    assert found["tasks"] == _TASKS
    assert deviation["message"] in found["pilot"]["deviations"]
    assert api.show_pilot(copy, build_machine(copy.parents[1])).findings == ()


def test_registered_looks_are_held_after_one_that_was_asked_for_and_the_analysis_pays_for_all(
    copy: Path,
) -> None:
    asked = _call(copy, "run", "summary", str(copy / "runs"), "--look")
    assert asked.returncode == 0, asked.stderr
    _run(copy, until=3)
    looks = _journal(copy, "look")
    assert [float(look["fraction"]) for look in looks] == [0.375, 0.5, 0.75, 1.0]
    alone = [look.level for look in plan_looks([0.5, 0.75, 1.0], alpha=0.05)]
    together = [look.level for look in plan_looks([0.375, 0.5, 0.75, 1.0], alpha=0.05)][1:]
    held = [float(look["level"]) for look in looks[1:]]
    assert held == pytest.approx(together)
    assert all(one < other for one, other in zip(held, alone, strict=True))
    found = msgspec.json.decode(_call(copy, *_list_commands(copy)["analyze"], "--json").stdout)
    assert any("not registered" in one for one in found["pilot"]["deviations"])
