"""How attempts are judged: nothing that was not seen to be stopped counts as held."""

from __future__ import annotations

from typing import get_args

import pytest

from repotrial._core.words import Level
from repotrial.isolation import Layer
from repotrial.machine import ProbeReport
from repotrial.machine._probe_suite._attempts import ATTEMPTS, EscapeAttempt, EscapeSign
from repotrial.machine._probe_suite._run import AttemptResult, AttemptVerdict, _judge

EVERY_LAYER: frozenset[Layer] = frozenset(get_args(Layer))


def judge(
    outcome: tuple[str, str] | None,
    *,
    promises: frozenset[Layer] = EVERY_LAYER,
    layer: Layer = "network",
    seen: frozenset[EscapeSign] = frozenset(),
) -> AttemptResult:
    attempt = EscapeAttempt(name="reach-it", layer=layer, program="", evidence="connection")
    return _judge(attempt, promises, {} if outcome is None else {"reach-it": outcome}, seen)


def report(*verdicts: AttemptVerdict) -> ProbeReport:
    results = tuple(
        AttemptResult(name="x", tries="x", layer="mounts", expected="stopped", found="", verdict=verdict)
        for verdict in verdicts
    )
    return ProbeReport(level=Level.L3, harness_uid=1, sandbox_uid=1, results=results)


def test_what_was_stopped_held() -> None:
    result = judge(("stopped", "EPERM"))
    assert (result.tries, result.expected, result.found, result.verdict) == (
        "reach it",
        "stopped",
        "EPERM",
        "held",
    )


@pytest.mark.parametrize(("outcome", "verdict"), [("escaped", "escaped"), ("broken", "broken")])
def test_what_was_not_stopped_did_not_hold(outcome: str, verdict: str) -> None:
    assert judge((outcome, "")).verdict == verdict


def test_an_attempt_that_was_not_made_proves_nothing() -> None:
    assert judge(None).verdict == "broken"


def test_what_is_seen_outside_counts_more_than_what_was_said_inside() -> None:
    result = judge(("stopped", "EPERM"), seen=frozenset({"connection"}))
    assert (result.verdict, result.found) == ("escaped", "seen outside: connection")
    assert judge(("stopped", "EPERM"), seen=frozenset({"datagram"})).verdict == "held"


def test_a_level_is_measured_by_what_it_promises() -> None:
    result = judge(("escaped", "it succeeded"), promises=frozenset({"system-calls"}))
    assert (result.expected, result.verdict) == ("not-promised", "not-promised")
    assert (
        judge(("escaped", ""), promises=frozenset({"system-calls"}), layer="system-calls").verdict
        == "escaped"
    )


def test_one_failure_among_many_is_a_failure() -> None:
    assert report("held", "not-promised").has_held
    assert not report("held", "escaped").has_held
    assert not report("held", "broken").has_held


def test_attempts_aim_at_every_layer_that_can_be_promised() -> None:
    assert {attempt.layer for attempt in ATTEMPTS} == EVERY_LAYER
