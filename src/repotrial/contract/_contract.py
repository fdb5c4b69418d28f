"""The contract: (R, E, Setup, Oracle, Policy) and a statement (C1)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from repotrial.contract._environment import Environment, SetupStep
from repotrial.contract._oracle import Check
from repotrial.contract._policy import Limits, Policy
from repotrial.contract._repository import Repository
from repotrial.contract._scoring import Scoring
from repotrial.contract._types import Document, Identifier, ReferencePath, StatementPath, WorkspacePath

CONTRACT_SCHEMA = "repotrial/contract@1"
STATEMENT_FILE = "statement.md"

TaskKind: TypeAlias = Literal[
    "bug-fix",
    "refactor",
    "dependency-upgrade",
    "api-migration",
    "documentation",
    "operational-hardening",
    "feature",
]
"""C8."""


class Clarification(Document, frozen=True, kw_only=True):
    """Disambiguation metadata (C9)."""

    modules: tuple[WorkspacePath, ...] = ()
    """Where the change belongs."""
    entry_points: tuple[str, ...] = ()
    """What users call."""
    behavior: tuple[str, ...] = ()
    """What must be true afterwards, one sentence each."""
    hints: tuple[str, ...] = ()
    """Tool hints for the briefing (P6)."""


class Contract(Document, frozen=True, kw_only=True):
    """All of `contract.toml`."""

    schema: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^repotrial/contract@1(\.[0-9]+)?$(?!\n)",
            extra={"expected": f'"{CONTRACT_SCHEMA}"'},
        ),
    ]
    """Which version of this format."""
    id: Identifier
    """The contract's name."""
    title: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^(?=.*\S)[^\x00-\x1f\x7f]+$(?!\n)",
            max_length=200,
            extra={"expected": "one line of text"},
        ),
    ]
    """One line for people."""
    kind: TaskKind
    """The kind of work."""
    labels: tuple[Identifier, ...] = ()
    """Free labels for selection and strata."""
    ecosystem: Identifier | None = None
    """Language ecosystem, for strata (B7)."""
    statement: StatementPath = STATEMENT_FILE
    """What the agent is told."""
    reference: ReferencePath | None = None
    """A change that satisfies the contract; never shown to an agent."""
    clarify: Clarification = Clarification()
    """What removes doubt about the task."""
    repository: Repository
    """R: where the snapshot comes from."""
    environment: Environment
    """E: everything outside the tree."""
    setup: tuple[SetupStep, ...] = ()
    """Steps before the agent, in order."""
    checks: Annotated[tuple[Check, ...], msgspec.Meta(min_length=1)]
    """The Oracle: checks, in order."""
    policy: Policy = Policy()
    """What the agent may do, and what its change may touch."""
    limits: Limits = Limits()
    """Caps on one run."""
    scoring: Scoring = Scoring()
    """How a run that passes all gates is graded."""
