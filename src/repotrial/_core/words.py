"""Words that several packages share, each defined here once."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, TypeAlias


class Level(StrEnum):
    """Isolation levels, strongest first. A back end registers itself for each level that it offers."""

    L3 = "L3"
    """Unprivileged uid, overlay, bubblewrap, syscall supervisor, empty network namespace."""
    L3C = "L3c"
    """A container through the Docker API."""
    L2 = "L2"
    """Bubblewrap on a copied tree: no overlay."""
    L1 = "L1"
    """Retired: Landlock without namespaces. Old contracts and runs name it."""
    L0 = "L0"
    """Retired: a plain subprocess. Old contracts and runs name it."""


RETIRED_LEVELS: Final = frozenset({Level.L1, Level.L0})
OFFERED_LEVELS: Final = tuple(level for level in Level if level not in RETIRED_LEVELS)
"""Strongest first."""

LifecyclePhase: TypeAlias = Literal["bind", "set-up", "brief", "act", "accept", "seal"]
"""The lifecycle of a run, in this order (P1)."""

Gate: TypeAlias = Literal["patch", "build", "acceptance", "safety"]
"""Which gate a check belongs to (S2)."""

SandboxPhase: TypeAlias = Literal["setup", "act", "accept"]
"""What a sandbox is opened for."""

JudgedTree: TypeAlias = Literal["candidate", "reference", "snapshot"]
"""Whose tree was judged; the others are control executions."""

ErrorReason: TypeAlias = Literal[
    "misconfiguration", "timeout", "crash", "missing-dependency", "resource-exhausted", "harness-exception"
]
"""Why a check did not complete (P3)."""

UNPAID: Final = "the budget was used up"
"""Why an execution of acceptance has no result: it did not start, or was ended (B11)."""

EndCause: TypeAlias = Literal[
    "ended", "timeout", "cpu", "memory", "output", "disk", "processes", "sandbox-lost"
]
"""What ended a command: itself, a ceiling of the harness, or the loss of its sandbox."""

Stage: TypeAlias = Literal["read", "write", "test"]
"""Staged privileges, in this order (P7)."""

AlertSeverity: TypeAlias = Literal["info", "warning", "critical"]
"""How grave an alert is."""

TextFormat: TypeAlias = Literal["natural-language", "code", "command"]
"""What kind of text a rule matched."""

TerminationCategory: TypeAlias = Literal[
    "completed", "agent-exit", "circuit-breaker", "operator-abort", "run-timeout", "harness-fault"
]
"""Why acting ended. Only the breaker, the operator and the timeout end a run early (P12)."""

TerminationNature: TypeAlias = Literal["safety", "resource", "none"]
"""A safety termination is unscorable for success; a resource termination is never an acceptance failure."""

ProviderRule: TypeAlias = Literal[
    "provider-unavailable",
    "provider-rate-limited",
    "provider-rejected",
    "other-request",
    "own-rate",
    "control-answered",
    "control-failed",
    "control-rejected",
]
"""Alerts of the monitor `provider`: troubles of an upstream, and what the harness's own request to it met.
`other-request`: the request was not as the plan fixed it; `own-rate`: the run passed the rate of its plan."""

LOCKFILES: Final = frozenset(
    {
        "bun.lock",
        "bun.lockb",
        "Cargo.lock",
        "composer.lock",
        "conda-lock.yml",
        "deno.lock",
        "flake.lock",
        "Gemfile.lock",
        "go.sum",
        "gradle.lockfile",
        "mix.lock",
        "npm-shrinkwrap.json",
        "package-lock.json",
        "Package.resolved",
        "packages.lock.json",
        "pdm.lock",
        "Pipfile.lock",
        "pnpm-lock.yaml",
        "Podfile.lock",
        "poetry.lock",
        "pubspec.lock",
        "pylock.toml",
        "requirements.lock",
        "uv.lock",
        "yarn.lock",
    }
)
"""Names by which package managers know their locks."""
