"""Rules over spending and over what other monitors report (P12, P19, P20, B15)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

import msgspec

from repotrial.policy._breaker_facts import ActionKind, CallFacts, Decision
from repotrial.policy._breaker_rules import build_decision
from repotrial.policy._thresholds import BreakerSettings
from repotrial.trace import MonitorAlert, Response, Signal

POLICY: Final = "policy"
"""The monitor whose alerts are findings in text."""

_RESOURCE_MONITORS: Final = frozenset({"budget", "resources"})
_HUNDRED: Final = 100
_MILLION: Final = 1_000_000


class SpendingRules:
    """The run's ceiling and caps, and budgets that go without milestones (B2, B15)."""

    def __init__(self, settings: BreakerSettings) -> None:
        caps = settings.caps
        self._call_cap = caps.tool_calls
        self._first_beyond = settings.first_beyond
        self._ceilings = (
            ("wall-time", "wall_us", caps.wall_us),
            ("token-cap", "tokens", caps.tokens),
            ("cost-cap", "cost_micro_usd", caps.cost_micro_usd),
        )
        self._percent = settings.thresholds.dominance.percent
        self._began_us: int | None = None
        self._tokens = self._calls = self._cost = 0
        self._milestone = {"wall_us": 0, "tokens": 0, "cost_micro_usd": 0}
        self._milestone_seq: int | None = None
        self.fired: set[str] = set()

    def begin(self, at_us: int) -> None:
        """The agent begins to act."""
        self._began_us = at_us

    def take_response(self, response: Response) -> None:
        """Count tokens; what is not known is not counted."""
        usage = response.usage
        given = usage.request_input_tokens
        if given is None:
            parts = (
                usage.input_uncached_tokens,
                usage.cache_read_tokens,
                usage.cache_write_5m_tokens,
                usage.cache_write_1h_tokens,
            )
            given = sum(part for part in parts if part is not None)
        self._tokens += given + (usage.output_tokens or 0)
        if response.cost_usd is not None:
            self._cost += int(Decimal(response.cost_usd) * _MILLION)

    def take_call(self, call: CallFacts, *, is_milestone: bool) -> Iterator[Decision]:
        """Count a call; a passing check is a milestone."""
        self._calls += 1
        cap = self._call_cap
        if cap is not None and self._calls == cap + self._first_beyond and "tool-call-cap" not in self.fired:
            self.fired.add("tool-call-cap")
            yield build_decision(
                "tool-call-cap",
                Signal(name="tool_calls", value=self._calls, threshold=cap),
                (call.seq,),
                "terminate",
            )
        if is_milestone:
            self.take_milestone(call.seq, call.at_us)

    def take_milestone(self, seq: int, at_us: int) -> None:
        """A check that passes and did not before; under older rules, any new tree as well (B15)."""
        self._milestone = self._spent(at_us)
        self._milestone_seq = seq

    def judge(self, seq: int, at_us: int) -> Iterator[Decision]:
        """Compare what is spent by now with the caps."""
        if self._began_us is None:
            return
        spent = self._spent(at_us)
        yield from self._judge_ceilings(spent, seq)
        if self._percent and "dominance" not in self.fired:
            yield from self._judge_dominance(spent, seq)

    def _spent(self, at_us: int) -> dict[str, int]:
        wall_us = 0 if self._began_us is None else max(0, at_us - self._began_us)
        return {"wall_us": wall_us, "tokens": self._tokens, "cost_micro_usd": self._cost}

    def _judge_ceilings(self, spent: dict[str, int], seq: int) -> Iterator[Decision]:
        for code, name, cap in self._ceilings:
            if cap is not None and spent[name] >= cap + self._first_beyond and code not in self.fired:
                self.fired.add(code)
                signal = Signal(name=name, value=spent[name], threshold=cap)
                yield build_decision(code, signal, (seq,), "terminate")

    def _judge_dominance(self, spent: dict[str, int], seq: int) -> Iterator[Decision]:
        for _, name, cap in self._ceilings:
            since = spent[name] - self._milestone[name]
            limit = 0 if cap is None else cap * self._percent // _HUNDRED
            if limit and since >= limit:
                self.fired.add("dominance")
                evidence = (seq,) if self._milestone_seq is None else (self._milestone_seq, seq)
                yield build_decision(
                    "dominance",
                    Signal(name=f"{name}_since_milestone", value=since, threshold=limit),
                    evidence,
                    "terminate",
                )
                return


class AlertRules:
    """What alerts of other monitors ask for."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._prohibited = settings.thresholds.prohibited_operation
        self._suspicious = settings.thresholds.suspicious_operation
        self._commands: list[int] = []
        self._doubts: list[int] = []
        self._calls: list[int] = []

    def take(self, alert: MonitorAlert, seq: int, fired: set[str]) -> Iterator[Decision]:
        """Decide on one alert; it is the basis of what is done."""
        if alert.monitor in _RESOURCE_MONITORS and alert.severity == "critical":
            if alert.rule not in fired:
                fired.add(alert.rule)
                yield _end_on(alert, seq)
        elif alert.monitor == POLICY and alert.severity == "critical":
            yield from self._take_prohibited(seq)  # only what a tool is told to run is critical
        elif alert.monitor == POLICY and alert.segment is not None and alert.segment.format == "command":
            if alert.severity == "warning":
                yield from self._take_suspicious(seq)
        elif alert.monitor == "system-calls" and alert.rule == "prohibited-call":
            yield from self._take_call(seq)

    def _take_prohibited(self, seq: int) -> Iterator[Decision]:
        self._commands.append(seq)
        steps: tuple[tuple[ActionKind, int], ...] = (
            ("quarantine", self._prohibited.quarantine_after),
            ("terminate", self._prohibited.terminate_after),
        )
        for action, limit in steps:
            if limit and len(self._commands) == limit:
                signal = Signal(name="prohibited_commands", value=limit, threshold=limit)
                decision = build_decision(
                    "prohibited-operation", signal, tuple(self._commands), action, nature="safety"
                )
                yield msgspec.structs.replace(decision, alert=seq)

    def _take_suspicious(self, seq: int) -> Iterator[Decision]:
        self._doubts.append(seq)
        limit = self._suspicious.pause_after
        if limit and len(self._doubts) % limit == 0:
            yield build_decision(
                "suspicious-operation",
                Signal(name="suspicious_commands", value=len(self._doubts), threshold=limit),
                tuple(self._doubts),
                "pause",
            )

    def _take_call(self, seq: int) -> Iterator[Decision]:
        self._calls.append(seq)
        limit = self._prohibited.calls_terminate_after
        if limit and len(self._calls) == limit:
            signal = Signal(name="prohibited_calls", value=limit, threshold=limit)
            yield build_decision(
                "prohibited-operation", signal, tuple(self._calls), "terminate", nature="safety"
            )


def _end_on(alert: MonitorAlert, seq: int) -> Decision:
    signal = alert.signals[0] if alert.signals else Signal(name="alerts", value=1, threshold=1)
    decision = build_decision(alert.rule, signal, (seq,), "terminate")
    assert decision.ending is not None
    return msgspec.structs.replace(
        decision,
        alert=seq,
        ending=msgspec.structs.replace(decision.ending, rationale=f"{alert.monitor}: {alert.rule}"),
    )
