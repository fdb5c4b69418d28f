"""The packed cases of the retrieval evaluation: input trees as real runs leave them, and expected figures.

The figures are those of another implementation, faults included; `retrieval_differences` allows for them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

DIRECTORY = Path(__file__).parents[1] / "data" / "retrieval_cases"


def list_cases() -> list[Any]:
    """Every case as a parameter."""
    return [pytest.param(file, id=file.stem) for file in sorted(DIRECTORY.glob("*.json"))]


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
