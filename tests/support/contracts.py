"""Contract directories for tests: the fixtures, and a minimal one to vary."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect as mi

from repotrial.contract import Contract, Problem, RepositoryPin, SubmodulePin, check_directory

FIXTURES = Path(__file__).parent.parent / "data" / "contracts"
FIXTURE_NAMES = sorted(path.name for path in FIXTURES.iterdir())

CONTRACT_TYPE = mi.type_info(Contract)
"""Looked up once: msgspec reads all annotations anew each time."""

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DIGEST = "sha256:" + "5a" * 32
PIN = RepositoryPin(tree_digest=DIGEST, commit=COMMIT)

MINIMAL = f"""\
schema = "repotrial/contract@1"
id = "minimal"
title = "The smallest contract"
kind = "bug-fix"

[repository]
kind = "git"
source = "repo.bundle"
commit = "{COMMIT}"

[environment]
image = "host"

[[checks]]
id = "unit"
gate = "acceptance"
run = "make check"
"""


def write_contract(
    directory: Path, text: str | bytes = MINIMAL, *, files: Mapping[str, str | bytes] | None = None
) -> Path:
    """A contract directory with a statement and whatever else is given."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in {"contract.toml": text, "statement.md": "Make it right.\n", **(files or {})}.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return directory


def copy_fixture(name: str, directory: Path) -> Path:
    target = directory / name
    shutil.copytree(FIXTURES / name, target)
    return target


def problems_of(
    directory: Path, text: str | bytes = MINIMAL, *, files: Mapping[str, str | bytes] | None = None
) -> list[Problem]:
    """What the loader says about a contract with this text."""
    _, problems = check_directory(write_contract(directory, text, files=files))
    return problems


def codes_of(problems: list[Problem]) -> list[tuple[str, str]]:
    return [(problem.code, problem.field) for problem in problems]


def pin_for(contract: Any) -> RepositoryPin:
    """A pin that fits the contract's repository."""
    declared = getattr(contract.repository, "submodules", ())
    return RepositoryPin(
        tree_digest=DIGEST,
        commit=getattr(contract.repository, "commit", None),
        submodules=tuple(SubmodulePin(path=module.path, commit=module.commit) for module in declared),
    )


def document_of(contract: Contract) -> dict[str, Any]:
    """All of a contract as a document would hold it, defaults written out."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(contract))
    return document
