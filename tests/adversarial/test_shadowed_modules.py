"""Modules of a change that would be imported in the place of a framework, and honest ones with such names."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import pytest

from repotrial.run._accept._shadows import find_import_roots, find_shadows
from support.score_runs import UNIT, build_contract

BASE = frozenset(
    {
        *("textkit", "textkit/__init__.py", "tests", "tests/test_wrap.py", "README.md", "docs", "vendored"),
        *("src", "src/kit", "src/kit/__init__.py", "plugins"),
    }
)


def find(
    *paths: str,
    links: Collection[str] = (),
    roots: Collection[str] = (".", "src"),
    base: frozenset[str] = BASE,
) -> tuple[str, ...]:
    return tuple(sorted(find_shadows(paths, links=links, roots=roots, is_in_base=base.__contains__)))


@pytest.mark.parametrize(
    "path", ["pytest.py", "_pytest/runner.py", "unittest/__init__.py", "json.py", "xml/etree.py"]
)
def test_a_module_that_shadows_the_judge_steers(path: str) -> None:
    assert find(path) == (path,)


@pytest.mark.parametrize(
    "path",
    ["textkit/wrap.py", "textkit/json.py", "tests/test_wrap.py", "docs/conf.py", "README.md", "setup.py"],
)
def test_product_files_are_no_shadows(path: str) -> None:
    assert find(path) == ()


def test_what_the_project_has_at_its_top_is_no_shadow() -> None:
    assert find("json/core.py", base=BASE | {"json"}) == ()


FORGED_PACKAGE = ("src/pytest/__init__.py", "src/pytest/main.py")


@pytest.mark.parametrize(
    "paths",
    [
        FORGED_PACKAGE,
        ("src/pytest.py",),
        ("src/pytest.cpython-311-x86_64-linux-gnu.so",),
        ("src/json/__init__.py", "src/json/decoder.py"),
        ("src/xml.py",),
        ("vendored/pytest/__init__.py",),  # no check is known to look there
        ("plugins/_pytest/__init__.py",),
        ("src/__init__.py", "src/unittest.py"),  # a package now, and still on the path
    ],
    ids=lambda paths: paths[-1],
)
def test_a_framework_forged_where_the_import_path_leads_steers(paths: tuple[str, ...]) -> None:
    assert find(*paths) == tuple(path for path in paths if path != "src/__init__.py")


def test_a_link_in_the_place_of_a_framework_or_of_an_import_folder_steers() -> None:
    paths = ("evil/__init__.py", "pytest", "src", "src/pytest")
    assert find(*paths, links=paths[1:]) == ("pytest", "src", "src/pytest")
    assert find(*paths) == (), "a plain file without a suffix is never imported"


@pytest.mark.parametrize(
    "path",
    [
        "src/kit/json.py",
        "src/kit/pytest.py",  # a plugin of the product's own
        "src/kit/email/__init__.py",
        "src/newkit/__init__.py",
        "docs/pytest/index.md",
        "docs/pytest/conf.py",
        "docs/email.py",
        "new/pytest/__init__.py",
        "tests/test_pytest.py",
    ],
)
def test_honest_names_like_those_of_a_framework_do_not_steer(path: str) -> None:
    assert find(path) == ()


def test_a_project_that_is_the_package_of_that_name_is_not_touched() -> None:
    base = BASE | {"src/pluggy", "src/pluggy/__init__.py", "src/_pytest", "src/pytest"}
    assert find("src/pluggy/_hooks.py", "src/_pytest/new.py", *FORGED_PACKAGE, base=base) == ()


def roots(
    run: str = "pytest", *, cwd: str = ".", targets: tuple[str, ...] = (), **variables: str
) -> frozenset[str]:
    check = msgspec.structs.replace(UNIT, run=run, cwd=cwd, variables=variables)
    return find_import_roots(build_contract((check,)), targets, BASE.__contains__)


def test_the_import_path_of_a_check_is_read_from_its_contract() -> None:
    usual = {".", "src", "lib"}
    assert roots() == usual
    assert roots(cwd="packages/a") == usual | {"packages/a"}
    assert roots(PYTHONPATH="/workspace/one:two::/opt/else:../up") == usual | {"one", "two"}
    assert roots('cd x; PYTHONPATH="$PWD/three:four" pytest') == usual | {"three", "four"}
    assert roots(PYTHONPATH="src", cwd="packages/a") == usual | {"packages/a", "packages/a/src"}


def test_a_test_puts_the_first_folder_that_is_no_package_on_the_path() -> None:
    assert roots(targets=("tests/test_hidden.py", "textkit/test_a.py", "data/x.json")) == {
        *(".", "src", "lib", "tests"),
    }


def test_a_usual_folder_that_is_a_package_is_no_import_folder() -> None:
    found = find_import_roots(build_contract((UNIT,)), (), {"lib/__init__.py"}.__contains__)
    assert found == {".", "src"}
