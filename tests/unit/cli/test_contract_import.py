"""`repotrial contract import` on files of several instances, of which some can become contracts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import Ended, call
from support.swebench import make_instance, write_jsonl


@pytest.fixture
def instances(tmp_path: Path) -> Path:
    row = make_instance(tmp_path / "repo")
    lost = {**row, "instance_id": "Example__Clamp-13", "base_commit": "1" * 40}
    broken = {**row, "instance_id": "Example__Clamp-14", "patch": row["patch"].replace("max(low", "min(low")}
    last = {**row, "instance_id": "Example__Clamp-15"}
    return write_jsonl(tmp_path / "instances.jsonl", lost, row, broken, last)


def import_all(capsys: pytest.CaptureFixture[str], instances: Path, *options: str) -> Ended:
    place = instances.parent
    words = ("contract", "import", instances, "--repo", place / "repo", "--out", place / "out", "--embed")
    return call(capsys, *words, *options)


def test_one_that_is_refused_does_not_keep_the_others_from_theirs(
    instances: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = import_all(capsys, instances)
    assert ended.status == 2
    assert ended.out.splitlines()[-1] == "4 instances: 2 refused, 2 written"
    written = sorted(path.name for path in (instances.parent / "out").iterdir())
    assert written == ["example-clamp-12", "example-clamp-15"]


def test_the_fix_fits_the_fault(instances: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = import_all(capsys, instances).err
    assert "error[commit-not-found] Example__Clamp-13: base_commit: expected '1111" in said
    assert "fix: name with --repo a repository of Example/Clamp" in said
    assert "error[swebench-instance-invalid] Example__Clamp-14: patch: expected a patch that applies" in said
    assert "fix: give patch as the data set has it" in said


def test_what_is_there_is_skipped_and_left_as_it_is(
    instances: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = instances.parent / "out" / "example-clamp-12"
    kept.mkdir(parents=True)
    (kept / "contract.toml").write_text("mine\n", encoding="utf-8")
    ended = import_all(capsys, instances, "--instance", "Example__Clamp-12")
    assert (ended.status, ended.out) == (0, "")
    assert ended.err == f"note: Example__Clamp-12: skipped, there is a contract in {kept}\n"
    entries = json.loads(import_all(capsys, instances, "--json").out)
    assert [set(entry) & {"error", "skipped", "id"} for entry in entries] == [
        {"error"},
        {"skipped"},
        {"error"},
        {"id"},
    ]
    assert (kept / "contract.toml").read_text(encoding="utf-8") == "mine\n"


def test_a_directory_of_something_else_is_refused(
    instances: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = instances.parent / "out" / "example-clamp-12"
    other.mkdir(parents=True)
    (other / "notes.txt").write_text("mine\n", encoding="utf-8")
    ended = import_all(capsys, instances, "--instance", "Example__Clamp-12")
    assert ended.status == 2
    assert "error[contract-directory-taken]" in ended.err
