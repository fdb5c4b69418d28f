"""Acting: the agent works, under limits; what it changed becomes Δ (P1, P12, P14, P15)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final, assert_never

from repotrial._core.clock import SystemClock
from repotrial.environment import SandboxRequest, build_resource_limits
from repotrial.isolation import Bind, CommandResult, CommandSpec
from repotrial.run._agents import (
    CommandAgent,
    HumanAgent,
    ModelAgent,
    NoopAgent,
    PatchAgent,
    ReferenceAgent,
    ScriptAgent,
)
from repotrial.run._change import restate_patch, take_change, tell_handed_in
from repotrial.run._context import BoundRun
from repotrial.run._model_work import work_with_model
from repotrial.run._monitors import watch_acting
from repotrial.run._network import plan_network
from repotrial.run._program_events import record_program
from repotrial.run._request import HUMAN_UNAVAILABLE
from repotrial.run._resources import watch_resources
from repotrial.run._termination import terminate_as_seen, terminate_at_ceiling, terminate_normally
from repotrial.run._watch._mutations import MutationLog
from repotrial.run._watch._stages import (
    STAGE_COMMAND,
    StageController,
    find_first_stage,
    find_stage_mode,
    open_stage_requests,
    serve_stage_requests,
)
from repotrial.trace import EventRef, ExitUnknown, Signal, ToolInvocation
from repotrial.witness import SyscallMonitor, build_unwitnessed
from repotrial.workspace import Workspace

AGENT_PLACE: Final = "/opt/repotrial/agent"


def act(run: BoundRun, briefing: str) -> bytes:
    """Let the agent work to its end, under monitors that report in; its change, as a patch.

    However it ends, exactly one termination event says so.
    """
    with watch_acting(run):
        return _act(run, briefing)


def _act(run: BoundRun, briefing: str) -> bytes:
    agent = run.plan.agent
    match agent:
        case NoopAgent():
            terminate_normally(run, "completed", "done", "the agent does nothing")
            return tell_handed_in(run, b"", event=None)
        case ReferenceAgent():
            reference = run.plan.loaded.reference
            assert reference is not None, "such a run has no specification"
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
        case ModelAgent():
            return work_with_model(run, briefing, agent)
        case _:
            assert_never(agent)


def _hand_in(run: BoundRun, patch: bytes) -> bytes:
    """A finished change: nothing of the agent's is executed."""
    ref = run.writer.append(
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
    terminate_normally(run, "completed", "done", "the change was handed in")
    event = ref.seq if isinstance(ref, EventRef) else run.writer.last_seq
    restated = restate_patch(run, patch)
    return tell_handed_in(run, restated, event=event, restated_from=patch if restated != patch else None)


def _work(run: BoundRun, briefing: str, argv: tuple[str, ...], script: bytes | None) -> bytes:
    """Run one program in the sandbox, and read what it left."""
    with ExitStack() as stack:
        workspace = stack.enter_context(run.installation.open_workspace())
        scratch = stack.enter_context(run.installation.open_scratch())
        scratch.write("briefing.md", briefing.encode())
        if script is not None:
            scratch.write("script", script, is_executable=True)
        mutations = MutationLog(run.writer, workspace)
        result = _execute(run, workspace, argv, Bind(source=scratch.path, target=AGENT_PLACE), stack)
        mutations.record()
        terminate_as_seen(run, result)
        return take_change(run, workspace)


def _execute(
    run: BoundRun, workspace: Workspace, argv: tuple[str, ...], bind: Bind, stack: ExitStack
) -> CommandResult:
    writer, limits = run.writer, run.plan.limits
    monitor = SyscallMonitor(
        writer, phase="act", since=writer.last_seq, ceiling_seconds=limits.command_seconds
    )
    requests = open_stage_requests(run, stack)
    network = plan_network(run.plan.loaded.contract.policy.network, run, stack)
    first = find_first_stage(find_stage_mode(run.plan), run.installation.capabilities)
    ceilings = build_resource_limits(limits)
    started_us = SystemClock().now_us()
    sandbox = run.installation.open_sandbox(
        workspace,
        SandboxRequest(
            phase="act",
            stage=first,
            test_tools=run.plan.loaded.contract.policy.test_tools,
            binds=(bind, *(() if requests is None else requests.binds), *network.binds),
            variables={
                **run.agent_seed,
                "REPOTRIAL_BRIEFING": f"{AGENT_PLACE}/briefing.md",
                "REPOTRIAL_STAGE": STAGE_COMMAND,
                **network.variables,
            },
            limits=ceilings,
        ),
        sink=monitor,
    )
    with (
        sandbox,
        run.settings.stopper.watch(sandbox),
        run.books.watch(lambda _: sandbox.close()),
        serve_stage_requests(requests, StageController(writer, sandbox, stage=first)),
        network.serve(run, sandbox, run.settings.network),
        watch_resources(writer, sandbox, ceilings),
        monitor.watch(sandbox),
    ):
        result = sandbox.run(
            CommandSpec(
                argv=argv, timeout_seconds=limits.wall_seconds, output_bytes=limits.output_mb * 1024**2
            )
        )
    monitor.close()
    record_program(run, argv, result, started_at_us=started_us)
    return result


def _hand_over(run: BoundRun, briefing: str) -> bytes:
    if run.settings.handover is None:
        raise HUMAN_UNAVAILABLE.error("expected a person at a terminal, found none")
    seconds = run.plan.limits.wall_seconds
    with run.installation.open_plain_workspace() as workspace:
        mutations = MutationLog(run.writer, workspace)
        started_us = SystemClock().now_us()
        unseen = "a person works in the workspace itself, in no sandbox"
        run.writer.append(build_unwitnessed("act", unseen), actor="monitor")
        in_time = run.settings.handover(workspace.path, briefing, seconds)
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
        mutations.record()
        minutes = Signal(name="human_us", value=wall_us, threshold=seconds * 1_000_000)
        if in_time:
            terminate_normally(run, "completed", "done", "the person is done", minutes)
        else:
            terminate_at_ceiling(run, "timeout", minutes)
        return take_change(run, workspace)
