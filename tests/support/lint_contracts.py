"""A sound contract in memory, and ways to spoil it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial.contract import (
    Contract,
    ContractLock,
    FilePin,
    Inventory,
    LoadedContract,
    Problem,
    lint_contract,
)
from repotrial.contract._contract import PartDigests

STATEMENT = """\
# fill() breaks East Asian text

`fill(text, 10)` returns lines that are twice as wide as asked when the text has wide characters.

No line of the result may be wider than the given width, counted in terminal cells. Text without wide
characters must be filled exactly as before.
"""

REFERENCE = b"""\
diff --git a/textkit/wrap.py b/textkit/wrap.py
index 1111111..2222222 100644
--- a/textkit/wrap.py
+++ b/textkit/wrap.py
@@ -1,5 +1,9 @@
 import re
+import unicodedata
+
+def cell_width(char):
+    return 2 if unicodedata.east_asian_width(char) in "WF" else 1

 def measure(word):
-    total = len(word)
+    total = sum(cell_width(char) for char in word)
     return total
"""

INVENTORY = Inventory(
    fail_to_pass=("tests/test_wrap.py::test_wide_text",), pass_to_pass=("tests/test_wrap.py::test_plain",)
)

UNIT: dict[str, Any] = {
    "id": "unit",
    "gate": "acceptance",
    "layer": "unit",
    "run": "python -m pytest --junitxml=$REPOTRIAL_RESULTS/junit.xml tests",
    "results": [{"format": "junit", "path": "junit.xml"}],
    "inventory": "checks/unit.json",
    "files": [{"from": "checks/unit", "to": "tests"}],
    "baseline": "fail",
    "timeout_seconds": 120,
}

CONTRACT: dict[str, Any] = {
    "schema": "repotrial/contract@1",
    "id": "textkit-wide-chars",
    "title": "fill() breaks East Asian text",
    "kind": "bug-fix",
    "ecosystem": "python",
    "reference": "reference.patch",
    "repository": {"kind": "git", "source": "repo.bundle", "commit": "4" * 40},
    "environment": {"image": "host", "tools": {"python": ">=3.11"}, "variables": {"TZ": "UTC"}},
    "setup": [{"run": "python -m compileall textkit", "timeout_seconds": 60}],
    "checks": [UNIT],
    "policy": {
        "writable": ["textkit/**", "tests/**"],
        "protected": ["tests/**", "**/conftest.py"],
    },
    "scoring": {"build_gate": "none: the package is not built"},
}


def pin(path: str) -> FilePin:
    return FilePin(path=path, digest=digest_bytes(path.encode()))


FILES = (pin("checks/unit.json"), pin("checks/unit/test_wrap.py"))


def lock() -> ContractLock:
    digest = digest_bytes(b"")
    return msgspec.convert(
        {
            "schema": "repotrial/lock@1",
            "id": "textkit-wide-chars",
            "version_id": digest,
            "parts": dict.fromkeys(PartDigests.__struct_fields__, digest),
            "repository": {"tree_digest": digest},
            "files": [],
            "statement_digest": digest,
            "scoring_digest": digest,
            "replay": "replayable",
        },
        ContractLock,
    )


DROP = object()
"""In place of a value: the key is left out."""


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `change` in it: tables are merged unless their kind is given, the rest is replaced."""
    result = dict(base)
    for key, value in change.items():
        old = result.get(key)
        keeps_kind = isinstance(value, Mapping) and isinstance(old, Mapping) and "kind" not in value
        result[key] = merged(old or {}, value) if keeps_kind else value
    return {key: value for key, value in result.items() if value is not DROP}


def unit(**change: object) -> dict[str, Any]:
    """The acceptance check of the sound contract, changed."""
    return merged(UNIT, change)


@dataclass(frozen=True, kw_only=True)
class Spoiled:
    """What is different from the sound contract."""

    contract: Mapping[str, Any] = field(default_factory=dict)
    statement: str = STATEMENT
    reference: bytes | None = REFERENCE
    inventories: Mapping[str, Inventory] = field(default_factory=lambda: {"unit": INVENTORY})
    files: tuple[FilePin, ...] = FILES
    is_locked: bool = False
    lines: Mapping[str, int] = field(default_factory=dict)

    def load(self) -> LoadedContract:
        document = merged(CONTRACT, self.contract)
        contract = msgspec.convert(document, Contract)
        listed = {check.id for check in contract.checks if check.inventory is not None}
        return LoadedContract(
            directory=Path("contract"),
            contract=contract,
            statement=self.statement,
            reference=self.reference if "reference" in document else None,
            inventories={key: value for key, value in self.inventories.items() if key in listed},
            files=self.files,
            lock=lock() if self.is_locked else None,
            locate=self.lines.get,
        )

    def lint(self) -> list[Problem]:
        return lint_contract(self.load())

    def codes(self) -> set[str]:
        return {problem.code for problem in self.lint()}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One contract, and whether one rule has something to say about it."""

    code: str
    name: str
    kind: Literal["speaks", "quiet", "evasion"]
    spoiled: Spoiled

    @property
    def is_reported(self) -> bool:
        """An evasion is a contract that would like to be quiet."""
        return self.kind != "quiet"

    def __str__(self) -> str:
        return f"{self.code}: {self.kind}: {self.name}"


def speaks(code: str, name: str, **change: Any) -> Case:
    return Case(code=code, name=name, kind="speaks", spoiled=Spoiled(**change))


def quiet(code: str, name: str, **change: Any) -> Case:
    return Case(code=code, name=name, kind="quiet", spoiled=Spoiled(**change))


def evasion(code: str, name: str, **change: Any) -> Case:
    return Case(code=code, name=name, kind="evasion", spoiled=Spoiled(**change))
