"""The published schema of a line, against lines that the writer makes."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repotrial.trace import build_trace_schema, iter_payload_types
from support.traces import open_writer, payloads_of

_VALIDATOR = jsonschema.Draft202012Validator(build_trace_schema())

PAYLOAD_TYPES = {row.name: row.payload for row in iter_payload_types()}


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(build_trace_schema())
    assert {part["title"] for part in build_trace_schema()["oneOf"]} == set(PAYLOAD_TYPES)


@pytest.mark.parametrize("event_type", sorted(PAYLOAD_TYPES))
@settings(max_examples=4)
@given(data=st.data())
def test_a_line_fits_the_schema_and_a_changed_one_does_not(event_type: str, data: st.DataObject) -> None:
    payload = data.draw(payloads_of(PAYLOAD_TYPES[event_type]))
    event = {
        "actor": "agent",
        "hash": "0" * 64,
        "payload": orjson.loads(msgspec.json.encode(payload)),
        "seq": 3,
        "t": 5,
        "type": event_type,
    }
    assert _VALIDATOR.is_valid(event)
    assert not _VALIDATOR.is_valid({**event, "more": 1})
    assert not _VALIDATOR.is_valid({**event, "actor": "nobody"})
    assert not _VALIDATOR.is_valid({**event, "payload": {**event["payload"], "more": 1}})


def test_lines_of_the_writer_fit_the_schema(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        path = writer.paths.trace
    for line in path.read_bytes().splitlines():
        _VALIDATOR.validate(orjson.loads(line))
