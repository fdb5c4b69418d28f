"""`agent list`, `check` and `install`, as a person calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repotrial.agents import list_adapters
from support.command_line import call

HOST = """\
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
argv = ["{program}", "{task}"]
"""
UNFIT = HOST.replace('name = "mine"', 'name = "unfit"').replace(
    'kind = "host"\nprogram', 'kind = "npm"\npackages = ["nothing@1.0.0"]\nnode = ">=999"\nprogram'
)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    directory = tmp_path / "agents"
    directory.mkdir()
    (directory / "mine.toml").write_text(HOST)
    (directory / "unfit.toml").write_text(UNFIT)
    return directory


def test_the_list_has_the_shipped_agents_and_the_users_own(
    tmp_path: Path, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--adapters", str(own), "--cache", str(tmp_path / "cache"))
    ended = call(capsys, "agent", "list", *where)
    header, *rows = ended.out.splitlines()
    assert (ended.status, header.split()) == (0, ["agent", "version", "dialect", "installed", "MB", "note"])
    names = sorted([*(loaded.adapter.name for loaded in list_adapters()), "mine", "unfit"])
    assert [row.split()[0] for row in rows] == names
    entries = {
        entry["name"]: entry for entry in json.loads(call(capsys, "agent", "list", *where, "--json").out)
    }
    assert entries["mine"]["is_installed"]
    assert not entries["codex"]["is_installed"]
    assert "expected >=999" in entries["unfit"]["problem"]


def test_an_agent_that_cannot_run_here_is_told_with_the_remedy(
    tmp_path: Path, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--adapters", str(own), "--cache", str(tmp_path / "cache"))
    ended = call(capsys, "agent", "check", "unfit", *where)
    assert ended.status == 3
    assert ended.out.startswith("unfit 1.0.0: cannot run here\n")
    assert "fix: install node >=999" in ended.out
    found = json.loads(call(capsys, "agent", "check", "unfit", *where, "--json").out)
    assert (found["can_run"], found["needs"][-1]["need"]) == (False, "runtime")


def test_one_agent_that_cannot_be_installed_does_not_cost_the_others(
    tmp_path: Path, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--adapters", str(own), "--cache", str(tmp_path / "cache"))
    ended = call(capsys, "agent", "install", "unfit", "mine", *where)
    assert ended.status == 3
    assert "unfit" in ended.err
    assert "[host-tools-unmet]" in ended.err
    assert ended.out.startswith("mine unknown")
    lines = call(capsys, "agent", "install", "unfit", "mine", *where, "--json").out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["unfit", "mine"]


def test_installing_nothing_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "agent", "install").status == 2


def test_an_unknown_agent_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "agent", "check", "nobody")
    assert ended.status == 2
    assert "[adapter-unknown]" in ended.err
