"""Relatives of SWE-bench: each form becomes the same instance, and what is none of them is named."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.errors import RepoTrialError
from repotrial.authoring import (
    CreatedContract,
    SwebenchContract,
    create_contract_from_swebench,
    find_checkout,
    load_swebench_instances,
)
from repotrial.contract import load_contract
from support.errors import raises_code
from support.repositories import Files
from support.swebench import make_instance, write_jsonl

_TASK_YAML = """\
base_commit: {base_commit}
created_at: '2022-03-03T15:14:54Z'
datasets:
- Example/Set
image: example/eval.clamp:latest
instance_id: {instance_id}
repo: {repo}
version: '1.2'
"""


def _write_task(directory: Path, row: dict[str, Any]) -> Path:
    lists = {name: row[name] for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    files = {
        "task.yaml": _TASK_YAML.format(**row),
        "tests.json": json.dumps(
            {name: json.loads(value) if isinstance(value, str) else value for name, value in lists.items()}
        ),
        "gold.patch": row["patch"],
        "test.patch": row["test_patch"],
        "problem_statement.md": row["problem_statement"],
    }
    directory.mkdir(parents=True)
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8", newline="")
    return directory


def _create(tmp_path: Path, file: Path) -> CreatedContract:
    (instance,) = load_swebench_instances(file)
    return create_contract_from_swebench(
        SwebenchContract(
            instance=instance,
            source=str(tmp_path / "repo"),
            directory=tmp_path / "contract",
            is_embedded=True,
        )
    )


@pytest.mark.parametrize("below", [".", "one", "tasks/one"])
def test_task_directory_is_the_same_instance_as_its_row(tmp_path: Path, below: str) -> None:
    row = make_instance(tmp_path / "repo")
    _write_task(tmp_path / "set" / below, row)
    (instance,) = load_swebench_instances(tmp_path / "set")
    (expected,) = load_swebench_instances(write_jsonl(tmp_path / "rows.jsonl", row))
    assert instance.list_failing() == expected.list_failing()
    assert (instance.patch, instance.repo) == (expected.patch, expected.repo)
    assert instance.version == "1.2"


def test_image_column_is_named_and_never_ignored(tmp_path: Path) -> None:
    _write_task(tmp_path / "task", make_instance(tmp_path / "repo"))
    created = _create(tmp_path, tmp_path / "task")
    (problem,) = [problem for problem in created.problems if problem.code == "draft-image-unused"]
    assert "example/eval.clamp:latest" in problem.message
    assert "skopeo copy --preserve-digests docker://example/eval.clamp:latest" in problem.hint


def test_skipped_and_absent_tests_of_multi_swe_bench_count_as_turning(tmp_path: Path) -> None:
    row = make_instance(tmp_path / "repo")
    ran = {"run": "NONE", "test": "FAIL", "fix": "PASS"}
    multi = {
        "org": "Example",
        "repo": "Clamp",
        "number": 12,
        "base": {"label": "x", "ref": "main", "sha": row["base_commit"]},
        "title": "a title",
        "body": "a body",
        "resolved_issues": [{"number": 3, "title": "Values stay", "body": "Expected 9 for 30."}],
        "fix_patch": row["patch"],
        "test_patch": row["test_patch"],
        "f2p_tests": {"tests/test_clamp.py::TestHigh::test_integer": ran},
        "s2p_tests": {"tests/test_clamp.py::TestHigh::test_float[above::it]": ran},
        "n2p_tests": {"tests/test_clamp.py::TestHigh::test_float[below it]": ran},
        "p2p_tests": {"tests/test_clamp.py::test_low": ran},
    }
    created = _create(tmp_path, write_jsonl(tmp_path / "rows.jsonl", multi))
    assert created.id == "example-clamp-12"
    loaded = load_contract(tmp_path / "contract")
    assert loaded.statement.startswith("# Values stay")
    (inventory,) = loaded.inventories.values()
    assert len(inventory.fail_to_pass) == 3
    assert inventory.pass_to_pass == ("tests.test_clamp::test_low",)


def test_interface_of_swe_rebench_is_part_of_the_statement(tmp_path: Path) -> None:
    row = make_instance(
        tmp_path / "repo", interface="Function: clamp(value, low, high)", created_at=1_700_000_000_000
    )
    _create(tmp_path, write_jsonl(tmp_path / "rows.jsonl", row))
    statement = load_contract(tmp_path / "contract").statement
    assert "## Interface\n\nFunction: clamp(value, low, high)" in statement


def test_lists_of_swe_bench_pro_are_read_as_literals_and_not_evaluated(tmp_path: Path) -> None:
    row = make_instance(tmp_path / "repo")
    del row["FAIL_TO_PASS"], row["PASS_TO_PASS"]
    row |= {"fail_to_pass": "['tests/test_clamp.py::test_low']", "pass_to_pass": "[]"}
    (instance,) = load_swebench_instances(write_jsonl(tmp_path / "rows.jsonl", row))
    assert instance.list_failing() == ("tests/test_clamp.py::test_low",)
    row["fail_to_pass"] = "__import__('os').getcwd()"
    (instance,) = load_swebench_instances(write_jsonl(tmp_path / "evil.jsonl", row))
    with raises_code("swebench-instance-invalid"):
        instance.list_failing()


def test_ids_of_djangos_runner_are_mapped(tmp_path: Path) -> None:
    tests: Files = {
        "tests/basic/tests.py": "class ClampTests:\n    def test_a(self): pass\n    def test_b(self): pass\n"
    }
    row = make_instance(
        tmp_path / "repo",
        tests=tests,
        repo="django/django",
        FAIL_TO_PASS=["test_a (basic.tests.ClampTests)"],
        PASS_TO_PASS=["test_b (basic.tests.ClampTests.test_b)", "A sentence about a test."],
    )
    created = _create(tmp_path, write_jsonl(tmp_path / "rows.jsonl", row))
    (inventory,) = load_contract(tmp_path / "contract").inventories.values()
    assert inventory.fail_to_pass == ("tests.basic.tests.ClampTests::test_a",)
    assert inventory.pass_to_pass == ("tests.basic.tests.ClampTests::test_b",)
    assert {"draft-runner-other", "draft-test-cut"} <= {problem.code for problem in created.problems}


def test_bare_names_of_sympys_runner_are_found_in_the_files_of_the_test_patch(tmp_path: Path) -> None:
    tests: Files = {
        f"lib/tests/test_{name}.py": f"def test_{name}(): pass\n\ndef test_both(): pass\n" for name in "ab"
    }
    row = make_instance(
        tmp_path / "repo",
        tests=tests,
        repo="sympy/sympy",
        FAIL_TO_PASS=["test_a", "test_both"],
        PASS_TO_PASS=[],
    )
    _create(tmp_path, write_jsonl(tmp_path / "rows.jsonl", row))
    (inventory,) = load_contract(tmp_path / "contract").inventories.values()
    assert inventory.fail_to_pass == (
        "lib.tests.test_a::test_a",
        "lib.tests.test_a::test_both",
        "lib.tests.test_b::test_both",
    )


def test_turning_test_that_no_map_finds_is_refused(tmp_path: Path) -> None:
    row = make_instance(tmp_path / "repo", repo="sympy/sympy", FAIL_TO_PASS=["test_nowhere"])
    with raises_code("swebench-instance-invalid", match="'test_nowhere'"):
        _create(tmp_path, write_jsonl(tmp_path / "rows.jsonl", row))


@pytest.mark.parametrize(
    ("row", "look"),
    [
        ({"instance_id": "a", "model_patch": ""}, "a prediction"),
        ({"org": "a", "repo": "b", "number": 1, "fix_patch": ""}, "Multi-SWE-bench"),
        ({"resolved_ids": []}, "a report"),
        ({"instruction": "do", "parser_name": "pytest"}, "Terminal-Bench 1"),
        ({"a": 1, "b": 2}, "an object with a, b"),
        ([], "no JSON object"),
    ],
)
def test_what_is_no_instance_is_named(tmp_path: Path, row: object, look: str) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(row or "text"), encoding="utf-8")
    with raises_code("swebench-instance-invalid", match=look):
        load_swebench_instances(tmp_path / "rows.jsonl")


def test_directory_of_harbor_tasks_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one/task.toml").write_text('version = "1.0"\n')
    with raises_code("swebench-instance-invalid", match="--format harbor"):
        load_swebench_instances(tmp_path)


def test_checkouts_are_found_by_owner_and_name(tmp_path: Path) -> None:
    for name in ("Example/Clamp", "other__thing.git", "plain"):
        (tmp_path / name).mkdir(parents=True)
    assert find_checkout(tmp_path, "Example/Clamp") == tmp_path / "Example/Clamp"
    assert find_checkout(tmp_path, "other/thing") == tmp_path / "other__thing.git"
    assert find_checkout(tmp_path, "any/plain") == tmp_path / "plain"
    with raises_code("swebench-instance-invalid", match="expected a checkout"):
        find_checkout(tmp_path, "no/where")
    with raises_code("swebench-instance-invalid", match="owner/name"):
        find_checkout(tmp_path, "../..")


_KEYS = st.sampled_from(
    ["org", "repo", "number", "base", "fix_patch", "test_patch", "patch", "base_commit", "instance_id",
     "problem_statement", "FAIL_TO_PASS", "fail_to_pass", "f2p_tests", "resolved_issues", "image",
     "interface"]
)  # fmt: skip
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=12))
def test_no_row_raises_anything_but_an_error_of_ours(row: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "rows.jsonl"
        path.write_text(json.dumps(row), encoding="utf-8")
        try:
            for instance in load_swebench_instances(path):
                instance.list_failing()
        except RepoTrialError as error:
            assert error.code == "swebench-instance-invalid"  # noqa: PT017 - or it is read


@given(st.binary(max_size=200))
def test_no_bytes_of_a_task_file_raise_anything_but_an_error_of_ours(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "task.yaml").write_bytes(data)
        (Path(scratch) / "tests.json").write_bytes(data)
        with pytest.raises(RepoTrialError):
            load_swebench_instances(Path(scratch))
