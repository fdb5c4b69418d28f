"""How acting ended: exactly one event says so, with what was consumed against its caps (P12, B2, B16)."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from repotrial._core.words import LifecyclePhase, TerminationCategory
from repotrial.cost import Exhausted, MeasureState, RunBudget
from repotrial.environment import SandboxRequest, build_resource_limits
from repotrial.isolation import CommandResult, CommandSpec
from repotrial.run._books import alert_exhausted, find_exhausted_code
from repotrial.run._context import BoundRun, Lifecycle
from repotrial.run._resources import build_usage_signals
from repotrial.run._stop import AGENT_NOT_STARTED, AGENT_SANDBOX_LOST, MODEL_UNREACHABLE
from repotrial.run._watch._breakers import RunEnding
from repotrial.run._watch._dialogue import Dialogue
from repotrial.trace import (
    Exited,
    ExitStatus,
    Intervention,
    MonitorAlert,
    NotStarted,
    OnAlert,
    Signal,
    Signaled,
    Terminate,
    Termination,
    TraceWriter,
)

_CONTROL_SECONDS: Final = 300


Ceiling: TypeAlias = Literal["timeout", "cpu", "memory", "output", "disk", "processes"]
CEILING_CODES: Final[dict[Ceiling, tuple[TerminationCategory, str]]] = {
    "timeout": ("run-timeout", "wall-time"),
    "cpu": ("circuit-breaker", "cpu-time"),
    "memory": ("circuit-breaker", "memory"),
    "output": ("circuit-breaker", "output"),
    "disk": ("circuit-breaker", "disk"),
    "processes": ("circuit-breaker", "processes"),
}
_RESERVED: Final = ("usd", "units", "tokens")


def verify_model(dialogue: Dialogue) -> None:
    """Where one request was answered, the agent had its chance: what it makes of later trouble is its own.

    Raises:
        MODEL_UNREACHABLE: the provider answered none.
    """
    if dialogue.unanswered and not dialogue.answers:
        raise MODEL_UNREACHABLE.error(
            f"expected a model to answer, found that none did (requests: {len(dialogue.unanswered)}; "
            f"the last got: {dialogue.unanswered[-1]})"
        )


def verify_machine(run: BoundRun) -> None:
    """Where another sandbox does its work at once, it was the agent that ended its own.

    Raises:
        AGENT_SANDBOX_LOST: the machine cannot hold a sandbox.
    """
    with (
        run.installation.open_workspace() as workspace,
        run.installation.open_sandbox(workspace, SandboxRequest(phase="act", has_services=False)) as sandbox,
    ):
        result = sandbox.run(CommandSpec(argv=("/bin/sh", "-c", ":"), timeout_seconds=_CONTROL_SECONDS))
    if result.exit != Exited(code=0):
        raise AGENT_SANDBOX_LOST.error("the sandbox was lost while the agent worked, and so was another one")


def terminate_normally(
    run: BoundRun, category: TerminationCategory, code: str, rationale: str, *signals: Signal
) -> None:
    """Nothing but the agent ended it."""
    run.lifecycle.terminate(
        Termination(category=category, nature="none", code=code, rationale=rationale, signals=signals)
    )


def terminate_as_seen(run: BoundRun, result: CommandResult, *further: Signal) -> None:
    """End it as the sandbox tells, with what its program used and further signals.

    Raises:
        AGENT_NOT_STARTED: there never was a process.
        AGENT_SANDBOX_LOST: the machine cannot hold a sandbox.
    """
    if isinstance(result.exit, NotStarted):
        raise AGENT_NOT_STARTED.error(f"expected to start the agent's program, found: {result.exit.reason}")
    run.check_servers()
    signals = (*_list_usage(run, result), *further)
    if result.cause == "sandbox-lost" and (ending := run.books.find_ending()) is not None:
        terminate_unpaid(run.writer, run.lifecycle, ending, *signals, phase="act")
        return
    match result.cause:
        case "ended":
            rationale = f"the agent's program ended{_describe_exit(result.exit)}"
            terminate_normally(run, "agent-exit", "exit", rationale, *signals)
        case "sandbox-lost":
            verify_machine(run)
            rationale = "the agent ended everything in its sandbox"
            terminate_normally(run, "agent-exit", "sandbox-ended", rationale, *signals)
        case cause:
            terminate_at_ceiling(run, cause, *signals)


def _describe_exit(status: ExitStatus) -> str:
    match status:
        case Exited(code=code) if code:
            return f" with exit code {code}"
        case Signaled(signal=number):
            return f" by signal {number}"
        case _:
            return ""


def terminate_at_ceiling(run: BoundRun, cause: Ceiling, *signals: Signal) -> None:
    """A ceiling ended it: the alert, what was done about it, and the end, each an event (P12, P14)."""
    category, code = CEILING_CODES[cause]
    alert = run.writer.alert(
        MonitorAlert(monitor="resources", rule=code, severity="critical", phase="act", signals=signals)
    )
    intervention = run.writer.append(
        Intervention(action=Terminate(), basis=OnAlert(alert=alert.seq), effective=True), actor="harness"
    )
    run.lifecycle.terminate(
        Termination(
            category=category,
            nature="resource",
            code=code,
            rationale=f"the agent reached its ceiling: {code}",
            evidence=(alert.seq, intervention.seq),
            signals=signals,
        )
    )


def terminate_unpaid(
    writer: TraceWriter,
    lifecycle: Lifecycle,
    exhausted: Exhausted,
    *signals: Signal,
    phase: LifecyclePhase,
) -> None:
    """Nothing is left to pay time from, Setup's included: the alert, what was done, and the end (B4, P22)."""
    alert = alert_exhausted(writer, exhausted, phase)
    intervention = writer.append(
        Intervention(action=Terminate(), basis=OnAlert(alert=alert), effective=True), actor="harness"
    )
    lifecycle.terminate(
        Termination(
            category="circuit-breaker",
            nature="resource",
            code=find_exhausted_code(exhausted),
            rationale=exhausted.message,
            evidence=(alert, intervention.seq),
            signals=signals,
        )
    )


def terminate_model_run(
    run: BoundRun, result: CommandResult, ending: RunEnding | None, budget: RunBudget
) -> None:
    """Say how acting ended: as it was decided, else as the sandbox tells."""
    measures = _list_measures(budget)
    if ending is not None:
        run.lifecycle.terminate(
            Termination(
                category=ending.category,
                nature=ending.nature,
                code=ending.code,
                rationale=ending.rationale,
                evidence=ending.evidence,
                signals=(*_list_usage(run, result), *measures),
            )
        )
        return
    terminate_as_seen(run, result, *measures)


def _list_usage(run: BoundRun, result: CommandResult) -> tuple[Signal, ...]:
    """What the program used, against the ceilings."""
    wall_us = Signal(
        name="wall_us", value=result.usage.wall_us, threshold=run.plan.limits.wall_seconds * 10**6
    )
    return wall_us, *build_usage_signals(result.usage, build_resource_limits(run.plan.limits))


def _list_measures(budget: RunBudget) -> list[Signal]:
    """What was consumed, against the caps (B2, S13)."""
    names = {
        "usd": "cost_usd",
        "units": "cost_units",
        "tokens": "tokens",
        "tool-calls": "tool_calls",
        "failed-checks": "failed_check_cycles",
    }
    signals: list[Signal] = []
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
    return signals


def _list_excess(name: str, state: MeasureState, *, is_money: bool) -> list[Signal]:
    """By how much a cap was passed, against the one declared bound by which it may be (B2)."""
    read = str if is_money else int
    signals = [Signal(name=f"{name}_overspend", value=read(state.overspend), threshold=read(state.overdraft))]
    if state.beyond_bounds != "0":
        signals.append(Signal(name=f"{name}_beyond_bounds", value=read(state.beyond_bounds)))
    return signals
