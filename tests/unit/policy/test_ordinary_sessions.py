"""Recorded sessions of real agents at ordinary work: rules and breakers leave them alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from repotrial.contract import Limits
from repotrial.policy import (
    BreakerState,
    TextFinding,
    build_settings,
    check_text,
    decide,
    read_tool_use,
)
from repotrial.policy._stages import find_stage
from repotrial.shell import parse_shell
from support.breakers import Record

TRACES = Path(__file__).resolve().parents[4] / "shared" / "data" / "traces"
FILES = sorted(TRACES.glob("*/*.json*"))
_LIMITS = Limits(wall_seconds=10**6, command_seconds=10**3, cost_usd=Decimal(10**6))

pytestmark = pytest.mark.skipif(not FILES, reason="recorded sessions are not on this machine")


def _iter_blocks(path: Path) -> Iterator[dict[str, Any]]:
    """What an agent said and called, as text and call blocks."""
    if path.suffix == ".json":
        for step in json.loads(path.read_text("utf-8")).get("steps", []):
            if step.get("source") == "agent" and isinstance(step.get("message"), str):
                yield {"text": step["message"]}
            calls = [call for call in step.get("tool_calls") or [] if isinstance(call, dict)]
            yield from ({"name": call["function_name"], "input": call["arguments"]} for call in calls)
        return
    for line in path.read_text("utf-8", "replace").splitlines():
        message = json.loads(line).get("message") if line.startswith("{") else None
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list) and message is not None and message.get("role") == "assistant":
            yield from (block for block in content if block.get("type") in {"text", "tool_use"})


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_an_ordinary_session_meets_no_rule_beyond_notes(path: Path) -> None:
    record = Record()
    found: list[TextFinding] = []
    for number, block in enumerate(_iter_blocks(path)):
        if "text" in block:
            found += check_text(block["text"], where="message")
            continue
        use = read_tool_use(block["name"], json.dumps(block["input"]))
        for command in use.commands:
            assert parse_shell(command).is_complete, command
            found += check_text(command, where="command")
        record.call(block["name"], dict(block["input"]))
        if find_stage(use) != "read":
            record.change("a", str(number))
    assert [finding for finding in found if finding.finding_class != "note"] == []
    state = BreakerState(build_settings(_LIMITS))
    assert [decision for event in record.events for decision in decide(state, event)] == []
