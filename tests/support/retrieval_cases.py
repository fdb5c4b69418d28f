"""The packed cases of the retrieval evaluation, where they are beside the project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

DIRECTORY = Path(__file__).parents[2].parent / "shared" / "data" / "retrieval_cases"


def list_cases() -> list[Any]:
    """Every case as a parameter; one that skips and says why where there are none."""
    files = sorted(DIRECTORY.glob("*.json"))
    if not files:
        reason = "the packed cases are not beside the project (../shared/data/retrieval_cases)"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(file, id=file.stem) for file in files]


def load_case(file: Path) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(file.read_text())
    return case


def unpack_case(case: dict[str, Any], directory: Path) -> Path:
    """Write a case's input tree; its root."""
    root = directory / str(case["name"])
    for name, text in case["input"].items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return root
