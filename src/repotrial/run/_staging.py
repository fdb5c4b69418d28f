"""Which stages a run has, and where it begins (P7)."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Literal, TypeAlias

from repotrial._core.words import Stage
from repotrial.isolation import Capabilities
from repotrial.run._agents import ModelAgent
from repotrial.run._context import BoundRun
from repotrial.run._request import PlannedRun
from repotrial.run._watch._stage_desk import StageDesk
from repotrial.run._watch._stages import StageKeeper

StageMode: TypeAlias = Literal["explicit", "automatic", "single"]


def find_stage_mode(plan: PlannedRun) -> StageMode:
    """As the run's specification says, else its contract; an agent without a model has no calls to go by."""
    wanted = plan.spec.configuration.stages
    mode: StageMode = plan.loaded.contract.policy.stages if wanted == "as-contract" else wanted
    if mode == "automatic" and not isinstance(plan.agent, ModelAgent):
        return "single"
    return mode


def find_first_stage(mode: StageMode, capabilities: Capabilities) -> Stage:
    """Reading only, where the sandbox can keep to it; a run without stages may do everything at once."""
    return "read" if mode != "single" and capabilities.has_stages else "test"


def open_desk(run: BoundRun, stack: ExitStack) -> StageDesk | None:
    """Where the agent asks for stages; null where it has not to ask, or asking would change nothing."""
    if find_stage_mode(run.plan) != "explicit" or not run.installation.capabilities.has_stages:
        return None
    room = stack.enter_context(run.installation.open_scratch())
    return StageDesk(room, owner=run.installation.base.owner)


def serve_desk(desk: StageDesk | None, stages: StageKeeper) -> AbstractContextManager[object]:
    """Answer for as long as the block lasts."""
    return nullcontext() if desk is None else desk.open(stages)
