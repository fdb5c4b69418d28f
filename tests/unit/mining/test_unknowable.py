"""Demands that only the reference knows, on a set of tasks that were written and labeled for it."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pytest

from repotrial.contract import load_contract
from repotrial.mining import check_unknowable

_TASKS = Path(__file__).parents[2] / "data" / "unknowable.jsonl"
_CONTRACT = """\
schema = "repotrial/contract@1"
id = "shop"
title = "A change of the shop"
kind = "bug-fix"
reference = "reference.patch"

[repository]
kind = "directory"
source = "repo"

[environment]
image = "host"

[[checks]]
id = "tests"
gate = "acceptance"
run = "true"
baseline = "fail"
files = [{ from = "checks", to = "." }]
"""


def _load_tasks() -> list[dict[str, str]]:
    return [json.loads(line) for line in _TASKS.read_text("utf-8").splitlines()]


def _is_flagged(place: Path, task: dict[str, str], *, more: str = "") -> bool:
    before, after = (task[name].splitlines(keepends=True) for name in ("before", "after"))
    patch = "".join(difflib.unified_diff(before, after, "a/shop.py", "b/shop.py"))
    files = {
        "contract.toml": _CONTRACT + more,
        "statement.md": task["statement"] + "\n",
        "reference.patch": f"diff --git a/shop.py b/shop.py\n{patch}",
        "repo/shop.py": task["before"],
        "checks/tests/test_shop.py": task["test"],
    }
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text, "utf-8")
    found = check_unknowable(load_contract(place))
    assert all(problem.severity == "warning" for problem in found)
    return bool(found)


def test_at_least_four_of_five_findings_are_right_and_most_demands_are_found(tmp_path: Path) -> None:
    tasks = _load_tasks()
    flagged = [_is_flagged(tmp_path / str(number), task) for number, task in enumerate(tasks)]
    labels = [task["label"] == "unknowable" for task in tasks]
    right = sum(found and label for found, label in zip(flagged, labels, strict=True))
    assert len(tasks) >= 60
    assert right >= 0.8 * sum(flagged)
    assert right >= 0.8 * sum(labels)


@pytest.mark.parametrize("field", ["entry_points", "behavior"])
def test_what_the_author_clarifies_is_known(tmp_path: Path, field: str) -> None:
    task = next(task for task in _load_tasks() if "round_half_up" in task["test"])
    assert _is_flagged(tmp_path / "one", task)
    assert not _is_flagged(tmp_path / "two", task, more=f'\n[clarify]\n{field} = ["shop.round_half_up(x)"]\n')
