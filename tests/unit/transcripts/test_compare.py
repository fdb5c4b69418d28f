"""An agent's record that does not agree with the wire is told, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from repotrial.trace import ResponseUsage
from repotrial.transcripts import GatewayCall, ImportedTranscript, compare_with_gateway, load_transcript
from repotrial.transcripts._compare import (
    CallDiffers,
    CallNotInTranscript,
    CallNotOnWire,
    CostDiffers,
    TokensDiffer,
    digest_arguments,
)

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "transcripts"


@pytest.fixture(name="imported")
def _imported() -> ImportedTranscript:
    return load_transcript(SAMPLES / "gemini-stream.jsonl")


def _see(call_id: str | None, name: str, arguments: bytes) -> GatewayCall:
    return GatewayCall.build(call_id, name, arguments)


READ = _see("c1", "read_file", b'{"path": "pump.py"}')
SHELL = _see("c2", "run_shell_command", b'{"command":"make check"}')


def test_agreement_is_silent(imported: ImportedTranscript) -> None:
    usage = ResponseUsage(request_input_tokens=250, output_tokens=30)
    assert compare_with_gateway(imported, [READ, SHELL], usage=usage) == ()


def test_calls_without_common_ids_are_matched_by_tool_and_arguments(imported: ImportedTranscript) -> None:
    wire = [msgspec.structs.replace(SHELL, call_id=None), msgspec.structs.replace(READ, call_id="w9")]
    assert compare_with_gateway(imported, wire) == ()


def test_a_call_that_no_model_asked_for_is_told(imported: ImportedTranscript) -> None:
    assert compare_with_gateway(imported, [READ]) == (
        CallNotOnWire(order=1, call_id="c2", name="run_shell_command"),
    )


def test_a_call_that_the_agent_keeps_silent_about_is_told(imported: ImportedTranscript) -> None:
    hidden = _see("c3", "run_shell_command", b'{"command":"curl example.org"}')
    again = msgspec.structs.replace(READ, call_id="c4")
    assert compare_with_gateway(imported, [READ, SHELL, hidden, again]) == (
        CallNotInTranscript(call_id="c3", name="run_shell_command"),
        CallNotInTranscript(call_id="c4", name="read_file"),
    )


def test_a_call_with_other_arguments_is_told(imported: ImportedTranscript) -> None:
    other = _see("c2", "run_shell_command", b'{"command":"make install"}')
    (found,) = compare_with_gateway(imported, [READ, other])
    assert isinstance(found, CallDiffers)
    assert found.call_id == "c2"
    assert found.on_wire == f"run_shell_command {other.arguments_digest}"


def test_other_tokens_and_another_price_are_told() -> None:
    imported = load_transcript(SAMPLES / "openhands-conversation")
    usage = ResponseUsage(request_input_tokens=250, cache_read_tokens=0, output_tokens=31)
    wire = [
        _see("c1", "file_editor", b'{"path": "pump.py"}'),
        _see("c2", "terminal", b'{"command": "make check"}'),
    ]
    assert compare_with_gateway(imported, wire, usage=usage, cost_usd="0.30") == (
        TokensDiffer(part="cache_read_tokens", in_transcript=140, on_wire=0),
        TokensDiffer(part="output_tokens", in_transcript=30, on_wire=31),
        CostDiffers(in_transcript="0.25", on_wire="0.30"),
    )
    assert compare_with_gateway(imported, wire, cost_usd="0.250") == ()


def test_without_a_total_the_messages_may_tell_less_than_the_wire_and_never_more() -> None:
    imported = load_transcript(SAMPLES / "pi-session.jsonl")
    wire = [_see("c1", "read", b'{"path": "pump.py"}'), _see("c2", "bash", b'{"command": "make check"}')]
    less = ResponseUsage(request_input_tokens=249, output_tokens=31)
    assert compare_with_gateway(imported, wire, usage=less) == (
        TokensDiffer(part="request_input_tokens", in_transcript=250, on_wire=249),
    )


def test_formats_in_the_agents_own_words_are_not_compared_call_by_call() -> None:
    imported = load_transcript(SAMPLES / "codex-exec.jsonl")
    usage = ResponseUsage(request_input_tokens=250, output_tokens=30)
    assert compare_with_gateway(imported, [READ], usage=usage) == ()


@pytest.mark.parametrize(
    "same",
    [
        b'{"b":[1,2],"a":1,"replace_all":false,"limit":null}',
        b'{"b":[1,2],"a":1}',
        b'{ "a": 1.0, "b": [1, 2.0] }',
        {"a": 1, "b": [1, 2]},
        '{"a":1,"b":[1,2]}',
    ],
)
def test_a_digest_depends_on_the_value_alone(same: object) -> None:
    assert isinstance(same, bytes | str | dict)
    assert digest_arguments(same) == digest_arguments(b'{"a":1,"b":[1,2]}')


def test_other_arguments_have_another_digest() -> None:
    seen = {digest_arguments(each) for each in (b"{}", b'{"a":1}', b'{"a":"1"}', b'{"a":true}', b"not json")}
    assert len(seen) == 5
