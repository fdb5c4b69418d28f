"""The example contracts hold what they promise, shown with the real tools of each ecosystem."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import get_args

import pathspec
import pytest

from repotrial.api import check_contract
from repotrial.authoring import CertificateUntrusted, check_certificate
from repotrial.change import scan_patch
from repotrial.contract import ArchiveRepository, Check, TaskKind, load_contract
from repotrial.judging import mix_in_negatives
from repotrial.run._accept._oracle import list_oracle_files
from support.examples import (
    EXAMPLES,
    Example,
    build_tree,
    execute_check,
    lay_over,
    load_examples,
    require_snapshot,
    require_tools,
)
from support.exhaustive import IS_EXHAUSTIVE

ALL = load_examples()
LONG = frozenset() if IS_EXHAUSTIVE else frozenset({("networkx-pajek-sections", "regression")})
"""A whole package's suite, four times: certification has run it, and `REPOTRIAL_EXHAUSTIVE=1` does."""
each_example = pytest.mark.parametrize("example", ALL, ids=lambda example: example.contract.id)
each_check = pytest.mark.parametrize(
    ("example", "check"),
    [
        pytest.param(example, check, id=f"{example.contract.id}-{check.id}")
        for example in ALL
        for check in example.contract.checks
        if (example.contract.id, check.id) not in LONG
    ],
)
each_negative = pytest.mark.parametrize(
    ("example", "check"),
    [
        pytest.param(example, check, id=f"{example.contract.id}-{check.id}")
        for example in ALL
        for check in example.contract.checks
        if check.negative and (example.contract.id, check.id) not in LONG
    ],
)


@pytest.fixture(scope="module", autouse=True)
def examples_stay_as_they_are() -> Iterator[None]:
    before = sorted(EXAMPLES.rglob("*"))
    yield
    assert sorted(EXAMPLES.rglob("*")) == before


@each_example
def test_the_contract_is_certified_as_it_stands(example: Example) -> None:
    require_snapshot(example)
    state = check_certificate(load_contract(example.directory), trusted_keys=None)
    # Everything fits; whom to trust is the reader's choice.
    assert isinstance(state, CertificateUntrusted), state
    assert (state.certificate.is_certified, state.certificate.grade) == (True, "full")


@each_check
def test_the_untouched_snapshot_fails_exactly_what_the_inventory_says(
    example: Example, check: Check, tmp_path: Path
) -> None:
    require_tools(example)
    require_snapshot(example)
    tree = build_tree(example, tmp_path, with_reference=False)
    lay_over(example, check.files, tree)
    outcome = execute_check(example, check, tree)
    inventory = example.inventory(check)
    assert outcome.failed == set(inventory.fail_to_pass), outcome.output
    assert outcome.passed == set(inventory.pass_to_pass), outcome.output
    assert check.baseline == ("pass" if outcome.exit_code == 0 else "fail"), outcome.output


@each_check
def test_the_reference_passes_every_check(example: Example, check: Check, tmp_path: Path) -> None:
    require_tools(example)
    require_snapshot(example)
    tree = build_tree(example, tmp_path, with_reference=True)
    lay_over(example, check.files, tree)
    outcome = execute_check(example, check, tree)
    inventory = example.inventory(check)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.failed == frozenset(), outcome.output
    assert outcome.passed == {*inventory.fail_to_pass, *inventory.pass_to_pass}


@each_negative
def test_wrong_expectations_all_fail_on_the_reference(example: Example, check: Check, tmp_path: Path) -> None:
    require_tools(example)
    require_snapshot(example)
    tree = build_tree(example, tmp_path, with_reference=True)
    lay_over(example, check.files, tree)
    lay_over(example, check.negative, tree)
    outcome = execute_check(example, check, tree)
    inventory = example.inventory(check)
    assert outcome.exit_code != 0
    assert outcome.passed == frozenset()
    if any(overlay.delete for overlay in check.negative):
        assert outcome.failed  # a suite of its own, in the place of the other
    else:
        assert outcome.failed == {*inventory.fail_to_pass, *inventory.pass_to_pass}, outcome.output


@pytest.mark.parametrize(
    ("example", "check"),
    [
        pytest.param(example, check, id=f"{example.contract.id}-{check.id}")
        for example in ALL
        for check in example.contract.checks
        # A suite of its own is not mixed.
        if check.negative and not any(item.delete for item in check.negative)
    ],
)
def test_wrong_expectations_can_be_mixed_with_the_right_ones_test_by_test(
    example: Example, check: Check
) -> None:
    """A suite that is wrong as a whole could be told from the right one, in its process or beside it."""
    require_snapshot(example)
    loaded = load_contract(example.directory)
    right = list_oracle_files(loaded, check.files)
    wrong = list_oracle_files(loaded, (*check.files, *check.negative))
    inventory = example.inventory(check)
    mixed = [mix_in_negatives(right, wrong, inventory, Random(seed)) for seed in range(40)]
    chosen = {test for suite in mixed if suite is not None for test in suite.wrong}
    assert None not in mixed
    assert chosen == {*inventory.fail_to_pass, *inventory.pass_to_pass}


@each_example
def test_the_gates_and_ceilings_are_declared(example: Example) -> None:
    checks = example.contract.checks
    assert {check.gate for check in checks} == {"build", "acceptance"}
    assert {check.id for check in checks} >= {"build", "unit", "regression"}
    for check in checks:
        assert check.timeout_seconds is not None
        assert check.baseline is not None
        assert check.gate == "build" or (check.is_mandatory and check.inventory is not None)
    weights = example.contract.scoring.weights
    assert weights.minimal + weights.trace + weights.maintainable == 1


@each_example
def test_the_statement_gives_nothing_away(example: Example) -> None:
    told = {line.strip() for line in example.statement.splitlines()}
    added = {line.strip() for file in scan_patch(example.reference.read_bytes()) for line in file.added}
    # Shorter lines are brackets and keywords, which say nothing.
    assert not {line for line in added & told if len(line) > 5}
    hidden = [
        path.name
        for check in example.contract.checks
        for overlay in (*check.files, *check.negative)
        for path in (example.directory / overlay.source).rglob("*")
    ]
    assert hidden
    assert not [name for name in hidden if name in example.statement]


@each_example
def test_the_reference_touches_only_writable_paths(example: Example) -> None:
    policy = example.contract.policy
    paths = {path for file in scan_patch(example.reference.read_bytes()) for path in file.paths}
    assert 1 <= len(paths) <= (policy.max_files_changed or 0)
    assert paths == set(pathspec.GitIgnoreSpec.from_lines(policy.writable).match_files(paths))
    assert not set(pathspec.GitIgnoreSpec.from_lines(policy.protected).match_files(paths))


@each_example
def test_oracle_files_lie_outside_what_the_agent_may_write(example: Example) -> None:
    policy = example.contract.policy
    laid = {
        f"{overlay.target}/{path.relative_to(example.directory / overlay.source).as_posix()}"
        for check in example.contract.checks
        for overlay in (*check.files, *check.negative)
        for path in (example.directory / overlay.source).rglob("*")
    }
    assert not set(pathspec.GitIgnoreSpec.from_lines(policy.writable).match_files(laid))
    assert laid == set(pathspec.GitIgnoreSpec.from_lines(policy.protected).match_files(laid))


@each_example
def test_the_regression_check_repeats_the_visible_tests(example: Example) -> None:
    if isinstance(example.contract.repository, ArchiveRepository):
        pytest.skip("the tests of a real package are not copied: they stay where they are, protected")
    visible = next(
        example.snapshot / name for name in ("tests", "test") if (example.snapshot / name).is_dir()
    )
    hidden = example.directory / "checks" / "regression"
    assert {path.name: path.read_bytes() for path in visible.iterdir()} == {
        path.name: path.read_bytes() for path in hidden.iterdir()
    }


def test_python_locks_pin_every_package_and_name_no_index() -> None:
    pairs = [(example.directory, example.contract.environment.python) for example in ALL]
    locks = [
        (directory / python.lock).read_text("utf-8") for directory, python in pairs if python is not None
    ]
    assert locks
    for lock in locks:
        packages = re.split(r"\n(?=[a-z])", lock.strip())
        assert all("==" in package and "--hash=sha256:" in package for package in packages)
        assert "://" not in lock
        assert "index" not in lock


def test_there_are_four_ecosystems_and_all_kinds_of_work() -> None:
    assert {example.contract.ecosystem for example in ALL} == {"python", "javascript", "c", "rust"}
    assert {example.contract.kind for example in ALL} == set(get_args(TaskKind))
    assert len(ALL) >= 8


def test_one_example_is_a_real_package_pinned_by_digest() -> None:
    repositories = [example.contract.repository for example in ALL]
    archives = [item for item in repositories if isinstance(item, ArchiveRepository)]
    assert archives
    assert all(archive.digest is not None for archive in archives)


def test_one_example_builds_after_the_change_and_is_a_workspace() -> None:
    [example] = [item for item in ALL if "workspace" in item.contract.labels]
    build, *others = example.contract.checks
    assert build.outputs
    assert all(build.id in check.needs and check.judge == "out-of-process" for check in others)
    assert len(list(example.snapshot.glob("crates/*/Cargo.toml"))) == 3


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.contract.id)
def test_a_judge_in_the_process_of_another_language_has_a_negative_suite(example: Example) -> None:
    for check in example.contract.checks:
        if check.judge == "in-process" and check.gate == "acceptance":
            assert example.contract.ecosystem == "python" or check.negative


def test_an_archive_that_was_not_fetched_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    [example] = [item for item in ALL if isinstance(item.contract.repository, ArchiveRepository)]
    copy = shutil.copytree(example.directory, tmp_path / "contract", ignore=shutil.ignore_patterns("vendor"))
    [problem] = [item for item in check_contract(copy).problems if item.code == "file-missing"]
    assert problem.field == "repository.source"
    assert example.contract.repository.source in problem.message
    assert "tools/fetch_examples.sh" in (problem.hint or "")


def test_fetched_archives_are_those_that_the_contracts_pin() -> None:
    for example in ALL:
        repository = example.contract.repository
        if isinstance(repository, ArchiveRepository):
            wanted = (example.directory / "vendor.txt").read_text("utf-8")
            assert re.findall(r"--hash=(sha256:[0-9a-f]{64})", wanted) == [repository.digest]
