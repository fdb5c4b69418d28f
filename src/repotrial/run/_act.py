"""Acting: the agent works, under limits; what it changed becomes Δ (P1, P12, P14, P15)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final, Literal, TypeAlias, assert_never

import msgspec

from repotrial._core.clock import SystemClock
from repotrial._core.errors import ContractError, MachineError
from repotrial.run._agents import (
    CommandAgent,
    HumanAgent,
    NoopAgent,
    PatchAgent,
    ReferenceAgent,
    ScriptAgent,
)
from repotrial.run._context import BoundRun
from repotrial.run._limits import build_resource_limits
from repotrial.run._monitor import SyscallMonitor
from repotrial.run._outputs import build_output
from repotrial.run._restate import restate_patch
from repotrial.sandbox import (
    Bind,
    CommandResult,
    CommandSpec,
    Mark,
    Workspace,
    build_change,
)
from repotrial.trace import (
    Command,
    Exited,
    ExitUnknown,
    Intervention,
    MonitorAlert,
    Observed,
    OnAlert,
    Signal,
    Terminate,
    Termination,
    TerminationCategory,
    ToolInvocation,
    WorkspaceMutation,
)

__all__ = ["AgentSandboxLostError", "ReferenceMissingError", "act"]

AGENT_PLACE: Final = "/opt/repotrial/agent"
_CHANGES_PER_EVENT: Final = 200
_CONTROL_SECONDS: Final = 300

Ceiling: TypeAlias = Literal["timeout", "cpu", "memory", "output", "disk", "processes"]

_CODES: Final[dict[Ceiling, tuple[TerminationCategory, str]]] = {
    "timeout": ("run-timeout", "wall-time"),
    "cpu": ("circuit-breaker", "cpu-time"),
    "memory": ("circuit-breaker", "memory"),
    "output": ("circuit-breaker", "output"),
    "disk": ("circuit-breaker", "disk"),
    "processes": ("circuit-breaker", "processes"),
}


class ReferenceMissingError(ContractError):
    """The reference was to be tried, and the contract has none."""

    code = "reference-missing"
    default_hint = 'add `reference = "reference.patch"` to the contract, or try another agent'


class AgentSandboxLostError(MachineError):
    """The sandbox was gone before the agent was done: nobody can say what it would have done."""

    code = "agent-sandbox-lost"
    default_hint = "look at the machine's memory and its log; `repotrial doctor` shows what it can do"


def act(run: BoundRun, briefing: str) -> bytes:
    """Let the agent work to its end; its change, as a patch.

    However it ends, exactly one termination event says so.
    """
    agent = run.request.agent
    match agent:
        case NoopAgent():
            _terminate_normally(run, "completed", "done", "the agent does nothing")
            return b""
        case ReferenceAgent():
            reference = run.request.loaded.reference
            if reference is None:
                raise ReferenceMissingError(
                    f"{run.request.loaded.directory}: expected a reference, found none"
                )
            return _hand_in(run, reference)
        case PatchAgent(patch=patch):
            return _hand_in(run, patch)
        case ScriptAgent(script=script):
            # A script that names its interpreter gets it, as it would from any shell.
            program = f"{AGENT_PLACE}/script"
            argv = (program,) if script.startswith(b"#!") else ("/bin/sh", program)
            return _work(run, briefing, argv, script)
        case CommandAgent(argv=argv):
            return _work(run, briefing, argv, None)
        case HumanAgent():
            return _hand_over(run, briefing)
        case _:
            assert_never(agent)


def _hand_in(run: BoundRun, patch: bytes) -> bytes:
    """A finished change: nothing of the agent's is executed."""
    run.writer.append(
        ToolInvocation(
            tool="hand-in",
            source="sandbox",
            arguments=run.writer.body(patch, of=ToolInvocation),
            exit=ExitUnknown(reason="no program ran"),
            started_at_us=SystemClock().now_us(),
            wall_us=0,
        ),
        actor="agent",
    )
    _terminate_normally(run, "completed", "done", "the change was handed in")
    return restate_patch(run, patch)


def _work(run: BoundRun, briefing: str, argv: tuple[str, ...], script: bytes | None) -> bytes:
    """Run one program in the sandbox, and read what it left."""
    with ExitStack() as stack:
        workspace = stack.enter_context(run.installation.open_workspace())
        scratch = stack.enter_context(run.installation.open_scratch())
        scratch.write("briefing.md", briefing.encode())
        if script is not None:
            scratch.write("script", script, is_executable=True)
        before = workspace.snapshot()
        result = _execute(run, workspace, argv, Bind(source=scratch.path, target=AGENT_PLACE))
        _record_mutations(run, workspace, before)
        _terminate(run, result)
        return build_change(workspace, generated=run.request.loaded.contract.policy.generated).patch


def _execute(run: BoundRun, workspace: Workspace, argv: tuple[str, ...], bind: Bind) -> CommandResult:
    writer, limits = run.writer, run.request.limits
    monitor = SyscallMonitor(writer, phase="act", since=writer.head.count - 1, has_programs=True)
    started_us = SystemClock().now_us()
    sandbox = run.installation.open_sandbox(
        workspace,
        phase="act",
        binds=(bind,),
        variables={"REPOTRIAL_BRIEFING": f"{AGENT_PLACE}/briefing.md"},
        limits=build_resource_limits(limits),
        sink=monitor,
    )
    with sandbox, run.request.stopper.watch(sandbox):
        result = sandbox.run(
            CommandSpec(
                argv=argv, timeout_seconds=limits.wall_seconds, output_bytes=limits.output_mb * 1024**2
            )
        )
    monitor.close()
    writer.append(
        ToolInvocation(
            tool=run.request.agent.name,
            source="sandbox",
            arguments=writer.body(msgspec.json.encode(argv), of=ToolInvocation),
            command=Command(argv=argv, cwd="."),
            exit=result.exit,
            started_at_us=started_us,
            wall_us=result.usage.wall_us,
            cpu_us=result.usage.cpu_us,
            stdout=build_output(writer, result.stdout, of=ToolInvocation),
            stderr=build_output(writer, result.stderr, of=ToolInvocation),
        ),
        actor="agent",
    )
    return result


def _hand_over(run: BoundRun, briefing: str) -> bytes:
    seconds = run.request.limits.wall_seconds
    with run.installation.open_plain_workspace() as workspace:
        before = workspace.snapshot()
        started_us = SystemClock().now_us()
        in_time = run.request.handover(workspace.path, briefing, seconds)
        wall_us = max(0, SystemClock().now_us() - started_us)
        run.writer.append(
            ToolInvocation(
                tool="human",
                source="sandbox",
                arguments=run.writer.body(b"", of=ToolInvocation),
                exit=ExitUnknown(reason="a person has no exit status"),
                started_at_us=started_us,
                wall_us=wall_us,
            ),
            actor="agent",
        )
        _record_mutations(run, workspace, before)
        minutes = Signal(name="human_us", value=wall_us, threshold=seconds * 1_000_000)
        if in_time:
            _terminate_normally(run, "completed", "done", "the person is done", minutes)
        else:
            _terminate_early(run, "timeout", minutes)
        return build_change(workspace, generated=run.request.loaded.contract.policy.generated).patch


def _record_mutations(run: BoundRun, workspace: Workspace, before: Mark) -> None:
    """Everything that differs now, in events of bounded size (P15)."""
    since = run.writer.head.count - 1
    changes = workspace.delta(before, workspace.snapshot(), sink=run.writer)
    for start in range(0, len(changes), _CHANGES_PER_EVENT):
        part = changes[start : start + _CHANGES_PER_EVENT]
        run.writer.append(WorkspaceMutation(cause=Observed(since=since), changes=part), actor="harness")


def _terminate(run: BoundRun, result: CommandResult) -> None:
    usage = (
        Signal(name="wall_us", value=result.usage.wall_us, threshold=run.request.limits.wall_seconds * 10**6),
    )
    match result.cause:
        case "ended":
            _terminate_normally(run, "agent-exit", "exit", "the agent's program ended", *usage)
        case "sandbox-lost":
            _verify_machine(run)
            rationale = "the agent ended everything in its sandbox"
            _terminate_normally(run, "agent-exit", "sandbox-ended", rationale, *usage)
        case cause:
            _terminate_early(run, cause, *usage)


def _verify_machine(run: BoundRun) -> None:
    """A control (P5): where another sandbox does its work at once, it was the agent that ended its own.

    Raises:
        AgentSandboxLostError: the machine cannot hold a sandbox.
    """
    with (
        run.installation.open_workspace() as workspace,
        run.installation.open_sandbox(workspace, phase="act", has_services=False) as sandbox,
    ):
        result = sandbox.run(CommandSpec(argv=("/bin/sh", "-c", ":"), timeout_seconds=_CONTROL_SECONDS))
    if result.exit != Exited(code=0):
        raise AgentSandboxLostError("the sandbox was lost while the agent worked, and so was another one")


def _terminate_normally(
    run: BoundRun, category: TerminationCategory, code: str, rationale: str, *signals: Signal
) -> None:
    run.lifecycle.terminate(
        Termination(category=category, nature="none", code=code, rationale=rationale, signals=signals)
    )


def _terminate_early(run: BoundRun, cause: Ceiling, *signals: Signal) -> None:
    """A ceiling ended it: the alert, what was done about it, and the end, each an event (P12, P14)."""
    category, code = _CODES[cause]
    alert = run.writer.append(
        MonitorAlert(monitor="resources", rule=code, severity="critical", phase="act", signals=signals),
        actor="monitor",
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
