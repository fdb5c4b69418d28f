"""How acting ended: exactly one event says so, with what was consumed against its caps (P12, B2, B16)."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from repotrial._core.words import TerminationCategory
from repotrial.isolation import CommandResult
from repotrial.run._context import BoundRun
from repotrial.run._control import verify_machine
from repotrial.run._faults import AGENT_NOT_STARTED
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
)

Ceiling: TypeAlias = Literal["timeout", "cpu", "memory", "output", "disk", "processes"]

_CODES: Final[dict[Ceiling, tuple[TerminationCategory, str]]] = {
    "timeout": ("run-timeout", "wall-time"),
    "cpu": ("circuit-breaker", "cpu-time"),
    "memory": ("circuit-breaker", "memory"),
    "output": ("circuit-breaker", "output"),
    "disk": ("circuit-breaker", "disk"),
    "processes": ("circuit-breaker", "processes"),
}


def terminate_normally(
    run: BoundRun, category: TerminationCategory, code: str, rationale: str, *signals: Signal
) -> None:
    """Nothing but the agent ended it."""
    run.lifecycle.terminate(
        Termination(category=category, nature="none", code=code, rationale=rationale, signals=signals)
    )


def terminate_as_seen(run: BoundRun, result: CommandResult, *signals: Signal) -> None:
    """End it as the sandbox tells.

    Raises:
        AGENT_NOT_STARTED: there never was a process.
        AGENT_SANDBOX_LOST: the machine cannot hold a sandbox.
    """
    if isinstance(result.exit, NotStarted):
        raise AGENT_NOT_STARTED.error(f"expected to start the agent's program, found: {result.exit.reason}")
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
    category, code = _CODES[cause]
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
