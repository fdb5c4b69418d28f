"""Machines that lack a program: what needs it is left out before anything is planned."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.accounts import is_root
from support.command_line import COMMAND
from support.examples import EXAMPLES, load_examples

SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty one: tools may lie in a home, too."""
    return tmp_path_factory.mktemp("home")


def without(programs: Sequence[str]) -> list[str]:
    """The words that start a command on this machine without some of its programs."""
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap to hide programs with")
    words = ["bwrap", "--dev-bind", "/", "/", *(("--cap-add", "ALL") if is_root() else ())]
    found = {
        (Path(directory) / program).resolve() for directory in SYSTEM_DIRECTORIES for program in programs
    }
    for path in sorted(path for path in found if path.exists()):
        words += ["--ro-bind", "/dev/null", str(path)]
    return words


def plan(
    contracts: Sequence[Path], words: Sequence[str] = (), *, lacking: Sequence[str], home: Path
) -> tuple[int, dict[str, Any]]:
    """The exit code, and the plan or the error."""
    start = [*COMMAND, "run", "start", *map(str, contracts), "--agent", "noop", "--dry-run", "--json"]
    done = subprocess.run(
        [*without(lacking), *start, "--runs", str(home / "runs"), *words],
        env={"PATH": ":".join(SYSTEM_DIRECTORIES), "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, answer


def list_contracts() -> list[Path]:
    return [example.directory for example in load_examples() if example.snapshot.exists()]


def left_out(found: dict[str, Any]) -> set[str]:
    return {item["contract"] for item in found["left_out"]}


@pytest.fixture(scope="module")
def whole(home: Path) -> dict[str, Any]:
    """The plan of the machine as it is."""
    _, found = plan(list_contracts(), ["--skip-unavailable"], lacking=[], home=home)
    return found


@pytest.mark.parametrize(
    ("programs", "way"),
    [
        (["cargo", "rustc"], "https://rustup.rs"),
        (["node", "nodejs"], "apt install nodejs"),
        (["gcc"], "apt install gcc"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_needs_a_missing_program_is_left_out_and_the_rest_is_planned(
    programs: list[str], way: str, home: Path, whole: dict[str, Any]
) -> None:
    contracts = list_contracts()
    status, found = plan(contracts, ["--skip-unavailable"], lacking=programs, home=home)
    examples = [example.contract for example in load_examples()]
    wanting = {contract.id for contract in examples if programs[0] in contract.environment.tools}
    assert wanting
    assert status == 0
    assert left_out(found) == left_out(whole) | wanting
    planned = {trial["contract"] for trial in found["trials"]}
    assert planned == {directory.name for directory in contracts} - left_out(found)
    for item in found["left_out"]:
        if item["contract"] in wanting:
            assert f"{programs[0]}: expected " in item["lacks"]
            assert way in item["hint"]


def test_a_contract_that_is_asked_for_by_name_is_refused(home: Path) -> None:
    status, found = plan([EXAMPLES / "spoolq-hardening"], lacking=["node", "nodejs"], home=home)
    assert status == 3
    assert found["error"]["code"] == "contracts-unavailable"
    assert found["error"]["message"] == "spoolq-hardening: node: expected >=20.10, found none"
    assert "--skip-unavailable" not in found["error"]["hint"], "nothing would be left"


def test_one_that_cannot_be_run_among_others_is_refused_with_the_way_to_leave_it_out(home: Path) -> None:
    contracts = [EXAMPLES / "spoolq-hardening", EXAMPLES / "tillbook-state"]
    status, found = plan(contracts, lacking=["node", "nodejs"], home=home)
    assert status == 3
    assert "tillbook-state" not in found["error"]["message"]
    assert found["error"]["hint"].endswith("or leave such contracts out with --skip-unavailable")


def test_without_bubblewrap_nothing_is_planned_and_it_is_said_once(home: Path) -> None:
    status, found = plan(list_contracts(), ["--skip-unavailable"], lacking=["bwrap"], home=home)
    assert status == 3
    assert found["error"]["message"].count("bwrap is not installed") == 1
    assert "apt install bubblewrap" in found["error"]["hint"]


def test_on_a_machine_that_lacks_nothing_nothing_is_left_out(home: Path) -> None:
    status, found = plan([EXAMPLES / "tillbook-state"], lacking=[], home=home)
    assert (status, found["left_out"]) == (0, [])
