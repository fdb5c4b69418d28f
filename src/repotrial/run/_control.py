"""A control (P5): was it the agent that ended its sandbox, or can this machine hold none?"""

from __future__ import annotations

from typing import Final

from repotrial._core.errors import MachineError
from repotrial.run._context import BoundRun
from repotrial.sandbox import CommandSpec
from repotrial.trace import Exited

__all__ = ["AgentSandboxLostError", "verify_machine"]

_CONTROL_SECONDS: Final = 300


class AgentSandboxLostError(MachineError):
    """The sandbox was gone before the agent was done: nobody can say what it would have done."""

    code = "agent-sandbox-lost"
    default_hint = "look at the machine's memory and its log; `repotrial doctor` shows what it can do"


def verify_machine(run: BoundRun) -> None:
    """Where another sandbox does its work at once, it was the agent that ended its own.

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
