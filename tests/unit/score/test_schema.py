"""What is written fits what is published (S14)."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from repotrial.score import build_aggregate
from repotrial.score._evidence import render_document
from repotrial.score._schema import build_score_schemas
from repotrial.score._taxonomy import load_artifact
from support.score_runs import FAILED, HUNG, write_run, write_score


@pytest.mark.parametrize("outcome", [None, FAILED, HUNG])
def test_cards_reports_and_aggregates_fit_their_schemas(tmp_path: Path, outcome: object) -> None:
    outcomes = {} if outcome is None else {"unit": outcome}
    root = write_run(tmp_path / "run", outcomes)  # type: ignore[arg-type]
    card = write_score(root)
    schemas = build_score_schemas()
    for name in ("score", "report"):
        jsonschema.validate(json.loads((root / f"{name}.json").read_bytes()), schemas[name])
    jsonschema.validate(
        json.loads(render_document(build_aggregate({"script": [card]}))), schemas["aggregate"]
    )


def test_an_honest_invalid_fits_its_schema(tmp_path: Path) -> None:
    write_score(tmp_path)
    jsonschema.validate(json.loads((tmp_path / "score.json").read_bytes()), build_score_schemas()["score"])


def test_every_line_of_the_taxonomy_fits_its_schema() -> None:
    schema = build_score_schemas()["failure-mode"]
    for line in load_artifact("failure-taxonomy.jsonl").splitlines():
        jsonschema.validate(json.loads(line), schema)
