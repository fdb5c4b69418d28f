"""An agent that asks a model at work: in its sandbox, with no way out but the gateway, under watch."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.canonical import decimal_text
from repotrial._core.clock import SystemClock
from repotrial._core.errors import ErrorCode, MachineError
from repotrial.cost import Parent, RunBudget, RunCaps
from repotrial.environment import ContractSandbox, SandboxRequest, ScratchPlace, build_resource_limits
from repotrial.gateway import Recorder
from repotrial.isolation import Bind, CommandResult, CommandSpec
from repotrial.policy import BreakerSettings, BreakerState, build_settings, parse_thresholds
from repotrial.run._adapters._home import fill_home
from repotrial.run._adapters._launch import AGENT_HOME, Launch, LaunchOrder, build_launch
from repotrial.run._agents import ModelAgent
from repotrial.run._change import take_change
from repotrial.run._context import BoundRun
from repotrial.run._control import verify_model
from repotrial.run._model_end import terminate_model_run
from repotrial.run._models import MODEL_ACCESS_MISSING, ModelAccess, UpstreamOrder
from repotrial.run._monitor import SyscallMonitor
from repotrial.run._network import NetworkPlan, plan_network
from repotrial.run._outputs import record_program
from repotrial.run._resources import watch_resources
from repotrial.run._staging import find_first_stage, find_stage_mode, open_desk, serve_desk
from repotrial.run._transcripts import keep_transcripts
from repotrial.run._watch._bodies import build_body_reader
from repotrial.run._watch._dialogue import Dialogue
from repotrial.run._watch._ending import EndingSwitch
from repotrial.run._watch._hands import ROOM, SandboxHands
from repotrial.run._watch._inbox import Inbox
from repotrial.run._watch._inspection import Inspector
from repotrial.run._watch._mutations import MutationLog
from repotrial.run._watch._overseer import Overseer, Watchpost
from repotrial.run._watch._stage_desk import STAGE_COMMAND, StageDesk
from repotrial.run._watch._stages import StageKeeper
from repotrial.run._watch._supervisor import RunSupervisor
from repotrial.trace import Exited, MonitorAlert
from repotrial.workspace import Workspace

GATEWAY_PORT: Final = 4000
_HEADROOM_SHARE: Final = Decimal("0.05")
"""Of the cost cap: kept for acceptance and logging (P22)."""
_PREPARE_SECONDS: Final = 120


AGENT_PREPARATION = ErrorCode(
    "agent-preparation",
    MachineError,
    "A command that has to succeed before the agent can start did not.",
    hint="try it with `repotrial agent check NAME`; the adapter's `launch.prepare` has the command",
)


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent works in."""

    workspace: Workspace
    home: Path
    room: ScratchPlace
    launch: Launch
    desk: StageDesk | None
    network: NetworkPlan


class _Watch(msgspec.Struct, frozen=True, kw_only=True):
    """What follows one agent's work."""

    mutations: MutationLog
    budget: RunBudget
    dialogue: Dialogue


class _Guard(msgspec.Struct, frozen=True, kw_only=True):
    """Who decides about one agent while it works."""

    stages: StageKeeper
    supervisor: RunSupervisor
    switch: EndingSwitch
    overseer: Overseer


def work_with_model(run: BoundRun, briefing: str, agent: ModelAgent) -> bytes:
    """Let the agent work to its end; its change, as a patch.

    Raises:
        MODEL_ACCESS_MISSING: nobody said which model answers.
    """
    access = run.settings.models
    if access is None:
        raise MODEL_ACCESS_MISSING.error(
            f"{agent.name}: expected somebody who answers for its model, found none"
        )
    key = f"rt-{secrets.token_urlsafe(24)}"  # never begins like an option of a command line
    with ExitStack() as stack:
        place = _prepare(run, briefing, agent, access, key, stack)
        parent = stack.enter_context(access.open_envelopes(run.paths.root.name, run.plan.spec))
        budget = _build_budget(run, access, parent)
        watch = _Watch(
            mutations=MutationLog(run.writer, place.workspace),
            budget=budget,
            dialogue=Dialogue(run.writer, SystemClock()),
        )
        result, switch = _execute(run, place, access, key, watch)
        _keep_transcripts(run, place, result, watch)
        if switch.ending is None or switch.ending.nature != "safety":
            verify_model(watch.dialogue)
        terminate_model_run(run, result, switch.ending, budget)
        return take_change(run, place.workspace)


def _prepare(
    run: BoundRun, briefing: str, agent: ModelAgent, access: ModelAccess, key: str, stack: ExitStack
) -> _Place:
    installed = stack.enter_context(access.open_agent(agent.adapter))
    launch = build_launch(
        agent.adapter.adapter,
        installed,
        LaunchOrder(
            url=f"http://127.0.0.1:{GATEWAY_PORT}",
            key=key,
            model=agent.model,
            task=briefing,
            search_path=run.installation.search_path,
        ),
    )
    workspace = stack.enter_context(run.installation.open_workspace())
    scratch = stack.enter_context(run.installation.open_scratch())
    room = stack.enter_context(run.installation.open_scratch())
    home = fill_home(scratch.path, launch.files, owner=run.installation.base.owner)
    desk = open_desk(run, stack)
    asked = () if desk is None else desk.binds
    network = plan_network(run.plan.loaded.contract.policy.network, run, stack)
    shown = msgspec.structs.replace(
        launch,
        binds=(*launch.binds, home, Bind(source=room.path, target=ROOM), *asked, *network.binds),
        variables={**launch.variables, **network.variables, "REPOTRIAL_STAGE": STAGE_COMMAND},
    )
    return _Place(workspace=workspace, home=home.source, room=room, launch=shown, desk=desk, network=network)


def _build_budget(run: BoundRun, access: ModelAccess, parent: Parent | None) -> RunBudget:
    limits = run.plan.limits
    return RunBudget(
        RunCaps(
            cost_usd=decimal_text(limits.cost_usd),
            cost_units=access.unit_cap,
            tokens=limits.tokens,
            tool_calls=limits.tool_calls,
            failed_checks=limits.failed_check_cycles,
            headroom_usd=decimal_text(limits.cost_usd * _HEADROOM_SHARE),
        ),
        parent=parent,
    )


def _execute(
    run: BoundRun, place: _Place, access: ModelAccess, key: str, watch: _Watch
) -> tuple[CommandResult, EndingSwitch]:
    writer = run.writer
    reader = build_body_reader(run.paths.blobs)
    post = Watchpost(writer, BreakerState(_build_settings(run, access), read=reader))
    monitor = SyscallMonitor(writer, phase="act", since=writer.last_seq, has_programs=True)
    sandbox = _open_sandbox(run, place, monitor)
    switch = EndingSwitch(sandbox.close)
    mode = find_stage_mode(run.plan)
    stages = StageKeeper(writer, sandbox, stage=find_first_stage(mode, run.installation.capabilities))
    overseer = Overseer(
        writer,
        post=post,
        switch=switch,
        hands=SandboxHands(sandbox, stages=stages, mutations=watch.mutations, room=place.room),
        inbox=Inbox(run.paths.root, patience_seconds=access.patience_seconds),
    )
    supervisor = RunSupervisor(
        writer=writer,
        dialogue=watch.dialogue,
        mutations=watch.mutations,
        budget=watch.budget,
        tariff=access.tariff,
        overseer=overseer,
        inspector=Inspector(writer, stages if mode == "automatic" else None),
    )
    guard = _Guard(stages=stages, supervisor=supervisor, switch=switch, overseer=overseer)
    # The overseer sees everything that acting leaves: rules that anybody can apply again see it, too.
    with overseer:
        with sandbox, run.settings.stopper.watch(sandbox):
            result, problems = _serve(run, place, access, key, sandbox, guard)
        watch.dialogue.conclude()
        watch.mutations.record()
        monitor.close()
    _report_problems(run, (*problems, *overseer.problems))
    return result, switch


def _serve(
    run: BoundRun, place: _Place, access: ModelAccess, key: str, sandbox: ContractSandbox, guard: _Guard
) -> tuple[CommandResult, tuple[str, ...]]:
    """Let the agent work while its gateway listens; what came of it, and what went wrong in the harness."""
    assert sandbox.listener is not None
    # A duplicate: ending the sandbox closes its own, and the gateway must still be able to close.
    listener = sandbox.listener.dup()
    with (
        guard.supervisor,
        serve_desk(place.desk, guard.stages),
        place.network.serve(run, sandbox, run.settings.network),
        _open_recorder(run, access, key) as upstream,
        access.loop.serve(listener, key=key, supervisor=guard.supervisor, upstream=upstream) as served,
    ):
        try:
            _run_preparations(sandbox, place.launch)
            result = _run_agent(run, sandbox, place.launch)
        finally:
            # Nobody who waits for a person, for room or for a timer outlasts the agent.
            guard.switch.close()
            guard.overseer.stop_asking()
            guard.supervisor.stop()
    return result, served.problems


def _report_problems(run: BoundRun, problems: Sequence[str]) -> None:
    """Where the watch itself failed, evidence may be missing: such a run proves nothing."""
    if not problems:
        return
    alert = MonitorAlert(monitor="harness", rule="watch-failed", severity="critical", phase="act")
    run.writer.alert(alert, "\n".join(problems))


@contextmanager
def _open_recorder(run: BoundRun, access: ModelAccess, key: str) -> Iterator[Recorder]:
    """Whoever answers, with a record beside the trace from which the run can be replayed."""
    redactor = run.settings.redactor.with_secret("REPOTRIAL_RUN_KEY", key)

    def note(text: str) -> None:
        alert = MonitorAlert(monitor="replay", rule="divergence", severity="warning", phase="act")
        run.writer.alert(alert, text)

    upstream = access.open_upstream(UpstreamOrder(redactor=redactor, on_divergence=note))
    recorder = Recorder(upstream, run.paths.root, redactor=redactor)
    try:
        yield recorder
    finally:
        access.loop.run(recorder.close())


def _build_settings(run: BoundRun, access: ModelAccess) -> BreakerSettings:
    return build_settings(run.plan.limits, parse_thresholds(access.thresholds))


def _open_sandbox(run: BoundRun, place: _Place, monitor: SyscallMonitor) -> ContractSandbox:
    return run.installation.open_sandbox(
        place.workspace,
        SandboxRequest(
            phase="act",
            stage=find_first_stage(find_stage_mode(run.plan), run.installation.capabilities),
            test_tools=run.plan.loaded.contract.policy.test_tools,
            binds=place.launch.binds,
            variables=place.launch.variables,
            limits=build_resource_limits(run.plan.limits),
            listener_port=GATEWAY_PORT,
        ),
        sink=monitor,
    )


def _run_preparations(sandbox: ContractSandbox, launch: Launch) -> None:
    for argv in launch.prepare:
        result = sandbox.run(CommandSpec(argv=argv, cwd=AGENT_HOME, timeout_seconds=_PREPARE_SECONDS))
        if result.exit != Exited(code=0):
            raise AGENT_PREPARATION.error(f"{argv[0]}: expected exit code 0, found {result.exit}")


def _run_agent(run: BoundRun, sandbox: ContractSandbox, launch: Launch) -> CommandResult:
    limits, writer = run.plan.limits, run.writer
    started_us = SystemClock().now_us()
    with watch_resources(writer, sandbox, build_resource_limits(limits)):
        result = sandbox.run(
            CommandSpec(
                argv=launch.argv,
                timeout_seconds=limits.wall_seconds,
                prefix_bytes=limits.output_mb * 1024**2,
                output_bytes=limits.output_mb * 1024**2,
            )
        )
    record_program(run, launch.argv, result, started_at_us=started_us)
    return result


def _keep_transcripts(run: BoundRun, place: _Place, result: CommandResult, watch: _Watch) -> None:
    spent = {state.measure: state.spent for state in watch.budget.read().measures}
    keep_transcripts(
        run.writer,
        place.home,
        place.launch.transcripts,
        printed=result.stdout.prefix,
        dialogue=watch.dialogue,
        cost_usd=spent.get("usd"),
    )
