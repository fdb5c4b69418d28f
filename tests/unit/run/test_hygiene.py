"""Files that steer the judge, and files that stand in the oracle's way."""

from __future__ import annotations

import pytest

from repotrial.contract import Policy
from repotrial.run._accept._candidate import find_allowed_paths, find_steering_paths
from repotrial.run._accept._oracle import find_collisions


def steering(
    *paths: str, allowed: frozenset[str] = frozenset(), shadows: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    return find_steering_paths(paths, allowed=allowed, shadows=shadows)


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "tests/deep/conftest.py",
        "Conftest.py",
        "sitecustomize.py",
        "textkit/usercustomize.py",
        "evil.pth",
        "pytest.ini",
        "tests/tox.ini",
        ".npmrc",
        "packages/a/.npmrc",
        ".cargo/config.toml",
        "node_modules/assert/index.js",
        "textkit/__pycache__/wrap.cpython-311.pyc",
        "thing.egg-info/entry_points.txt",
    ],
)
def test_a_file_that_runs_before_the_suite_steers(path: str) -> None:
    assert steering(path) == (path,)


@pytest.mark.parametrize(
    "path",
    ["textkit/wrap.py", "textkit/json.py", "tests/test_wrap.py", "docs/conf.py", "README.md", "setup.py"],
)
def test_product_files_do_not_steer(path: str) -> None:
    assert steering(path) == ()


def test_a_module_in_the_place_of_a_framework_steers_unless_the_contract_names_it() -> None:
    path = "src/pytest.py"
    assert steering(path, "src/kit.py", shadows=frozenset({path})) == (path,)
    assert steering(path, shadows=frozenset({path}), allowed=frozenset({path})) == ()


def test_a_contract_can_name_a_steering_file() -> None:
    allowed = find_allowed_paths(Policy(writable=("textkit/**", "conftest.py")), ["pytest.ini"])
    assert steering("conftest.py", "pytest.ini", "tests/conftest.py", allowed=allowed) == (
        "tests/conftest.py",
    )


def test_a_wildcard_does_not_name_a_steering_file() -> None:
    allowed = find_allowed_paths(Policy(writable=("**", "**/conftest.py")), [])
    assert steering("conftest.py", allowed=allowed) == ("conftest.py",)


def test_a_file_in_the_place_of_an_oracle_file_collides() -> None:
    assert find_collisions(["acceptance/test_a.py", "src/a.py"], ["acceptance/test_a.py"]) == (
        "acceptance/test_a.py",
    )


def test_a_link_in_the_place_of_the_oracles_folder_collides() -> None:
    assert find_collisions(["acceptance"], ["acceptance/deep/test_a.py"]) == ("acceptance",)


def test_a_folder_in_the_place_of_an_oracle_file_collides() -> None:
    assert find_collisions(["check.sh/evil"], ["check.sh"]) == ("check.sh/evil",)


def test_a_neighbor_of_oracle_files_does_not_collide() -> None:
    assert find_collisions(["acceptance/helper.py", "acceptance2"], ["acceptance/test_a.py"]) == ()
