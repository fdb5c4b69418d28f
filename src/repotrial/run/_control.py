"""Controls (P5): was it the agent, or had it no machine to work on, or no model to ask?"""

from __future__ import annotations

from typing import Final

from repotrial.environment import SandboxRequest
from repotrial.isolation import CommandSpec
from repotrial.run._context import BoundRun
from repotrial.run._faults import AGENT_SANDBOX_LOST, MODEL_UNREACHABLE
from repotrial.run._watch._dialogue import Dialogue
from repotrial.trace import Exited

_CONTROL_SECONDS: Final = 300


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
