"""What is written fits what is published (S14)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from repotrial.score import build_aggregate
from support.score_runs import FAILED, HUNG, write_run, write_score

SCHEMAS = Path(__file__).parents[3] / "schemas"


def read_schema(name: str) -> dict[str, Any]:
    """As it is published: a test of the house compares it with the code."""
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_bytes())
    return schema


@pytest.mark.parametrize("outcome", [None, FAILED, HUNG])
def test_cards_reports_and_aggregates_fit_their_schemas(tmp_path: Path, outcome: object) -> None:
    outcomes = {} if outcome is None else {"unit": outcome}
    root = write_run(tmp_path / "run", outcomes)  # type: ignore[arg-type]
    card = write_score(root)
    for name in ("score", "report"):
        jsonschema.validate(json.loads((root / f"{name}.json").read_bytes()), read_schema(name))
    aggregate = build_aggregate({"script": [card]})
    jsonschema.validate(json.loads(msgspec.json.encode(aggregate)), read_schema("aggregate"))


def test_an_honest_invalid_fits_its_schema(tmp_path: Path) -> None:
    write_score(tmp_path)
    jsonschema.validate(json.loads((tmp_path / "score.json").read_bytes()), read_schema("score"))


def test_every_line_of_the_taxonomy_fits_its_schema() -> None:
    schema = read_schema("failure-mode")
    for line in SCHEMAS.joinpath("rubric", "failure-taxonomy.jsonl").read_text("utf-8").splitlines():
        jsonschema.validate(json.loads(line), schema)
