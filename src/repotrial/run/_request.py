"""What a run needs to know before it begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from repotrial._core.errors import ContractError, ErrorCode, UsageError
from repotrial._core.words import Level
from repotrial.contract import (
    ConfigurationSpec,
    ContractLock,
    ContractRecord,
    Limits,
    LoadedContract,
    RunCaps,
    RunSpec,
)
from repotrial.run._agents import Agent, ReferenceAgent, build_agent_configuration
from repotrial.run._models import ModelAccess, NetworkAccess
from repotrial.run._stop import Stopper
from repotrial.trace import SecretRedactor, SigningKey
from repotrial.workspace import CONTRACT_UNLOCKED

Handover: TypeAlias = Callable[[Path, str, int], bool]
"""Takes the workspace, the briefing and the seconds that there are; true when the person is done in time."""


REFERENCE_MISSING = ErrorCode(
    "reference-missing",
    ContractError,
    "The reference was to be tried, and the contract has none.",
    hint='add `reference = "reference.patch"` to the contract, or try another agent',
)
HUMAN_UNAVAILABLE = ErrorCode(
    "human-unavailable",
    UsageError,
    "A run was to be done by a person, and there is no terminal to ask at.",
    hint="start it from a terminal, one run at a time",
)


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run that is wanted: a contract, an agent, and the specification of both, which is hashed."""

    loaded: LoadedContract
    agent: Agent
    spec: RunSpec
    conducted: Path | None = None
    """Where it was carried through before; None if it was not."""
    attempts: frozenset[Path] = frozenset()
    """All that there were when it was planned."""

    @property
    def lock(self) -> ContractLock:
        return find_lock(self.loaded)

    @property
    def record(self) -> ContractRecord:
        return ContractRecord(contract=self.loaded.contract, lock=self.lock)

    @property
    def limits(self) -> Limits:
        """The contract's limits, with what this run sets in their place."""
        return self.spec.configuration.caps.apply_to(self.loaded.contract.limits)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What all runs of one command share: where they are recorded, their key, and their models."""

    runs: Path
    """The directory that run directories are made in."""
    key: SigningKey
    redactor: SecretRedactor
    """Keeps values of secrets out of the record."""
    stopper: Stopper = field(default_factory=Stopper)
    """Ends the runs."""
    models: ModelAccess | None = None
    """For agents that ask a model."""
    network: NetworkAccess = field(default_factory=NetworkAccess)
    """For contracts that declare a network."""
    handover: Handover | None = None
    """Shows the workspace to a person, and returns when they are done; None: no person is there."""


def find_lock(loaded: LoadedContract) -> ContractLock:
    """The lock of a contract that is to be run.

    Raises:
        CONTRACT_UNLOCKED: it has none.
    """
    if loaded.lock is None:
        raise CONTRACT_UNLOCKED.error(f"{loaded.directory}: expected a locked contract, found no lock")
    return loaded.lock


def build_spec(
    loaded: LoadedContract,
    agent: Agent,
    *,
    level: Level,
    root_seed: int,
    replicate: int,
    caps: RunCaps | None = None,
) -> RunSpec:
    """What is to be run; equal for every attempt at it.

    Raises:
        REFERENCE_MISSING: the reference is to be tried on a contract that has none.
        CONTRACT_UNLOCKED: the contract has no lock.
    """
    if isinstance(agent, ReferenceAgent) and loaded.reference is None:
        raise REFERENCE_MISSING.error(f"{loaded.directory}: expected a reference, found none")
    lock = find_lock(loaded)
    return RunSpec(
        contract_id=loaded.contract.id,
        contract_version_id=lock.version_id,
        statement_digest=lock.statement_digest,
        agent=build_agent_configuration(agent, reference_digest=lock.reference_digest),
        configuration=ConfigurationSpec(isolation=level, caps=caps or RunCaps()),
        root_seed=root_seed,
        replicate=replicate,
    )
