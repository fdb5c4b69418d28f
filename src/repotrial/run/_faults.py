"""Why an attempt may say nothing about its agent; whoever reads records needs these, and no machine."""

from __future__ import annotations

from repotrial._core.errors import ErrorCode, MachineError, UsageError

AGENT_NOT_STARTED = ErrorCode(
    "agent-not-started",
    UsageError,
    "There never was a process of the agent: nothing was measured.",
    hint="name a program that the contract's environment or the repository has; `repotrial sandbox exec "
    "DIR -- NAME` tries it",
)
AGENT_SANDBOX_LOST = ErrorCode(
    "agent-sandbox-lost",
    MachineError,
    "The sandbox was gone before the agent was done: nobody can say what it would have done.",
    hint="look at the machine's memory and its log; `repotrial doctor` shows what it can do",
)
MODEL_UNREACHABLE = ErrorCode(
    "model-unreachable",
    MachineError,
    "No request of the agent was answered by a model: nothing was measured but the provider's trouble.",
    hint="look at the key, the provider's address and its limits; then repeat the command, and the run is "
    "conducted again",
)
RUN_STOPPED = ErrorCode(
    "run-stopped",
    UsageError,
    "The operator stopped the run.",
    hint="start it again: what was completed is kept, what was stopped gets a new attempt",
)
