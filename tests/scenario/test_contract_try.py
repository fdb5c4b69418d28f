"""`contract new --from-commit` runs the tests: what authors met on real repositories, on small ones."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from repotrial import api
from repotrial.authoring import (
    CommitContract,
    CreatedContract,
    Proof,
    Unproved,
    create_contract_from_commit,
)
from repotrial.authoring._base import CommitTree
from repotrial.authoring._proof._locks import LockedPackages
from repotrial.authoring._proof._python import prepare_python
from repotrial.contract import load_contract
from repotrial.mining import prove_draft
from support.harness import require_sandboxes
from support.repositories import RepositoryMaker
from support.trying import LOCK, build_proving
from support.workspaces import scratch


@pytest.fixture
def place() -> Iterator[Path]:
    require_sandboxes()
    with scratch() as root:
        yield root


def _try(maker: RepositoryMaker, place: Path) -> CreatedContract:
    options = CommitContract(
        source=str(maker.path), directory=place / "contract", revision="HEAD", is_embedded=True
    )
    created = create_contract_from_commit(options, build_proving(place))
    if isinstance(created.proof, Unproved) and "package-index-unreachable" in created.proof.message:
        pytest.skip("no package index can be reached to build the pinned environment once")
    return created


_PYPROJECT = """\
[project]
name = "meter"
dynamic = ["version"]
dependencies = ["six>=1.0"]

[project.optional-dependencies]
tests = ["pytest>=7", "pytest-cov", "mypy"]

[tool.setuptools_scm]
write_to = "src/meter/_version.py"

[tool.pytest.ini_options]
addopts = "--cov=meter --strict-markers"
"""
_INIT = (
    "from importlib.metadata import version\n\nfrom meter._version import __version__\n\n"
    "NAME = version('meter')\n"
)
_TESTS = """\
import subprocess
import sys
import time
import urllib.request

import pytest

import meter
from meter.scale import scale


@pytest.mark.parametrize("value", [1, 2])
def test_doubles(value):
    assert scale(value) == 2 * value


def test_zero_stays():
    assert scale(0) == 0


def test_a_program_finds_the_code(tmp_path):
    done = subprocess.run([sys.executable, "-c", "import meter"], cwd=tmp_path)
    assert done.returncode == 0


@pytest.mark.parametrize("moment", [time.time_ns()])
def test_with_the_time_in_its_id(moment):
    assert moment


def test_of_another_machine():
    assert sys.platform == "plan9"


def test_that_downloads():
    urllib.request.urlopen("http://example.invalid/")


@pytest.mark.skip
def test_of_another_day(): ...
"""


def _make_obstacles(root: Path) -> RepositoryMaker:
    maker = RepositoryMaker(root)
    base: dict[str | bytes, str | bytes] = {
        "pyproject.toml": _PYPROJECT,
        "src/meter/__init__.py": _INIT,
        "src/meter/scale.py": "def scale(value):\n    return value\n",
        "tests/test_scale.py": "def test_nothing(): ...\n",
    }
    maker.commit(base, message="Start")
    change: dict[str | bytes, str | bytes] = {
        "src/meter/scale.py": "def scale(value):\n    return value * 2\n",
        "tests/test_scale.py": _TESTS,
    }
    maker.commit(change, message="Scale doubles\n\nscale(1) gives 1, and it must give 2, for any number.")
    return maker


def test_a_change_with_every_obstacle_is_proved_and_its_draft_locks(place: Path) -> None:
    created = _try(_make_obstacles(place / "meter"), place)
    proof = created.proof
    assert isinstance(proof, Proof), proof
    where = "tests.test_scale"
    assert proof.inventory.fail_to_pass == (f"{where}::test_doubles[1]", f"{where}::test_doubles[2]")
    staying = {f"{where}::test_zero_stays", f"{where}::test_a_program_finds_the_code"}
    assert {*proof.inventory.pass_to_pass} == staying
    left_out = {group.reason: group.tests for group in proof.left_out}
    assert left_out["fails-with-reference"] == (f"{where}::test_of_another_machine",)
    assert left_out["needs-network"] == (f"{where}::test_that_downloads",)
    assert left_out["skipped"] == (f"{where}::test_of_another_day",)
    assert all("test_with_the_time_in_its_id" in test for test in left_out["unstable-id"])
    asked = (place / "fake-uv" / "asked").read_text("utf-8").splitlines()
    assert asked == ["pytest>=7", "six>=1.0"], "tools are no packages of tests"
    assert created.missing is None
    assert api.lock_contract(place / "contract").is_written
    assert api.check_contract(place / "contract").holds(strict=False)


def test_the_draft_gives_the_reason_of_what_was_found(place: Path) -> None:
    created = _try(_make_obstacles(place / "meter"), place)
    text = (place / "contract" / "contract.toml").read_text("utf-8")
    assert 'PYTHONPATH = "/workspace/src:/opt/repotrial/metadata"' in text
    assert "# guess: the code lies in src/" in text
    assert 'target = "/workspace/src/meter/_version.py"' in text
    assert "addopts=--strict-markers" in text
    assert "# 2 turn with the change, 2 pass always, seen in 2 runs of each tree" in text
    codes = [problem.code for problem in created.problems if problem.code == "draft-tests-left-out"]
    assert len(codes) == 4, "one warning for each reason, with a count"


def test_a_refactoring_is_told_from_a_fix(place: Path) -> None:
    maker = RepositoryMaker(place / "app")
    maker.commit({"pyproject.toml": "", "app.py": "def one():\n    return 1\n"})
    test = "import app\n\n\ndef test_one():\n    assert app.one() == 1\n"
    maker.commit(
        {"app.py": "def one():\n    return int('1')\n", "tests/test_app.py": test}, message="Tidy up"
    )
    created = _try(maker, place)
    assert isinstance(created.proof, Unproved)
    assert (created.proof.failure, created.proof.executions) == ("no-test-turns", 2)


def test_tests_that_cannot_run_leave_a_draft_that_locks_all_the_same(place: Path) -> None:
    """Only a parametrized test, and a package that is nowhere: there is a way on from every state."""
    maker = RepositoryMaker(place / "app")
    maker.commit({"pyproject.toml": "", "app.py": "value = 1\n"})
    test = (
        "import pytest\nimport nowhere_to_be_found\n\nimport app\n\n\n"
        "@pytest.mark.parametrize('x', [2])\ndef test_x(x):\n    assert app.value == x\n"
    )
    message = "The value is wrong\n\nIt is 1 and must be 2, whatever else the program does with it."
    maker.commit({"app.py": "value = 2\n", "tests/test_app.py": test}, message=message)
    created = _try(maker, place)
    assert isinstance(created.proof, Unproved)
    assert created.proof.failure == "does-not-run"
    assert "nowhere_to_be_found" in created.proof.message
    assert created.missing is None
    assert api.lock_contract(place / "contract").is_written


def test_a_file_that_cannot_be_imported_is_named_with_the_error(place: Path) -> None:
    """Where no test can be read, none fails; and `tests.py` holds tests, though pytest does not find it."""
    maker = RepositoryMaker(place / "app")
    maker.commit({"pyproject.toml": "", "app.py": "value = 1\n"})
    test = "from app import value\n\n\ndef test_value():\n    assert value == 2\n"
    maker.commit({"app.py": "value = = 2\n", "tests.py": test})
    proof = _try(maker, place).proof
    assert isinstance(proof, Unproved)
    assert proof.failure == "does-not-run"
    assert proof.message == "tests.py cannot be imported: SyntaxError: invalid syntax"


@pytest.mark.parametrize(("pinned", "asked"), [(b"pytest==8.1", 1), (b"pytest==3.0.7", 2), (b"nose==1.3", 1)])
def test_a_runner_that_is_older_than_this_python_is_not_taken(
    tmp_path: Path, pinned: bytes, asked: int
) -> None:
    """Old projects pin a pytest that does not even start here; its version is left open then."""

    class Locker:
        asked = 0

        def lock(self, requirements: Sequence[str], *, cutoff: dt.date) -> LockedPackages:
            del requirements, cutoff
            self.asked += 1
            return LockedPackages(
                data=pinned if self.asked == 1 else b"pytest==8.1", names=("pytest",), command=""
            )

    tree = CommitTree(root=tmp_path, commit="4" * 40, tree_digest="")
    (tmp_path / "requirements.txt").write_bytes(pinned)
    locker = Locker()
    day = dt.datetime(2024, 5, 5, tzinfo=dt.UTC)
    prepared = prepare_python(tree, tree, test_files=["test_a.py"], committed_at=day, locker=locker)
    assert locker.asked == asked
    assert isinstance(prepared.locked, LockedPackages)


def test_an_edited_draft_is_proved_by_one_command(place: Path) -> None:
    """The way on from a draft that did not run: correct it, and have its inventory written (C13)."""
    maker = RepositoryMaker(place / "app")
    maker.commit({"pyproject.toml": "", "app.py": "value = 1\n"})
    test = (
        "import pytest\nimport nowhere_to_be_found\n\nimport app\n\n\n"
        "@pytest.mark.parametrize('x', [2])\ndef test_x(x):\n    assert app.value == x\n"
    )
    maker.commit({"app.py": "value = 2\n", "tests/test_app.py": test}, message="The value is wrong")
    assert isinstance(_try(maker, place).proof, Unproved)
    contract = place / "contract"
    before = (contract / "contract.toml").read_text("utf-8")
    assert "inventory" not in tomllib.loads(before)["checks"][0]
    tests = contract / "checks/tests/tests/test_app.py"
    tests.write_text(test.replace("import nowhere_to_be_found\n", ""), "utf-8")
    proved = prove_draft(contract, build_proving(_make_place(place)))
    assert isinstance(proved.proof, Proof), proved.proof
    assert proved.proof.inventory.fail_to_pass == ("tests.test_app::test_x[2]",)
    assert proved.written == ("checks/tests.json", "contract.toml")
    after = (contract / "contract.toml").read_text("utf-8")
    comments = [line for line in before.splitlines() if line.startswith("#")]
    assert [line for line in after.splitlines() if line.startswith("#")] == comments, "comments stay"
    check = load_contract(contract).contract.checks[0]
    assert (check.inventory, check.results[0].format) == ("checks/tests.json", "junit")
    (contract / "statement.md").write_text("app.value is 1; it must be 2 for every caller.\n", "utf-8")
    assert api.lock_contract(contract).is_written
    again = prove_draft(contract, build_proving(_make_place(place)))
    assert again.written == (), "the same tests do the same"


def _make_place(place: Path) -> Path:
    made = place / f"proving-{len(list(place.glob('proving-*')))}"
    made.mkdir()
    return made


def test_a_package_of_a_monorepo_is_tested_in_its_own_directory(place: Path) -> None:
    maker = RepositoryMaker(place / "mono")
    package = '[project]\nname = "inner"\nversion = "1.0"\n'
    maker.commit(
        {
            "pyproject.toml": "",
            "packages/inner/pyproject.toml": package,
            "packages/inner/src/inner.py": "value = 1\n",
        }
    )
    test = "import inner\n\n\ndef test_value():\n    assert inner.value == 2\n"
    maker.commit({"packages/inner/src/inner.py": "value = 2\n", "packages/inner/tests/test_inner.py": test})
    created = _try(maker, place)
    assert isinstance(created.proof, Proof), created.proof
    assert load_contract(place / "contract").contract.checks[0].cwd == "packages/inner"


def test_the_page_is_followed_word_by_word(place: Path) -> None:
    """docs/how-to/contract-from-a-commit.md begins with one command; what it shows is what happens."""
    page = (Path(__file__).parents[2] / "docs/how-to/contract-from-a-commit.md").read_text("utf-8")
    first = page.partition("```console\n")[2].partition("```")[0]
    assert first.startswith("$ repotrial contract new my-contract --repository ../app --from-commit 4f1c2ab")
    maker = RepositoryMaker(place / "app")
    maker.commit({"pyproject.toml": "", "app.py": "def double(x):\n    return x + 2\n"})
    test = "from app import double\n\n\ndef test_three():\n    assert double(3) == 6\n"
    message = "double(3) gives 5\n\nIt must give 6: twice the number that it is given, whatever that is."
    maker.commit({"app.py": "def double(x):\n    return 2 * x\n", "tests/test_app.py": test}, message=message)
    (place / "work").mkdir()
    commit = maker.git("rev-parse", "--short=7", "HEAD").decode().strip()
    words = first.splitlines()[0].removeprefix("$ repotrial ").replace("4f1c2ab", commit).split()
    run = [sys.executable, "-m", "repotrial"]
    more = ["--python-lock", str(LOCK), "--json"]
    made = subprocess.run([*run, *words, *more], cwd=place / "work", capture_output=True, check=True)
    created = json.loads(made.stdout)
    if created["proof"].get("failure") and "unreachable" in created["proof"]["message"]:
        pytest.skip("no package index can be reached to build the pinned environment once")
    assert created["proof"]["inventory"]["fail_to_pass"] == ["tests.test_app::test_three"]
    lock = next(line for line in page.splitlines() if line.startswith("$ repotrial contract lock"))
    words = lock.removeprefix("$ repotrial ").split()
    subprocess.run([*run, *words], cwd=place / "work", capture_output=True, check=True)
    assert (place / "work/my-contract/contract.lock.json").is_file()
