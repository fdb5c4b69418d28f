"""The table of event types: complete, documented, and the same everywhere."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from types import ModuleType
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.canonical import DecimalText
from repotrial.trace import TestIds, iter_payload_types
from repotrial.trace import _body as body_module
from repotrial.trace._payloads import (
    PAYLOAD_TYPES,
    DroppablePayload,
    Payload,
    actions,
    checks,
    common,
    course,
    programs,
)

_MODULES = [body_module, actions, checks, common, course, programs]

# P14, S12, and what the trace says about itself.
_EVENT_TYPES = {
    "change-taken",
    "draw-revealed",
    "harness-execution",
    "manifest-bound",
    "monitor-report",
    "acceptance-execution",
    "agent-configuration",
    "agent-transcript",
    "briefing",
    "build-check",
    "intervention",
    "monitor-alert",
    "operator-decision",
    "patch-application",
    "phase-changed",
    "program-end",
    "program-start",
    "programs-folded",
    "prompt",
    "response",
    "run-opened",
    "stage-transition",
    "static-check",
    "termination",
    "tool-invocation",
    "trace-truncated",
    "witness-report",
    "workspace-mutation",
}


def test_every_event_type_has_one_payload() -> None:
    assert set(PAYLOAD_TYPES) == _EVENT_TYPES
    assert len(get_args(Payload)) == len(PAYLOAD_TYPES)


def test_the_table_for_the_documentation_is_complete() -> None:
    rows = list(iter_payload_types())
    assert {row.name for row in rows} == _EVENT_TYPES
    assert all(row.summary.endswith(".") for row in rows)
    assert {row.payload for row in rows if row.droppable} == set(get_args(DroppablePayload))


@pytest.mark.parametrize("module", _MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_field_has_a_docstring(module: ModuleType) -> None:
    missing = []
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.ClassDef):
            continue
        for statement, after in pairwise([*node.body, ast.Pass()]):
            if isinstance(statement, ast.AnnAssign) and "ClassVar" not in ast.unparse(statement.annotation):
                documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                missing += [] if documented else [f"{node.name}.{ast.unparse(statement.target)}"]
    assert missing == []


def test_no_payload_holds_a_fraction_or_a_free_mapping() -> None:
    pending: list[msgspec.inspect.Type] = list(msgspec.inspect.multi_type_info(PAYLOAD_TYPES.values()))
    seen = set()
    while pending:
        info = pending.pop()
        assert not isinstance(
            info, msgspec.inspect.FloatType | msgspec.inspect.DictType | msgspec.inspect.AnyType
        )
        if isinstance(info, msgspec.inspect.StructType) and info.cls not in seen:
            seen.add(info.cls)
            assert info.forbid_unknown_fields, info.cls
            assert info.cls.__struct_config__.frozen, info.cls
            pending += [field.type for field in info.fields]
        elif isinstance(info, msgspec.inspect.UnionType):
            pending += info.types
        elif isinstance(info, msgspec.inspect.VarTupleType):
            pending.append(info.item_type)


@pytest.mark.parametrize("text", ["0", "1", "-1", "0.5", "-0.5", "10.05"])
def test_a_decimal_has_one_spelling(text: str) -> None:
    assert msgspec.convert(text, DecimalText) == text


@pytest.mark.parametrize(
    "text", ["", "-0", "00", "01", "1.0", "1.", ".5", "+1", "1e3", "NaN", "0.0", "1\n", "\u0661"]
)
def test_other_spellings_of_decimals_are_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(text, DecimalText)


@given(st.lists(st.text(max_size=10)))
def test_test_ids_are_sorted_counted_and_bounded(ids: list[str]) -> None:
    listed = TestIds.build(ids, max_bytes=30)
    assert listed.count == len(set(ids))
    assert list(listed.ids) == sorted(set(ids))[: len(listed.ids)]
    assert sum(len(item.encode("utf-8", "surrogatepass")) for item in listed.ids) <= 30
    assert TestIds.build(reversed(ids)).digest == listed.digest


def test_a_hundred_thousand_failing_tests_fit_into_an_event() -> None:
    listed = TestIds.build(f"test_{number}" for number in range(100_000))
    assert listed.count == 100_000
    assert len(msgspec.json.encode(listed)) < 200_000
