"""What real agents kept of their exchanges, read by the gateway's own readers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.wire import build_request, parse, read_chunks, read_message_text

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "data" / "agent_samples"

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples of real agents are not here")


def _iter_lines(name: str) -> Iterator[dict[str, Any]]:
    for line in (SAMPLES / name).read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def test_the_messages_of_a_chat_agent_hold_its_calls_and_results() -> None:
    trajectory = json.loads((SAMPLES / "mini-swe-agent.traj.json").read_text(encoding="utf-8"))
    messages = [message for message in trajectory["messages"] if message["role"] != "exit"]
    request = parse("openai-chat", {"model": "m", "messages": messages})
    assert len(request.messages) == len(messages)
    assert [call.name for call in request.calls] == ["bash"] * 5
    assert [call.id for call in request.calls] == [result.call_id for result in request.results]
    assert b"calc.py" in request.results[0].content


def test_the_answers_that_a_chat_agent_kept_are_complete_and_counted() -> None:
    trajectory = json.loads((SAMPLES / "mini-swe-agent.traj.json").read_text(encoding="utf-8"))
    answers = [
        message["extra"]["response"] for message in trajectory["messages"] if message["role"] == "assistant"
    ]
    request = build_request("openai-chat", is_streamed=False)
    for kept in answers:
        answer = read_chunks(request, (json.dumps(kept).encode(),), "application/json")
        assert answer.is_complete
        assert answer.stop_reason == "tool_calls"
        assert answer.usage is not None
        assert answer.usage.request_input == kept["usage"]["prompt_tokens"]
        assert answer.usage.reasoning is None


def test_the_rollout_of_a_responses_agent_holds_its_calls_and_results() -> None:
    items = [
        line["payload"] for line in _iter_lines("codex.rollout.jsonl") if line["type"] == "response_item"
    ]
    request = parse("openai-responses", {"model": "m", "input": items})
    assert [json.loads(call.arguments)["cmd"] for call in request.calls][:2] == ["ls -la", "cat calc.py"]
    assert [call.id for call in request.calls] == [result.call_id for result in request.results]
    assert [message.role for message in request.messages][:2] == ["developer", "user"]


def test_the_session_of_an_anthropic_agent_holds_its_calls_and_results() -> None:
    lines = [
        line for line in _iter_lines("claude-code.session.jsonl") if line["type"] in {"user", "assistant"}
    ]
    body = {"model": "m", "max_tokens": 9, "messages": [line["message"] for line in lines]}
    request = parse("anthropic-messages", body)
    assert [call.name for call in request.calls] == ["Bash", "Read", "Edit", "Bash"]
    assert [call.id for call in request.calls] == [result.call_id for result in request.results]
    assert not any(result.is_error for result in request.results)
    assert "add()" in read_message_text(request.messages[0])


def test_the_messages_that_an_anthropic_agent_kept_are_answers() -> None:
    request = build_request("anthropic-messages", is_streamed=False)
    kept = [
        line["message"] for line in _iter_lines("claude-code.session.jsonl") if line["type"] == "assistant"
    ]
    answers = [read_chunks(request, (json.dumps(message).encode(),), "application/json") for message in kept]
    assert all(answer.usage is not None and answer.usage.output for answer in answers)
    assert sum(len(answer.calls) for answer in answers) == 4
