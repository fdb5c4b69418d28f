"""The example contracts hold what they promise, shown with the real tools of each ecosystem."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pathspec
import pytest
from unidiff.patch import PatchSet

from repotrial.contract import Check, Contract, Inventory, Overlay, ResultFile

EXAMPLES = Path(__file__).parents[2] / "examples" / "contracts"
NO_TESTS = Inventory(fail_to_pass=(), pass_to_pass=())


@dataclass(frozen=True, kw_only=True)
class Example:
    directory: Path
    contract: Contract

    @property
    def statement(self) -> str:
        return (self.directory / self.contract.statement).read_text("utf-8")

    @property
    def reference(self) -> Path:
        assert self.contract.reference is not None
        return self.directory / self.contract.reference

    def inventory(self, check: Check) -> Inventory:
        if check.inventory is None:
            return NO_TESTS
        return msgspec.json.decode((self.directory / check.inventory).read_bytes(), type=Inventory)


def load_example(directory: Path) -> Example:
    document = tomllib.loads((directory / "contract.toml").read_text("utf-8"), parse_float=Decimal)
    return Example(directory=directory, contract=msgspec.convert(document, Contract))


ALL = [load_example(path.parent) for path in sorted(EXAMPLES.glob("*/contract.toml"))]
each_example = pytest.mark.parametrize("example", ALL, ids=lambda example: example.contract.id)
each_check = pytest.mark.parametrize(
    ("example", "check"),
    [
        pytest.param(example, check, id=f"{example.contract.id}-{check.id}")
        for example in ALL
        for check in example.contract.checks
    ],
)
each_negative = pytest.mark.parametrize(
    ("example", "check"),
    [
        pytest.param(example, check, id=f"{example.contract.id}-{check.id}")
        for example in ALL
        for check in example.contract.checks
        if check.negative
    ],
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    exit_code: int
    output: str
    passed: frozenset[str]
    failed: frozenset[str]


def require_tools(example: Example) -> None:
    """Skip where the machine lacks a tool of the contract, or has one that is too old."""
    for tool, constraint in example.contract.environment.tools.items():
        program = sys.executable if tool == "python" else shutil.which(tool)
        if program is None:
            pytest.skip(f"{example.contract.id} needs {tool} {constraint}, which is not installed")
        printed = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        version = re.search(r"\d+(\.\d+)+", printed)
        assert version is not None, printed
        if numbers(version[0]) < numbers(constraint.removeprefix(">=")):
            pytest.skip(f"{example.contract.id} needs {tool} {constraint}, found {version[0]}")


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def build_tree(example: Example, tmp_path: Path, *, with_reference: bool) -> Path:
    """A copy of the snapshot, so that nothing is written into the examples."""
    tree = tmp_path / "tree"
    shutil.copytree(example.directory / example.contract.repository.source, tree)
    if with_reference:
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path)}
        subprocess.run(["git", "apply", str(example.reference)], cwd=tree, env=environment, check=True)
    return tree


def lay_over(example: Example, overlays: Iterable[Overlay], tree: Path) -> None:
    for overlay in overlays:
        shutil.copytree(example.directory / overlay.source, tree / overlay.target, dirs_exist_ok=True)


def execute_check(example: Example, check: Check, tree: Path) -> Outcome:
    results = tree.parent / "results"
    results.mkdir()
    variables = example.contract.environment.variables
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(tree.parent), **variables, "REPOTRIAL_RESULTS": str(results)}
    exit_code, output, spoken = 0, "", dict[str, bool]()
    for runner in check.all_runners:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", runner.run],
            cwd=tree / runner.cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=check.timeout_seconds,
            check=False,
        )
        exit_code, output = exit_code or done.returncode, output + done.stdout
        for result_file in runner.results:
            spoken |= read_results(results, result_file)
    return Outcome(
        exit_code=exit_code,
        output=output,
        passed=frozenset(name for name, ok in spoken.items() if ok),
        failed=frozenset(name for name, ok in spoken.items() if not ok),
    )


def read_results(results: Path, file: ResultFile) -> dict[str, bool]:
    """Which ids passed, by the id forms of examples/README.md; an id must not speak twice."""
    assert file.path is not None
    text = (results / file.path).read_text("utf-8")
    pairs = list(iter_junit(text) if file.format == "junit" else iter_tap(text))
    assert len(pairs) == len(dict(pairs)), f"{file.path} uses an id twice"
    return dict(pairs)


def iter_junit(text: str) -> Iterator[tuple[str, bool]]:
    for case in ET.fromstring(text).iter("testcase"):
        unsuccessful = {"failure", "error", "skipped"} & {child.tag for child in case}
        yield f"{case.attrib['classname']}::{case.attrib['name']}", not unsuccessful


def iter_tap(text: str) -> Iterator[tuple[str, bool]]:
    for line in re.finditer(r"^(not )?ok \d+ - (.*)$", text, flags=re.MULTILINE):
        yield line[2], line[1] is None


@pytest.fixture(scope="module", autouse=True)
def examples_stay_as_they_are() -> Iterator[None]:
    before = sorted(EXAMPLES.rglob("*"))
    yield
    assert sorted(EXAMPLES.rglob("*")) == before


@each_check
def test_the_untouched_snapshot_fails_exactly_what_the_inventory_says(
    example: Example, check: Check, tmp_path: Path
) -> None:
    require_tools(example)
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
    tree = build_tree(example, tmp_path, with_reference=True)
    lay_over(example, check.files, tree)
    lay_over(example, check.negative, tree)
    outcome = execute_check(example, check, tree)
    inventory = example.inventory(check)
    assert outcome.exit_code != 0
    assert outcome.passed == frozenset()
    assert outcome.failed == {*inventory.fail_to_pass, *inventory.pass_to_pass}


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
    added = {
        line.value.strip()
        for file in PatchSet(example.reference.read_text("utf-8"))
        for hunk in file
        for line in hunk
        if line.is_added
    }
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
    paths = {file.path for file in PatchSet(example.reference.read_text("utf-8"))}
    assert 2 <= len(paths) <= (policy.max_files_changed or 0)
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
    repository = example.directory / example.contract.repository.source
    visible = next(repository / name for name in ("tests", "test") if (repository / name).is_dir())
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


def test_there_are_three_ecosystems() -> None:
    assert {example.contract.ecosystem for example in ALL} == {"python", "javascript", "c"}
