"""Why an attempt may say nothing about its agent; whoever reads records needs these, and no machine."""

from __future__ import annotations

from repotrial._core.errors import MachineError, UsageError


class AgentNotStartedError(UsageError):
    """There never was a process of the agent: nothing was measured."""

    code = "agent-not-started"
    default_hint = (
        "name a program that the contract's environment or the repository has; "
        "`repotrial sandbox exec DIR -- NAME` tries it"
    )


class AgentSandboxLostError(MachineError):
    """The sandbox was gone before the agent was done: nobody can say what it would have done."""

    code = "agent-sandbox-lost"
    default_hint = "look at the machine's memory and its log; `repotrial doctor` shows what it can do"


class ModelUnreachableError(MachineError):
    """No request of the agent was answered by a model: nothing was measured but the provider's trouble."""

    code = "model-unreachable"
    default_hint = (
        "look at the key, the provider's address and its limits; then repeat the command, and the run is "
        "conducted again"
    )


class RunStoppedError(UsageError):
    """The operator stopped the run."""

    code = "run-stopped"
    default_hint = "start it again: what was completed is kept, what was stopped gets a new attempt"
