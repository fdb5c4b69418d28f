"""`sandbox probe`, `doctor --fix` and `cache`, as a person calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repotrial._core.digest import digest_bytes
from repotrial.environment import Store, StoreKind
from repotrial.environment._store import Facts
from repotrial.machine._probe_suite._attempts import ATTEMPTS
from support.command_line import call
from support.harness import require_sandboxes


def test_the_probe_prints_a_table_and_ends_well_where_everything_held(
    capsys: pytest.CaptureFixture[str],
) -> None:
    require_sandboxes()
    ended = call(capsys, "sandbox", "probe")
    assert ended.status == 0
    heading, *rows, summary = ended.out.splitlines()
    assert heading.split() == ["attempt", "expected", "found", "verdict"]
    assert len(rows) == len(ATTEMPTS)
    assert all(row.endswith("held") for row in rows)
    assert summary.startswith("L3,")
    assert summary.endswith(f"{len(ATTEMPTS)} of {len(ATTEMPTS)} attempts held")


def test_the_probe_answers_programs_too(capsys: pytest.CaptureFixture[str]) -> None:
    require_sandboxes()
    ended = call(capsys, "sandbox", "probe", "--level", "L2", "--json")
    report = json.loads(ended.out)
    assert (ended.status, report["level"]) == (0, "L2")
    assert {result["verdict"] for result in report["results"]} == {"held"}


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_a_retired_level_is_refused_with_the_next_one(capsys: pytest.CaptureFixture[str], level: str) -> None:
    ended = call(capsys, "sandbox", "probe", "--level", level)
    assert ended.status == 2
    assert "Use L2" in ended.err


def test_a_machine_on_which_nothing_is_missing_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    require_sandboxes()
    ended = call(capsys, "doctor", "--fix", "--json")
    done = json.loads(ended.out)
    assert ended.status == 0
    assert [(action["what"], action["outcome"]) for action in done["actions"]] == [("bubblewrap", "present")]
    assert done["report"]["best"] == "L3"
    assert call(capsys, "doctor", "--fix").out.startswith("bubblewrap present\n")


def fill(tree: Path, _lock: int) -> Facts:
    (tree / "file").write_text("x")
    return {}


def test_environments_are_in_the_cache_like_workspaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = digest_bytes(b"key")
    Store(tmp_path / "store").make(StoreKind.PYTHON, key, fill)
    listed = call(capsys, "cache", "list", "--cache", str(tmp_path)).out
    assert "python" in listed
    assert key in listed
    removed = json.loads(call(capsys, "cache", "prune", "--cache", str(tmp_path), "--json").out)
    assert [(item["kind"], item["key"]) for item in removed] == [("python", key)]
    assert json.loads(call(capsys, "cache", "list", "--cache", str(tmp_path), "--json").out) == []
