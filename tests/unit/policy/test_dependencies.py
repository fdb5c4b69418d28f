"""New dependencies: what a change requires and imports that nobody knew."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from repotrial.change import AddedLine, ChangedFile, ChangeView
from repotrial.contract import DependencyPolicy, Policy
from repotrial.policy import KnownNames, NewDependency, check_dependencies, find_new_dependencies


def _file(
    path: str, source: str, *, kind: Literal["added", "modified"] = "modified", removed: tuple[str, ...] = ()
) -> ChangedFile:
    added = tuple(AddedLine(number, text) for number, text in enumerate(source.split("\n"), start=1))
    return ChangedFile(path=path, kind=kind, added_lines=added, removed_lines=removed, mode="100644")


def _find(
    *files: ChangedFile, known: KnownNames | None = None, policy: DependencyPolicy | None = None
) -> tuple[NewDependency, ...]:
    view = ChangeView(files=files, digest="sha256:" + "0" * 64)
    return find_new_dependencies(view, policy or DependencyPolicy(), known or KnownNames())


@pytest.mark.parametrize("kind", ["added", "modified"])
@pytest.mark.parametrize(
    ("path", "source", "names"),
    [
        (
            "requirements.txt",
            "requests>=2\n# note\nFlask[async]==3 ; x\n\n-r other.txt\nnumpy",
            ["requests", "Flask", "numpy"],
        ),
        ("requirements-dev.txt", "git+https://example.org/x.git", ["git+https://example.org/x.git"]),
        (
            "pyproject.toml",
            '[project]\ndependencies = ["rich>=1", "attrs"]\nrequires-python = ">=3.11"',
            ["rich", "attrs"],
        ),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.11"\nhttpx = "^0.27"', ["httpx"]),
        ("package.json", '{"version": "1.0.0",\n"dependencies": {\n"left-pad": "^1.3.0"\n}}', ["left-pad"]),
        (
            "Cargo.toml",
            '[package]\nedition = "2021"\n[dependencies]\nserde = { version = "1" }\nrand = "0.8"',
            ["serde", "rand"],
        ),
        ("go.mod", "module example.org/x\n\nrequire (\n\tgolang.org/x/text v0.3.0\n)", ["golang.org/x/text"]),
        ("setup.py", "install_requires=['six>=1.0'],", ["six"]),
    ],
)
def test_requirements_of_every_manifest_are_found(
    path: str, source: str, names: list[str], kind: Literal["added", "modified"]
) -> None:
    found = [each for each in _find(_file(path, source, kind=kind)) if each.source == "manifest"]
    assert [each.name for each in found] == names
    assert all(each.declared and each.name in source.split("\n")[each.line - 1] for each in found)


def test_a_version_that_moves_is_no_new_dependency() -> None:
    assert _find(_file("requirements.txt", "Requests>=3", removed=("requests>=2",))) == ()
    assert (
        _find(_file("requirements.txt", "Re_quests>=3"), known=KnownNames(declared=frozenset({"re-quests"})))
        == ()
    )


def test_a_file_that_the_contract_calls_a_manifest_is_one() -> None:
    policy = DependencyPolicy(manifests=("deps/*.lock",))
    assert [each.name for each in _find(_file("deps/a.lock", "left==1 \\"), policy=policy)] == ["left"]
    assert _find(_file("deps/a.lock", "left==1")) == ()


@pytest.mark.parametrize("kind", ["added", "modified"])
def test_an_import_that_nothing_provides_is_found(kind: Literal["added", "modified"]) -> None:
    source = (
        "import os, madeup.sub as m\nfrom invented import (\n    a,\n)\nfrom . import b\nfrom mine import c"
    )
    source += "\nimport numpy"
    known = KnownNames(project=frozenset({"mine"}), installed=frozenset({"numpy"}))
    found = _find(_file("src/a.py", source, kind=kind), known=known)
    assert [(each.name, each.line, each.declared) for each in found] == [
        ("madeup", 1, False),
        ("invented", 2, False),
    ]


def test_an_import_that_a_manifest_of_the_change_declares_is_declared() -> None:
    found = _find(_file("a.py", "import my_lib"), _file("requirements.txt", "My-Lib>=1"))
    assert [(each.source, each.declared) for each in found] == [("manifest", True), ("import", True)]


def test_a_module_that_the_change_brings_is_its_own() -> None:
    assert _find(_file("src/thing/__init__.py", "x = 1", kind="added"), _file("a.py", "import thing")) == ()


def test_bare_imports_of_javascript_are_found() -> None:
    source = "import x from '@scope/name/deep'\nconst fs = require('fs')\nimport './local'\n// require('no')"
    source += "\nimport('lazy')\nimport t from 'node:test'\nexport * from 'other/sub'"
    found = _find(_file("a.mjs", source))
    assert [(each.name, each.line) for each in found] == [("@scope/name", 1), ("lazy", 5), ("other", 7)]


@pytest.mark.parametrize(
    ("rule", "lines"), [("free", []), ("declared-only", ["'ghost'"]), ("unchanged", ["'rich'", "'ghost'"])]
)
def test_the_rule_of_the_policy_decides(rule: str, lines: list[str]) -> None:
    found = _find(
        _file("requirements.txt", "rich"),
        _file("a.py", "import rich\nimport ghost"),
        known=KnownNames(installed=frozenset({"rich"})),
    )
    policy = msgspec.convert(
        {"dependencies": {"rule": rule}, "violations": {"dependencies": "compliance"}}, Policy
    )
    violations = check_dependencies(found, policy)
    assert [each.message.rpartition("found ")[2].split()[0] for each in violations] == lines
    assert {each.severity for each in violations} <= {"compliance"}


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"dependencies": 3}', "[]", "dependencies = 1", "\0"])
@pytest.mark.parametrize("path", ["package.json", "pyproject.toml", "Cargo.toml", "requirements.txt"])
def test_a_broken_manifest_breaks_nothing(path: str, text: str) -> None:
    assert _find(_file(path, text, kind="added")) == ()
