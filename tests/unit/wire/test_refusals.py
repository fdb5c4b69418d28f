"""The gateway's own answers, in the form that each dialect's clients take as final."""

from __future__ import annotations

import json
from typing import Any, get_args, get_type_hints

import pytest

from repotrial.wire import Dialect, Refusal
from repotrial.wire._refusals import build_break, build_refusal
from repotrial.wire._turn import build_model_list, build_token_count
from support.wire import DIALECTS, build_answer, build_request, build_turn, read_chunks

BUDGET = Refusal(status=402, kind="budget", message="the budget of the run is spent")


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        ("openai-chat", {"type": "insufficient_quota", "code": "insufficient_quota", "param": None}),
        ("openai-responses", {"type": "insufficient_quota", "code": "insufficient_quota", "param": None}),
        ("anthropic-messages", {"type": "billing_error"}),
        ("gemini", {"code": 402, "status": "FAILED_PRECONDITION"}),
        (None, {"type": "insufficient_quota", "code": "insufficient_quota", "param": None}),
    ],
)
def test_a_spent_budget_is_said_in_the_dialects_own_form(
    dialect: Dialect | None, expected: dict[str, Any]
) -> None:
    answer = build_refusal(dialect, BUDGET)
    assert answer.status == 402
    assert answer.headers["x-should-retry"] == "false"
    body = json.loads(answer.body)
    assert body["error"] == {**expected, "message": BUDGET.message}
    assert (body.get("type") == "error") == (dialect == "anthropic-messages")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "kind", [kind for kind in get_args(get_type_hints(Refusal)["kind"]) if kind != "upstream"]
)
def test_no_refusal_invites_another_try(dialect: Dialect, kind: Any) -> None:
    answer = build_refusal(dialect, Refusal(status=403, kind=kind, message="no"))
    assert answer.headers["x-should-retry"] == "false"
    for word in (b"server_error", b"overloaded", b"EXHAUSTED", b"UNAVAILABLE", b"rate_limit"):
        assert word not in answer.body


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_failed_on_the_other_side_may_be_tried_again(dialect: Dialect) -> None:
    answer = build_refusal(dialect, Refusal(status=502, kind="upstream", message="it broke off"))
    assert answer.headers["x-should-retry"] == "true"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_broken_stream_ends_with_an_error_that_its_readers_see(dialect: Dialect) -> None:
    request = build_request(dialect)
    text = build_answer(request, build_turn("Hi", calls=())).chunks
    end = build_break(dialect, BUDGET)
    assert end.endswith(b"\n\n")
    assert BUDGET.message.encode() in end
    answer = read_chunks(request, (text[0], end), "text/event-stream")
    assert not answer.is_complete


def test_answers_that_need_no_model() -> None:
    assert json.loads(build_token_count("anthropic-messages", 7).chunks[0]) == {"input_tokens": 7}
    assert json.loads(build_token_count("gemini", 7).chunks[0]) == {"totalTokens": 7}
    assert json.loads(build_model_list(None, ["a"]).body)["data"][0]["id"] == "a"
    assert json.loads(build_model_list("gemini", ["a"]).body)["models"][0]["name"] == "models/a"
