"""The published schemas: they are what is in `schemas/`, and documents hold against them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from repotrial.retrieval._validate import build_retrieval_schemas
from support.retrieval_cases import list_cases, load_case, unpack_case
from support.retrieval_differences import normalize_case

ROOT = Path(__file__).parents[3]
SCHEMAS = build_retrieval_schemas()


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_the_published_file_is_the_schema(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    published = ROOT / "schemas" / f"{name}.schema.json"
    assert json.loads(published.read_text()) == SCHEMAS[name], "run tools/generate.py"


@pytest.mark.parametrize("file", list_cases())
def test_the_references_documents_are_of_version_1_0(file: Path) -> None:
    for name, document in load_case(file)["expected"].items():
        for kind in ("events", "metrics"):
            if name.endswith(f".retrieval_{kind}.json"):
                assert _list_problems(f"retrieval-{kind}-1.0", {**document, "generated_at": "then"}) == []


@pytest.mark.parametrize("file", list_cases())
def test_our_documents_are_of_version_1_1_and_not_of_1_0(file: Path, tmp_path: Path) -> None:
    case = load_case(file)
    if case["commands"] == ["pipeline_events"] or file.stem[:2] not in {"03", "13", "17", "21", "44", "62"}:
        return
    for task in normalize_case(case, unpack_case(case, tmp_path)):
        assert task.target is not None
        document = json.loads(Path(task.target).read_text())
        assert _list_problems("retrieval-events-1.1", document) == []
        assert _list_problems("retrieval-events-1.0", document) != []


def _list_problems(name: str, document: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(SCHEMAS[name]).iter_errors(document)]
