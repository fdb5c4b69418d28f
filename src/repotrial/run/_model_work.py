"""An agent that asks a model at work: in its sandbox, with no way out but the gateway, under watch."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.clock import SystemClock
from repotrial._core.errors import ErrorCode, MachineError
from repotrial.agents import AGENT_HOME, Launch, LaunchOrder, build_launch, fill_home
from repotrial.cost import RunBudget
from repotrial.environment import ContractSandbox, SandboxRequest, ScratchPlace, build_resource_limits
from repotrial.gateway import ProviderWatch, Recorder
from repotrial.isolation import Bind, CommandResult, CommandSpec
from repotrial.policy import BreakerState, build_settings, list_declared_places, parse_thresholds
from repotrial.run._agents import ModelAgent
from repotrial.run._change import take_change
from repotrial.run._context import BoundRun
from repotrial.run._network import NetworkPlan, plan_network
from repotrial.run._program_events import record_program
from repotrial.run._request import MODEL_ACCESS_MISSING, ModelAccess, UpstreamOrder
from repotrial.run._resources import watch_resources
from repotrial.run._termination import terminate_model_run, verify_model
from repotrial.run._transcripts import keep_transcripts
from repotrial.run._watch._breakers import BreakerExecutor, EndingSwitch, TraceObserver, build_body_reader
from repotrial.run._watch._dialogue import Dialogue
from repotrial.run._watch._inbox import Inbox
from repotrial.run._watch._inspection import AnswerInspector
from repotrial.run._watch._mutations import ROOM, LiveSandboxControls, MutationLog
from repotrial.run._watch._stages import (
    STAGE_COMMAND,
    StageController,
    StageRequests,
    find_first_stage,
    find_stage_mode,
    open_stage_requests,
    serve_stage_requests,
)
from repotrial.run._watch._supervisor import RunSupervisor
from repotrial.trace import Exited, MonitorAlert
from repotrial.witness import SyscallMonitor
from repotrial.workspace import Workspace

GATEWAY_PORT: Final = 4000
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
    requests: StageRequests | None
    network: NetworkPlan
    strips: frozenset[str]


class _Watch(msgspec.Struct, frozen=True, kw_only=True):
    """What follows one agent's work."""

    mutations: MutationLog
    budget: RunBudget
    dialogue: Dialogue
    provider: ProviderWatch


class _Watchers(msgspec.Struct, frozen=True, kw_only=True):
    """What decides about one agent while it works."""

    stages: StageController
    supervisor: RunSupervisor
    switch: EndingSwitch
    breakers: BreakerExecutor


def work_with_model(run: BoundRun, briefing: str, agent: ModelAgent) -> bytes:
    """Let the agent work to its end; its change, as a patch.

    Raises:
        MODEL_ACCESS_MISSING: no model source is configured.
    """
    access = run.settings.models
    if access is None:
        raise MODEL_ACCESS_MISSING.error(f"{agent.name}: expected a model source, found none")
    key = f"rt-{secrets.token_urlsafe(24)}"  # never begins like an option of a command line
    if access.preflight is not None:
        rule = f"upstream-{access.preflight}"
        run.writer.alert(MonitorAlert(monitor="preflight", rule=rule, severity="info", phase="act"))
    with ExitStack() as stack:
        place = _prepare(run, briefing, agent, access, key, stack)
        budget = run.books.budget
        watch = _Watch(
            mutations=MutationLog(run.writer, place.workspace),
            budget=budget,
            dialogue=Dialogue(
                run.writer, SystemClock(), context_tokens=agent.adapter.adapter.caps.context_tokens
            ),
            provider=_open_provider_watch(run, agent, access, stack),
        )
        result, switch = _execute(run, place, access, key, watch)
        keep_transcripts(
            run.writer,
            place.home,
            place.launch.transcripts,
            printed=result.stdout.prefix,
            dialogue=watch.dialogue,
            cost_usd=next((state.spent for state in budget.read().measures if state.measure == "usd"), None),
        )
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
    requests = open_stage_requests(run, stack)
    asked = () if requests is None else requests.binds
    network = plan_network(run.plan.loaded.contract.policy.network, run, stack)
    shown = msgspec.structs.replace(
        launch,
        binds=(
            *launch.binds,
            home,
            Bind(source=room.path, target=ROOM, is_live=True),
            *asked,
            *network.binds,
        ),
        variables={
            **run.agent_seed,
            **launch.variables,
            **network.variables,
            "REPOTRIAL_STAGE": STAGE_COMMAND,
        },
    )
    return _Place(
        workspace=workspace,
        home=home.source,
        room=room,
        launch=shown,
        requests=requests,
        network=network,
        strips=frozenset(agent.adapter.adapter.strips),
    )


def _open_provider_watch(
    run: BoundRun, agent: ModelAgent, access: ModelAccess, stack: ExitStack
) -> ProviderWatch:
    """With a way to the upstream of its own, beside the recording; a recording has nothing more to say."""
    upstream = None
    if access.has_control:
        order = UpstreamOrder(redactor=run.settings.redactor, on_divergence=lambda _: None)
        upstream = access.open_upstream(order)
        stack.callback(lambda: access.loop.run(upstream.close()))
    return ProviderWatch(
        run.writer,
        dialect=agent.adapter.adapter.dialect,
        model=agent.model,
        upstream=upstream,
        requests_per_minute=run.plan.limits.model_calls_per_minute,
    )


def _execute(
    run: BoundRun, place: _Place, access: ModelAccess, key: str, watch: _Watch
) -> tuple[CommandResult, EndingSwitch]:
    writer = run.writer
    settings = build_settings(run.plan.limits, parse_thresholds(access.thresholds))
    observer = TraceObserver(writer, BreakerState(settings, read=build_body_reader(run.paths.blobs)))
    monitor = SyscallMonitor(
        writer, phase="act", since=writer.last_seq, ceiling_seconds=run.plan.limits.command_seconds
    )
    sandbox = _open_sandbox(run, place, monitor)
    switch = EndingSwitch(sandbox.close)
    mode = find_stage_mode(run.plan)
    stages = StageController(writer, sandbox, stage=find_first_stage(mode, run.installation.capabilities))
    breakers = BreakerExecutor(
        writer,
        observer=observer,
        switch=switch,
        controls=LiveSandboxControls(sandbox, stages=stages, mutations=watch.mutations, room=place.room),
        inbox=Inbox(run.paths.root, patience_seconds=access.patience_seconds),
    )
    supervisor = RunSupervisor(
        writer=writer,
        dialogue=watch.dialogue,
        mutations=watch.mutations,
        budget=watch.budget,
        tariff=access.costs.tariff,
        breakers=breakers,
        inspector=AnswerInspector(
            writer,
            stages if mode == "automatic" else None,
            network=run.plan.loaded.contract.policy.network,
            provider=watch.provider,
            places=list_declared_places(run.plan.loaded.contract),
        ),
    )
    watchers = _Watchers(stages=stages, supervisor=supervisor, switch=switch, breakers=breakers)
    # The breakers see all events of acting: applied again to the trace, the rules see the same.
    with breakers:
        with sandbox, run.settings.stopper.watch(sandbox), monitor.watch(sandbox):
            result, problems = _serve(run, place, access, key, sandbox, watchers)
        watch.dialogue.conclude()
        watch.mutations.record()
        monitor.close()
        breakers.settle()
        watch.budget.add("failed-checks", observer.state.failed_checks)
    _report_problems(run, (*problems, *breakers.problems))
    return result, switch


def _serve(
    run: BoundRun, place: _Place, access: ModelAccess, key: str, sandbox: ContractSandbox, watchers: _Watchers
) -> tuple[CommandResult, tuple[str, ...]]:
    """Let the agent work while its gateway listens; what came of it, and what went wrong in the harness."""
    assert sandbox.listener is not None
    # A duplicate: ending the sandbox closes its own, and the gateway must still be able to close.
    listener = sandbox.listener.dup()
    with (
        watchers.supervisor,
        run.books.watch(watchers.supervisor.end_unpaid),
        access.loop.watch_loss(sandbox.close),
        serve_stage_requests(place.requests, watchers.stages),
        place.network.serve(run, sandbox, run.settings.network),
        _open_recorder(run, access, key) as upstream,
        access.loop.serve(
            listener,
            key=key,
            supervisor=watchers.supervisor,
            upstream=upstream,
            stripped=place.strips,
        ) as served,
    ):
        try:
            _run_preparations(sandbox, place.launch)
            result = _run_agent(run, sandbox, place.launch)
            access.loop.run(watchers.supervisor.conclude_controls())
        finally:
            # Nothing that waits for a person, for room or for a timer outlasts the agent.
            watchers.switch.close()
            watchers.breakers.stop_asking()
            watchers.supervisor.stop()
    return result, served.problems


def _report_problems(run: BoundRun, problems: Sequence[str]) -> None:
    """If watching itself failed, evidence may be missing: such a run proves nothing."""
    if not problems:
        return
    alert = MonitorAlert(monitor="harness", rule="watch-failed", severity="critical", phase="act")
    run.writer.alert(alert, "\n".join(problems))


@contextmanager
def _open_recorder(run: BoundRun, access: ModelAccess, key: str) -> Iterator[Recorder]:
    """The model source, with a record beside the trace from which the run can be replayed."""
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
