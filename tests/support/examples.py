"""The example contracts, carried out by hand: snapshot, change, oracle files, commands, results."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from repotrial.contract import ArchiveRepository, Check, Contract, Inventory, Overlay, ResultFile
from repotrial.environment import observe_host

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

    @property
    def snapshot(self) -> Path:
        return self.directory / self.contract.repository.source

    def inventory(self, check: Check) -> Inventory:
        if check.inventory is None:
            return NO_TESTS
        return msgspec.json.decode((self.directory / check.inventory).read_bytes(), type=Inventory)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    exit_code: int
    output: str
    passed: frozenset[str]
    failed: frozenset[str]


def load_example(directory: Path) -> Example:
    document = tomllib.loads((directory / "contract.toml").read_text("utf-8"), parse_float=Decimal)
    return Example(directory=directory, contract=msgspec.convert(document, Contract))


def load_examples() -> list[Example]:
    return [load_example(path.parent) for path in sorted(EXAMPLES.glob("*/contract.toml"))]


def require_snapshot(example: Example) -> None:
    """Skip where the archive of a real package was not fetched; it is not part of the tree."""
    if not example.snapshot.exists():
        pytest.skip(f"{example.contract.id} needs {example.snapshot.name}: run tools/fetch_examples.sh")


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


def require_host(contract: Contract) -> None:
    """Skip where the sandbox's user does not find a tool of the contract, or only one that is too old."""
    lacking = [
        f"{problem.name} {problem.expected}, found {problem.found}"
        for problem in observe_host(contract.environment).problems
    ]
    if lacking:
        pytest.skip(f"{contract.id} needs {'; '.join(lacking)}")


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def build_tree(example: Example, tmp_path: Path, *, with_reference: bool) -> Path:
    """A copy of the snapshot, so that nothing is written into the examples."""
    tree = tmp_path / "tree"
    match example.contract.repository:
        case ArchiveRepository() as archive:
            unpack(example.snapshot, tree, archive.strip_components)
        case _:
            shutil.copytree(example.snapshot, tree)
    if with_reference:
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path)}
        subprocess.run(["git", "apply", str(example.reference)], cwd=tree, env=environment, check=True)
    return tree


def unpack(archive: Path, tree: Path, strip_components: int) -> None:
    with tarfile.open(archive) as members:
        for member in members:
            path = "/".join(member.name.split("/")[strip_components:])
            if path:
                members.extract(member.replace(name=path), tree, filter="data")


def lay_over(example: Example, overlays: Iterable[Overlay], tree: Path) -> None:
    for overlay in overlays:
        for gone in overlay.delete:
            shutil.rmtree(tree / gone)
        shutil.copytree(example.directory / overlay.source, tree / overlay.target, dirs_exist_ok=True)


def execute_check(example: Example, check: Check, tree: Path) -> Outcome:
    """Run a check, after the builds whose outputs it may use."""
    for needed in example.contract.checks:
        if needed.id in check.needs and needed.outputs:
            built = execute_runners(example, needed, tree, tree.parent / f"results-{needed.id}")
            assert built.exit_code == 0, built.output
    return execute_runners(example, check, tree, tree.parent / "results")


def execute_runners(example: Example, check: Check, tree: Path, results: Path) -> Outcome:
    results.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(tree.parent), **find_toolchain_variables()}
    environment |= {**example.contract.environment.variables, "REPOTRIAL_RESULTS": str(results)}
    exit_code, output, spoken = 0, "", dict[str, bool]()
    for runner in check.all_runners:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", runner.run],
            cwd=tree / runner.cwd,
            env={**environment, **check.variables, **runner.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=check.timeout_seconds,
            check=False,
        )
        exit_code, output = exit_code or done.returncode, output + done.stdout
        for result_file in runner.results:
            spoken |= read_results(results, result_file, done.stdout)
    return Outcome(
        exit_code=exit_code,
        output=output,
        passed=frozenset(name for name, ok in spoken.items() if ok),
        failed=frozenset(name for name, ok in spoken.items() if not ok),
    )


def find_toolchain_variables() -> dict[str, str]:
    """A rustup shim looks for its tool chain in the home, which the checks do not see."""
    home = Path(os.environ.get("RUSTUP_HOME", Path.home() / ".rustup"))
    return {"RUSTUP_HOME": str(home)} if home.is_dir() else {}


def read_results(results: Path, file: ResultFile, printed: str) -> dict[str, bool]:
    """Which ids passed, by the id forms of examples/README.md; an id must not speak twice."""
    if file.format == "exit-code":
        return {}
    text = printed if file.path is None else (results / file.path).read_text("utf-8")
    pairs = list(iter_junit(text) if file.format == "junit" else iter_tap(text))
    assert len(pairs) == len(dict(pairs)), f"{file.path} uses an id twice"
    return {f"{file.prefix}{name}": ok for name, ok in pairs}


def iter_junit(text: str) -> Iterator[tuple[str, bool]]:
    for case in ET.fromstring(text).iter("testcase"):
        unsuccessful = {"failure", "error", "skipped"} & {child.tag for child in case}
        yield f"{case.attrib['classname']}::{case.attrib['name']}", not unsuccessful


def iter_tap(text: str) -> Iterator[tuple[str, bool]]:
    for line in re.finditer(r"^(not )?ok \d+ - (.*)$", text, flags=re.MULTILINE):
        yield line[2], line[1] is None
