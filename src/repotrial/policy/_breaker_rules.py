"""The breakers' rules (B3, B6, B15, P19, P24), each a small fold over what has happened."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

from repotrial._core.words import TerminationNature
from repotrial.policy._breaker_facts import ActionKind, BreakerEnding, CallFacts, Decision, TreeFacts
from repotrial.policy._thresholds import BreakerSettings, Repeats
from repotrial.trace import Signal

_MAX_EVIDENCE: Final = 20
_MAX_KEPT: Final = 10_000
_MICROSECONDS: Final = 1_000_000
_ALL_FAILURES: Final = 2
"""From this version on, all failing checks count against the cap (B2)."""
_WITH_RATES: Final = 3
"""From this version on, tool calls are kept to their rate (Q12)."""
_MINUTE_US: Final = 60 * _MICROSECONDS


def build_decision(
    rule: str,
    signal: Signal,
    evidence: tuple[int, ...],
    action: ActionKind | None = None,
    *,
    nature: TerminationNature = "resource",
    wait_us: int | None = None,
    restore: int | None = None,
) -> Decision:
    """A decision with one signal, at the last event of its evidence; what ends a run is critical."""
    is_grave = action in {"terminate", "quarantine"}
    ending = BreakerEnding(
        code=rule,
        nature=nature,
        category="run-timeout" if rule == "wall-time" else "circuit-breaker",
        rationale=f"{signal.name} is {signal.value}, the threshold is {signal.threshold}",
    )
    return Decision(
        rule=rule,
        severity="critical" if is_grave else "warning",
        signals=(signal,),
        evidence=evidence[-_MAX_EVIDENCE:],
        at=evidence[-1],
        action=action,
        wait_us=wait_us,
        restore=restore,
        ending=ending if action == "terminate" else None,
    )


class _Backpressure:
    """Waits that grow each time (P24)."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._values = settings.thresholds.backpressure
        self._wait = self._values.first_wait_seconds

    def next_us(self) -> int:
        wait = min(self._wait, self._values.most_wait_seconds)
        self._wait = wait * self._values.factor
        return wait * _MICROSECONDS


class LoopRules:
    """Identical calls, repeated installs and work that changes nothing."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._values = settings.thresholds
        self._pressure = _Backpressure(settings)
        self._identical: dict[str, list[int]] = {}
        self._installs: Counter[tuple[str, str, str]] = Counter()
        self._most_installs: Counter[tuple[str, str]] = Counter()
        self._install_places: dict[tuple[str, str], list[int]] = {}
        self._idle: list[int] = []
        self._idle_count = 0
        self._turns: list[int] = []
        self._turn_count = 0

    def take_turn(self, tool_calls: int | None, seq: int) -> Iterator[Decision]:
        """Count an answer that could have asked for a tool and did not; one that asks begins anew."""
        if tool_calls is None:
            return
        if tool_calls:
            self._turns.clear()
            self._turn_count = 0
            return
        self._turn_count += 1
        self._turns = [*self._turns[-_MAX_EVIDENCE:], seq]
        values = self._values.turns_without_calls
        yield from _judge(
            "turns-without-calls", "turns_without_calls", self._turn_count, values, tuple(self._turns)
        )

    def take_tree(self) -> None:
        """The tree has changed: what was tried on the old one may be tried again."""
        self._identical.clear()
        self._idle.clear()
        self._idle_count = 0

    def take_call(self, call: CallFacts) -> Iterator[Decision]:
        """Count a call."""
        if call.family != "other":  # asking again whether something is done is no loop
            yield from self._count_identical(call)
        yield from self.take_installs(call.installs, source="calls", seq=call.seq)
        yield from self._count_idle(call)

    def take_installs(
        self, installs: tuple[tuple[str, ...], ...], *, source: str, seq: int
    ) -> Iterator[Decision]:
        """Count installs; the same ones may be seen as calls and as programs, so sources count apart."""
        for packages in installs:
            yield from self._count_install("dependency-resolutions", "*", source, seq)
            for package in packages:
                yield from self._count_install("dependency-reinstalls", package, source, seq)

    def _count_identical(self, call: CallFacts) -> Iterator[Decision]:
        values = self._values.identical_calls
        if len(self._identical) > _MAX_KEPT:
            self._identical.clear()
        places = self._identical.setdefault(call.identity, [])
        places.append(call.seq)
        count = len(places)
        if _reaches(count, values.terminate_after):
            yield build_decision(
                "identical-calls",
                Signal(name="identical_calls", value=count, threshold=values.terminate_after),
                tuple(places),
                "terminate",
            )
        elif values.throttle_after and count >= values.throttle_after:
            yield build_decision(
                "identical-calls",
                Signal(name="identical_calls", value=count, threshold=values.throttle_after),
                tuple(places),
                "throttle",
                wait_us=self._pressure.next_us(),
            )
        elif _reaches(count, values.alert_after):
            yield build_decision(
                "identical-calls",
                Signal(name="identical_calls", value=count, threshold=values.alert_after),
                tuple(places),
            )

    def _count_install(self, rule: str, package: str, source: str, seq: int) -> Iterator[Decision]:
        key = (rule, package)
        self._installs[(*key, source)] += 1
        places = self._install_places.setdefault(key, [])
        places.append(seq)
        count = self._installs[(*key, source)]
        if count <= self._most_installs[key]:
            return  # the other source has said it already
        self._most_installs[key] = count
        is_any = rule == "dependency-resolutions"
        values = self._values.dependency_resolutions if is_any else self._values.dependency_reinstalls
        name = "dependency_resolutions" if is_any else "installs_of_one_package"
        yield from _judge(rule, name, count, values, tuple(places))

    def _count_idle(self, call: CallFacts) -> Iterator[Decision]:
        self._idle_count += 1
        self._idle = [*self._idle[-_MAX_EVIDENCE:], call.seq]
        values = self._values.no_progress
        yield from _judge("no-progress", "calls_without_change", self._idle_count, values, tuple(self._idle))


class WorkRules:
    """Failing checks: oscillation, suspended writes, roll-back."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._values = settings.thresholds
        self._cap = settings.caps.failed_check_cycles
        self._first_beyond = settings.first_beyond
        self._tree = "0" * 64
        self._tree_seq: int | None = None
        self._failed_trees: dict[str, int] = {}
        self._since_failure: str | None = None
        self._returns: list[int] = []
        self._counts_all = settings.thresholds.rules >= _ALL_FAILURES
        self._cycles: list[int] = []
        self.failed = 0
        """Failing checks of the run."""
        self._failures: list[int] = []
        self._good_seq: int | None = None

    def take_tree(self, tree: TreeFacts) -> Iterator[Decision]:
        """Follow the tree; a mass deletion is taken back."""
        limit = self._values.mass_deletion.roll_back_after
        if limit and tree.deleted >= limit:
            yield build_decision(
                "mass-deletion",
                Signal(name="deleted_files", value=tree.deleted, threshold=limit),
                (tree.seq,),
                "roll-back",
                restore=self._tree_seq,
            )
        self._tree, self._tree_seq = tree.digest, tree.seq

    def take_call(self, call: CallFacts) -> Iterator[Decision]:
        """Count what checks say."""
        if call.result == "passed":
            self._failures.clear()
            if not self._counts_all:
                self._cycles.clear()
            self._failed_trees.clear()
            self._returns.clear()
            self._since_failure = None
            self._good_seq = self._tree_seq
        elif call.result == "failed":
            self.failed += 1
            self._cycles.append(call.seq)
            yield from self._judge_cap()
            yield from self._judge_oscillation(call)
            yield from self._judge_failures(call)
            self._since_failure = self._tree

    def _judge_cap(self) -> Iterator[Decision]:
        if self._cap is not None and len(self._cycles) == self._cap + self._first_beyond:
            yield build_decision(
                "failed-check-cap",
                Signal(name="failed_check_cycles", value=len(self._cycles), threshold=self._cap),
                tuple(self._cycles),
                "terminate",
            )

    def _judge_oscillation(self, call: CallFacts) -> Iterator[Decision]:
        """A tree that failed, another that failed, and the first one again."""
        if self._since_failure in {None, self._tree}:
            self._failed_trees.setdefault(self._tree, call.seq)
            return
        if self._tree not in self._failed_trees:
            self._failed_trees[self._tree] = call.seq
            return
        self._returns.append(call.seq)
        values = self._values.oscillation
        places = (self._failed_trees[self._tree], *self._returns)
        yield from _judge("oscillation", "returns_to_failed_trees", len(self._returns), values, places)

    def _judge_failures(self, call: CallFacts) -> Iterator[Decision]:
        """Failures on changed trees: running the same checks twice on one tree is no new attempt."""
        if self._since_failure == self._tree:
            return
        self._failures.append(call.seq)
        values, count = self._values.repeated_failures, len(self._failures)
        if _reaches(count, values.suspend_after):
            yield build_decision(
                "repeated-failures",
                Signal(name="failed_attempts", value=count, threshold=values.suspend_after),
                tuple(self._failures),
                "suspend-writes",
            )
        elif _reaches(count, values.roll_back_after):
            yield build_decision(
                "repeated-failures",
                Signal(name="failed_attempts", value=count, threshold=values.roll_back_after),
                tuple(self._failures),
                "roll-back",
                restore=self._good_seq,
            )


class PaceRules:
    """Ceilings, bursts, expensive repeats, silence and floods."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._values = settings.thresholds
        self._caps = settings.caps
        self._pressure = _Backpressure(settings)
        self._recent: deque[tuple[int, int]] = deque()
        self._minute: deque[tuple[int, int]] = deque()
        self._rate = settings.caps.tool_calls_per_minute if self._values.rules >= _WITH_RATES else None
        self._slow: list[int] = []
        self._expensive: dict[str, list[int]] = {}
        self._output = 0
        self._is_flooded = False
        self._last: tuple[int, int] | None = None

    def take_tree(self) -> None:
        """After a change an expensive command is worth its time again."""
        self._expensive.clear()

    def take_call(self, call: CallFacts) -> Iterator[Decision]:
        """Look at a call's time and output."""
        yield from self._judge_ceiling(call)
        yield from self._judge_burst(call)
        yield from self._judge_rate(call)
        yield from self._judge_expense(call)
        yield from self._judge_output(call)

    def take_sign(self, seq: int, at_us: int) -> Iterator[Decision]:
        """Any event of the agent is a sign of life."""
        limit_us = self._values.silence.alert_seconds * _MICROSECONDS
        if self._last is not None and limit_us and at_us - self._last[1] >= limit_us:
            yield build_decision(
                "silence",
                Signal(name="silence_us", value=at_us - self._last[1], threshold=limit_us),
                (self._last[0], seq),
            )
        self._last = (seq, at_us)

    def _judge_ceiling(self, call: CallFacts) -> Iterator[Decision]:
        values = self._values.command_ceiling
        if values is None or (not call.is_over_ceiling and call.wall_us <= self._caps.command_us):
            return
        self._slow.append(call.seq)
        yield build_decision(
            "command-ceiling",
            Signal(name="command_wall_us", value=call.wall_us, threshold=self._caps.command_us),
            tuple(self._slow),
            "terminate" if _reaches(len(self._slow), values.terminate_after) else None,
        )

    def _judge_burst(self, call: CallFacts) -> Iterator[Decision]:
        values = self._values.burst
        self._recent.append((call.seq, call.at_us))
        while self._recent and call.at_us - self._recent[0][1] > values.window_seconds * _MICROSECONDS:
            self._recent.popleft()
        if values.calls and len(self._recent) >= values.calls:
            signal = Signal(name="calls_in_window", value=len(self._recent), threshold=values.calls)
            evidence = tuple(seq for seq, _ in self._recent)
            self._recent.clear()
            yield build_decision("burst", signal, evidence, "throttle", wait_us=self._pressure.next_us())

    def _judge_rate(self, call: CallFacts) -> Iterator[Decision]:
        """Past its rate, the agent waits until a minute has gone by since the first of these calls."""
        if self._rate is None:
            return
        self._minute.append((call.seq, call.at_us))
        while call.at_us - self._minute[0][1] >= _MINUTE_US:
            self._minute.popleft()
        if len(self._minute) > self._rate:
            signal = Signal(name="tool_calls_per_minute", value=len(self._minute), threshold=self._rate)
            evidence = tuple(seq for seq, _ in self._minute)
            wait_us = _MINUTE_US - (call.at_us - self._minute[0][1])
            self._minute.clear()
            yield build_decision("tool-call-rate", signal, evidence, "throttle", wait_us=wait_us)

    def _judge_expense(self, call: CallFacts) -> Iterator[Decision]:
        values = self._values.expensive_repeats
        if call.wall_us < values.seconds * _MICROSECONDS or not values.throttle_after:
            return
        places = self._expensive.setdefault(call.identity, [])
        places.append(call.seq)
        if len(places) >= values.throttle_after:
            yield build_decision(
                "expensive-repeats",
                Signal(name="expensive_repeats", value=len(places), threshold=values.throttle_after),
                tuple(places),
                "throttle",
                wait_us=self._pressure.next_us(),
            )

    def _judge_output(self, call: CallFacts) -> Iterator[Decision]:
        values = self._values.output_flood
        self._output += call.output_bytes
        if values.terminate_bytes and self._output >= values.terminate_bytes and not self._is_flooded:
            self._is_flooded = True
            yield build_decision(
                "output-flood",
                Signal(name="output_bytes", value=self._output, threshold=values.terminate_bytes),
                (call.seq,),
                "terminate",
            )
        elif values.alert_bytes and call.output_bytes >= values.alert_bytes:
            yield build_decision(
                "output-flood",
                Signal(name="output_bytes", value=call.output_bytes, threshold=values.alert_bytes),
                (call.seq,),
            )


def _reaches(count: int, threshold: int) -> bool:
    """Whether a count has just come to a threshold that is on."""
    return threshold > 0 and count == threshold


def _judge(rule: str, name: str, count: int, values: Repeats, places: tuple[int, ...]) -> Iterator[Decision]:
    """An alert at the first threshold, the end at the second."""
    if _reaches(count, values.terminate_after):
        yield build_decision(
            rule, Signal(name=name, value=count, threshold=values.terminate_after), places, "terminate"
        )
    elif _reaches(count, values.alert_after):
        yield build_decision(rule, Signal(name=name, value=count, threshold=values.alert_after), places)
