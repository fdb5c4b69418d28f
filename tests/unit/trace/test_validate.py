"""Payloads at the border: typed, canonical, or refused with the field's name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import msgspec
import orjson
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from repotrial.trace import EventPayload, PhaseChanged, iter_payload_types
from repotrial.trace._validate import build_tree
from support.errors import raises_code
from support.exhaustive import examples
from support.traces import DIGEST, build_invocation, build_opened, payloads_of

PAYLOAD_TYPES = {row.name: row.payload for row in iter_payload_types()}


@pytest.mark.parametrize("event_type", sorted(PAYLOAD_TYPES))
@settings(max_examples=examples(20, thorough=400))
@given(data=st.data())
def test_our_bytes_are_those_of_rfc_8785(event_type: str, data: st.DataObject) -> None:
    payload = data.draw(payloads_of(PAYLOAD_TYPES[event_type]))
    tree = build_tree(payload)
    ours = orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)
    assert ours == rfc8785.dumps(tree)
    assert msgspec.json.decode(ours, type=PAYLOAD_TYPES[event_type]) == payload


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tool": 7}, "tool"),
        ({"tool": ""}, "tool"),
        ({"tool": b"bytes"}, "tool"),
        ({"tool": dt.datetime.now(tz=dt.UTC)}, "tool"),
        ({"tool": Decimal("1.5")}, "tool"),
        ({"wall_us": -1}, "wall_us"),
        ({"wall_us": 2**53}, "wall_us"),
        ({"wall_us": 1.0}, "wall_us"),
        ({"wall_us": float("nan")}, "wall_us"),
        ({"wall_us": True}, "wall_us"),
        ({"wall_us": None}, "wall_us"),
        ({"source": "elsewhere"}, "source"),
        ({"arguments": "text"}, "arguments"),
        ({"exit": None}, "exit"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], field: str) -> None:
    with raises_code("payload-refused", match=rf"tool-invocation: .*\$\.{field}"):
        build_tree(msgspec.structs.replace(build_invocation(), **change))


def test_a_digest_must_be_one() -> None:
    opened = msgspec.structs.replace(build_opened(), manifest_digest=DIGEST[:-1] + "G")
    with raises_code("payload-refused", match="manifest_digest"):
        build_tree(opened)


def test_an_object_that_json_does_not_know_is_refused() -> None:
    with raises_code("payload-refused", match="phase-changed"):
        build_tree(PhaseChanged(phase=object(), previous=None))  # type: ignore[arg-type]


def test_a_payload_of_ones_own_is_refused() -> None:
    class Mine(EventPayload, frozen=True, kw_only=True):
        event_type = "mine"

    with raises_code("payload-refused", match="Mine"):
        build_tree(Mine())


def test_an_endless_payload_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with raises_code("payload-refused"):
        build_tree(PhaseChanged(phase=endless, previous=None))  # type: ignore[arg-type]
