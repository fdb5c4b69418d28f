"""Documents hold against the schemas in `schemas/`; a test of the house compares those with the code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from support.retrieval_cases import list_cases, load_case, unpack_case
from support.retrieval_differences import normalize_case

PUBLISHED = Path(__file__).parents[3] / "schemas"
SCHEMAS = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_bytes())
    for path in PUBLISHED.glob("retrieval-*.schema.json")
}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_the_published_file_is_a_schema(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])


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
