"""How the work of an agent that asks a model ended, with what it consumed (P12, B2, S13)."""

from __future__ import annotations

from typing import Final

from repotrial.cost import MeasureState, RunBudget
from repotrial.environment import build_resource_limits
from repotrial.isolation import CommandResult
from repotrial.run._context import BoundRun
from repotrial.run._resources import build_usage_signals
from repotrial.run._termination import terminate_as_seen
from repotrial.run._watch._ending import Ending
from repotrial.trace import Signal, Termination

_RESERVED: Final = ("usd", "units", "tokens")


def terminate_model_run(
    run: BoundRun, result: CommandResult, ending: Ending | None, budget: RunBudget
) -> None:
    """Say how acting ended: as it was decided, else as the sandbox tells."""
    signals = _list_signals(run, result, budget)
    if ending is not None:
        run.lifecycle.terminate(
            Termination(
                category=ending.category,
                nature=ending.nature,
                code=ending.code,
                rationale=ending.rationale,
                evidence=ending.evidence,
                signals=signals,
            )
        )
        return
    terminate_as_seen(run, result, *signals)


def _list_signals(run: BoundRun, result: CommandResult, budget: RunBudget) -> tuple[Signal, ...]:
    """What was consumed, against the caps (B2, S13)."""
    names = {
        "usd": "cost_usd",
        "units": "cost_units",
        "tokens": "tokens",
        "tool-calls": "tool_calls",
        "failed-checks": "failed_check_cycles",
    }
    signals = [
        Signal(name="wall_us", value=result.usage.wall_us, threshold=run.plan.limits.wall_seconds * 10**6),
        *build_usage_signals(result.usage, build_resource_limits(run.plan.limits)),
    ]
    measures = budget.read().measures
    has_units = any(state.measure == "units" and state.spent != "0" for state in measures)
    for state in measures:
        name = names.get(state.measure)
        if name is None or (name == "cost_usd" and has_units and state.spent == "0"):
            continue  # a model without a price costs units, and not nothing in dollars
        is_money = state.measure in {"usd", "units"}
        value = state.spent if is_money else int(state.spent)
        threshold = state.limit if is_money or state.limit is None else int(state.limit)
        signals.append(Signal(name=name, value=value, threshold=threshold))
        if state.measure in _RESERVED and state.limit is not None:
            signals += _list_excess(name, state, is_money=is_money)
    return tuple(signals)


def _list_excess(name: str, state: MeasureState, *, is_money: bool) -> list[Signal]:
    """By how much a cap was passed, against the one declared bound by which it may be (B2)."""
    read = str if is_money else int
    signals = [Signal(name=f"{name}_overspend", value=read(state.overspend), threshold=read(state.overdraft))]
    if state.beyond_bounds != "0":
        signals.append(Signal(name=f"{name}_beyond_bounds", value=read(state.beyond_bounds)))
    return signals
