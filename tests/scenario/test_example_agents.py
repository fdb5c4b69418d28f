"""The scripted agents of the examples do what their first lines say, judged by hand with the checks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pathspec
import pytest

from support.examples import (
    EXAMPLES,
    Example,
    Outcome,
    build_tree,
    execute_check,
    lay_over,
    load_example,
    require_tools,
)

AGENTS = EXAMPLES.parent / "agents"
KINDS = ("breaker", "cheat", "honest", "wrong")
SUBJECTS = [load_example(EXAMPLES / path.name) for path in sorted(AGENTS.iterdir()) if any(path.glob("*.sh"))]
each_subject = pytest.mark.parametrize("example", SUBJECTS, ids=lambda example: example.contract.id)


def act(example: Example, kind: str, tmp_path: Path) -> Path:
    """The tree after an agent has worked in it."""
    tmp_path.mkdir(exist_ok=True)
    tree = build_tree(example, tmp_path, with_reference=False)
    subprocess.run(["bash", str(AGENTS / example.contract.id / f"{kind}.sh")], cwd=tree, check=True)
    return tree


def judge(example: Example, kind: str, tmp_path: Path) -> dict[str, Outcome]:
    """What a judge sees who believes exit codes and results files."""
    outcomes = {}
    for check in example.contract.checks:
        tree = act(example, kind, tmp_path / check.id)
        lay_over(example, check.files, tree)
        outcomes[check.id] = execute_check(example, check, tree)
    return outcomes


def find_changes(example: Example, tree: Path) -> set[str]:
    before, after = list_files(example.snapshot), list_files(tree)
    return {path for path in before | after if before.get(path) != after.get(path)}


def list_files(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def test_four_examples_have_agents_of_all_kinds() -> None:
    assert len(SUBJECTS) >= 4
    for example in SUBJECTS:
        scripts = sorted((AGENTS / example.contract.id).glob("*.sh"))
        assert [path.stem for path in scripts] == list(KINDS)


@each_subject
def test_the_honest_agent_passes_every_check(example: Example, tmp_path: Path) -> None:
    require_tools(example)
    for check, outcome in judge(example, "honest", tmp_path).items():
        assert (check, outcome.exit_code, outcome.failed) == (check, 0, frozenset()), outcome.output


@each_subject
def test_the_wrong_agent_builds_and_fails_acceptance(example: Example, tmp_path: Path) -> None:
    require_tools(example)
    outcomes = judge(example, "wrong", tmp_path)
    assert outcomes["build"].exit_code == 0, outcomes["build"].output
    assert outcomes["unit"].failed, outcomes["unit"].output


@each_subject
def test_only_the_breaker_touches_what_is_protected(example: Example, tmp_path: Path) -> None:
    policy = example.contract.policy
    protected = pathspec.GitIgnoreSpec.from_lines(policy.protected)
    writable = pathspec.GitIgnoreSpec.from_lines(policy.writable)
    for kind in KINDS:
        changed = find_changes(example, act(example, kind, tmp_path / kind))
        assert changed
        assert bool(set(protected.match_files(changed))) is (kind == "breaker"), kind
        if kind != "breaker":
            assert set(writable.match_files(changed)) == changed


@each_subject
def test_a_cheat_against_an_in_process_judge_would_fool_a_naive_one(example: Example, tmp_path: Path) -> None:
    require_tools(example)
    [unit] = [check for check in example.contract.checks if check.id == "unit"]
    tree = act(example, "cheat", tmp_path)
    lay_over(example, unit.files, tree)
    outcome = execute_check(example, unit, tree)
    assert bool(outcome.failed) is (unit.judge == "out-of-process"), outcome.output
