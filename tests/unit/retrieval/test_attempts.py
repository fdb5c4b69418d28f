"""Attempts that do not count, in words."""

from __future__ import annotations

from repotrial.retrieval import LeftOutAttempt
from repotrial.retrieval._metrics import describe_left_out


def _build(run: str, reason: str) -> LeftOutAttempt:
    return LeftOutAttempt(run=run, config_name="pi", task="fix", reason=reason)


def test_every_reason_has_its_number_and_its_names() -> None:
    attempts = [_build("a", "stopped"), _build("b", "not sealed"), _build("c", "stopped")]
    assert list(describe_left_out(attempts)) == [
        "Attempts left out, as by repotrial run summary: 1 not sealed (b).",
        "Attempts left out, as by repotrial run summary: 2 stopped (a, c).",
    ]


def test_of_many_names_some_are_shown_and_all_are_counted() -> None:
    (said,) = describe_left_out(_build(f"r{number}", "stopped") for number in range(12))
    assert "12 stopped (r0, " in said
    assert said.endswith("r9 and 2 more).")


def test_nothing_is_said_where_nothing_is_left_out() -> None:
    assert list(describe_left_out([])) == []
