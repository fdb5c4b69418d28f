"""Monitors report in at the start and the end of what they watch: a quiet record was watched (Q5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from repotrial.run._agents import CommandAgent, HumanAgent, ModelAgent, ScriptAgent
from repotrial.run._context import BoundRun
from repotrial.trace import AgentTranscript, StageTransition
from repotrial.witness import MonitorDesk

_OF_SANDBOX: Final = ("system-calls", "resources")
_OF_MODEL: Final = ("policy", "breakers", "budget", AgentTranscript.event_type)


@contextmanager
def watch_acting(run: BoundRun) -> Iterator[None]:
    """The monitors of the agent, for as long as the block lasts."""
    idle = _find_idle(run)
    names = (
        *_OF_SANDBOX,
        StageTransition.event_type,
        *(_OF_MODEL if isinstance(run.plan.agent, ModelAgent) else ()),
    )
    states = {name: idle or _find_blindness(run, name) for name in names}
    report = MonitorDesk(run.writer, "act", None, states, run.watched)
    yield
    report.end()


def watch_check(run: BoundRun, check_id: str) -> MonitorDesk:
    """The monitors of one sandbox of a check."""
    states = {name: _find_blindness(run, name) for name in _OF_SANDBOX}
    return MonitorDesk(run.writer, "accept", check_id, states, run.watched)


def _find_idle(run: BoundRun) -> str:
    """Why no monitor watches an agent of this kind; empty if they do."""
    match run.plan.agent:
        case ScriptAgent() | CommandAgent() | ModelAgent():
            return ""
        case HumanAgent():
            return "a person works outside of a sandbox"
        case _:
            return "no program of the agent runs"


def _find_blindness(run: BoundRun, monitor: str) -> str:
    """Why a monitor cannot watch in a sandbox of this level; empty if it can."""
    capabilities = run.installation.capabilities
    if monitor == "system-calls" and capabilities.syscall_audit != "notify":
        return f"no supervisor of system calls at isolation level {capabilities.level}"
    if monitor == StageTransition.event_type and not capabilities.has_stages:
        return f"no stages at isolation level {capabilities.level}"
    return ""
