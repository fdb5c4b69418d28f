"""Policy (C7, C10) and limits."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from repotrial.contract._environment import Network
from repotrial.contract._types import (
    Glob,
    Identifier,
    Megabytes,
    NonNegative,
    Positive,
    SandboxPath,
    Seconds,
    Share,
    StrictDocument,
    Usd,
)


class ChangeEnvelope(StrictDocument, frozen=True, kw_only=True):
    """The size of change that costs nothing."""

    lines: Positive
    """Lines added and removed together."""
    files: Positive
    """Files touched."""


class DimensionWeights(StrictDocument, frozen=True, kw_only=True):
    """Weights of the graded dimensions; they sum to 1."""

    minimal: Share
    """How small the change is."""
    trace: Share
    """Whether all provenance is there."""
    maintainable: Share
    """Whether the maintainability checks hold."""


class InterfaceWeights(StrictDocument, frozen=True, kw_only=True):
    """Weights of the general score interface (C15)."""

    ok: Share = Share("1")
    """w_ok: the contract is satisfied."""
    value: Share = Share("0")
    """w_val: the value of the change."""
    violation: Share = Share("0")
    """w_viol: the price of violations."""


NoBuildGate = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^none: \S[^\x00-\x1f\x7f]{4,}$(?!\n)", max_length=200, extra={"expected": '"none: why"'}
    ),
]
"""The words for a second gate that cannot fail."""


class Scoring(StrictDocument, frozen=True, kw_only=True):
    """How a run that passes all gates is graded."""

    decay: Share = msgspec.field(name="lambda", default=Share("0.5"))
    """λ of q_minimal = exp(-λ·d)."""
    envelope: ChangeEnvelope = ChangeEnvelope(lines=60, files=3)
    """The size of change that costs nothing."""
    weights: DimensionWeights = DimensionWeights(
        minimal=Share("0.4"), trace=Share("0.3"), maintainable=Share("0.3")
    )
    """Weights of the graded dimensions (S6)."""
    interface: InterfaceWeights = InterfaceWeights()
    """Weights of the general score interface (C15)."""
    maintainability: tuple[Identifier, ...] = ()
    """Ids of the checks that define q_maint."""
    build_gate: NoBuildGate | None = None
    """Why the contract has no build or static check, as `none: why`; left out where it has one (S2)."""


RuleSeverity: TypeAlias = Literal["hard", "compliance"]
"""A hard rule fails the contract; a compliance rule costs score (C7)."""


class Violations(StrictDocument, frozen=True, kw_only=True):
    """How much each rule weighs when it is broken."""

    network: RuleSeverity = "hard"
    """Reaching for what the network policy does not allow."""
    protected: RuleSeverity = "hard"
    """Touching a protected file."""
    writable: RuleSeverity = "hard"
    """Touching a file outside `writable`."""
    tools: RuleSeverity = "hard"
    """Calling a program that is not allowed."""
    dependencies: RuleSeverity = "hard"
    """Breaking the dependency rule."""
    change_size: RuleSeverity = "compliance"
    """A change larger than the limits below allow."""
    generated: RuleSeverity = "compliance"
    """Generated files in the change."""
    limits: RuleSeverity = "hard"
    """Reaching one of `[limits]`, which ends the run in any case."""


class ToolPolicy(StrictDocument, frozen=True, kw_only=True):
    """Which programs the agent may call."""

    allowed: tuple[str, ...] | None = None
    """Names of programs; left out: all that the environment has."""
    denied: tuple[str, ...] = ()
    """Names of programs that must not be called."""


class DependencyPolicy(StrictDocument, frozen=True, kw_only=True):
    """What may happen to the project's dependencies."""

    rule: Literal["unchanged", "declared-only", "free"] = "declared-only"
    """`declared-only`: a new import must stand in a manifest of the project."""
    manifests: tuple[Glob, ...] = ()
    """Files that declare dependencies."""
    registries: tuple[str, ...] = ()
    """Registries that a resolution may use."""
    max_resolutions: NonNegative | None = None
    """Cap on dependency-resolution events (B6)."""


class Policy(StrictDocument, frozen=True, kw_only=True):
    """What the agent may do, and what its change may touch."""

    network: Network = "none"
    """What the agent may reach; checks reach nothing."""
    writable: tuple[Glob, ...] = ("**",)
    """What the change may touch; later patterns win, `!` takes back."""
    protected: tuple[Glob, ...] = ()
    """What it must not touch, even where `writable` covers it."""
    generated: tuple[Glob, ...] = ()
    """What tools leave behind; never part of the change (C10)."""
    violations: Violations = Violations()
    """How much each rule weighs."""
    max_files_changed: NonNegative | None = None
    """Most files that the change may touch."""
    max_lines_changed: NonNegative | None = None
    """Most lines that it may add and remove together."""
    max_binary_bytes: NonNegative | None = None
    """Most bytes of binary files that it may bring."""
    stages: Literal["explicit", "automatic", "single"] = "automatic"
    """How the run moves from reading to writing to testing (P7)."""
    test_tools: tuple[SandboxPath, ...] = ()
    """Programs that are masked until the test stage."""
    tools: ToolPolicy = ToolPolicy()
    """Which programs the agent may call."""
    dependencies: DependencyPolicy = DependencyPolicy()
    """What may happen to the project's dependencies."""
    invariants: tuple[Identifier, ...] = ()
    """Ids of checks that state repository invariants: they must hold whatever the task (C10)."""


class Band(StrictDocument, frozen=True, kw_only=True):
    """A resource floor and the point at which the run is ended; both are recorded, with what was observed."""

    request: Megabytes
    """What the run can count on."""
    kill: Megabytes
    """Where it is ended."""


class Limits(StrictDocument, frozen=True, kw_only=True):
    """Caps on one run. They are policy choices (P19), not measurements."""

    wall_seconds: Seconds = 1800
    """Time for the agent, by the clock."""
    command_seconds: Seconds = 600
    """Ceiling of a single command of the agent: there it is ended with everything that it started."""
    cpu_seconds: Seconds | None = None
    """Processor time of the agent's whole process tree."""
    cost_usd: Usd = Usd("5.00")
    """What the run may cost."""
    tokens: Positive | None = None
    """Tokens of all model calls together."""
    model_calls_per_minute: Positive = 120
    """Requests to a model within any minute; the next one waits (Q12)."""
    tool_calls: Positive | None = None
    """Tool calls of the agent."""
    tool_calls_per_minute: Positive = 240
    """Tool calls within any minute; beyond it the agent's next request waits (Q12)."""
    failed_check_cycles: Positive | None = None
    """Failing test runs of the agent, all of them together."""
    memory_mb: Band = Band(request=512, kill=2048)
    """Main memory."""
    disk_mb: Band = Band(request=512, kill=4096)
    """Disk space that the run may take."""
    processes: Positive = 512
    """Processes at one time."""
    output_mb: Megabytes = 64
    """Most that one command may print."""
