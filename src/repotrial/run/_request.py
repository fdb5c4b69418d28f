"""What a run needs to know before it begins: contract, agent, models, network, people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
from msgspec import UNSET

from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, ErrorCode, UsageError
from repotrial._core.words import Level
from repotrial.agents import InstalledAgent, LoadedAdapter
from repotrial.contract import (
    ConfigurationSpec,
    ContractLock,
    ContractRecord,
    Limits,
    LoadedContract,
    RunCaps,
    RunSpec,
)
from repotrial.cost import Parent, Tariff
from repotrial.gateway import GatewayLoop, Upstream
from repotrial.redaction import CustodyPolicy, Redactor, SecretRedactor
from repotrial.run._agents import Agent, ModelAgent, ReferenceAgent, build_agent_configuration
from repotrial.run._stop import Stopper
from repotrial.signing import SigningKey
from repotrial.workspace import CONTRACT_UNLOCKED

if TYPE_CHECKING:
    from repotrial.gateway import AddressCheck, Resolver


MODEL_ACCESS_MISSING = ErrorCode(
    "model-access-missing",
    UsageError,
    "An agent that asks a model was to be run, and no model source was named.",
    hint="name the model source with --upstream: provider:NAME, script:FILE or recording:RUN_DIR",
)


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
class UpstreamOrder:
    """What one run gives to its model source."""

    redactor: Redactor
    """Its secrets, its own key among them: where another run's stood in a recording, this one's stand now."""
    on_divergence: Callable[[str], None]
    """Told where a replay leaves its recording."""


@dataclass(frozen=True, kw_only=True)
class CostAccess:
    """Prices, and what a run draws on beside its own caps."""

    tariff: Tariff
    unit_cap: str
    """Most that a run may cost in abstract units, where it is priced in them."""
    open_envelopes: Callable[[str, RunSpec], AbstractContextManager[Parent | None]]
    """What a run draws on beside its own caps, until the block ends: then it holds nothing any more."""


@dataclass(frozen=True, kw_only=True)
class ModelAccess:
    """The model source, its prices, and where agents are installed."""

    description: str
    """Of the model source; never a key."""
    open_upstream: Callable[[UpstreamOrder], Upstream]
    """Opens the model source for one run; the run closes it."""
    loop: GatewayLoop
    costs: CostAccess
    open_agent: Callable[[LoadedAdapter], AbstractContextManager[InstalledAgent]]
    """Finds an agent in the cache, or installs it there; it stays for as long as the run holds it."""
    thresholds: bytes
    """The breakers' thresholds (TOML)."""
    has_control: bool = True
    """Whether the harness's own requests to the model source say anything: those to a recording do not."""
    preflight: Literal["answered", "skipped"] | None = None
    """What became of the request before the first run; None where no provider is asked."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Keys of the model source, by their names: kept out of every record."""
    patience_seconds: float = 900
    """How long a paused run waits for an operator before it is ended."""


@dataclass(frozen=True, kw_only=True)
class NetworkAccess:
    """How names become addresses, and which of those may be reached: those of the internet, unless told."""

    resolver: Resolver | None = None
    """None: as the host does it."""
    check: AddressCheck | None = None
    """None: only addresses of the public internet."""


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
    models: ModelAccess | None = None
    """Who answers for this run's models, in place of what the settings of all runs say."""
    number: int | None = None
    """Of this attempt, where a store gives them out; None: the next that is free here."""

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
    custody: CustodyPolicy | None = None
    """Who may open the originals of redacted texts; None: only their digests are kept."""
    stopper: Stopper = field(default_factory=Stopper)
    """Ends the runs."""
    models: ModelAccess | None = None
    """For agents that ask a model."""
    costs: CostAccess | None = None
    """For agents that ask none; None: nothing is priced."""
    network: NetworkAccess = field(default_factory=NetworkAccess)
    """For contracts that declare a network."""
    handover: Handover | None = None
    """Shows the workspace to a person, and returns when they are done; None: no person is there."""


class OwnPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Policy files that are not the release's own: with them it is another run."""

    thresholds: Digest | None = None
    """Of the breakers."""
    prices: Digest | None = None
    """Of the price book, or of the abstract schedule."""
    has_time: bool = False
    """Whether time has a price in it, so that it is in force for agents that ask no model as well."""


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
    policy: OwnPolicy | None = None,
) -> RunSpec:
    """What is to be run; equal for every attempt at it.

    Raises:
        REFERENCE_MISSING: the reference is to be tried on a contract that has none.
        CONTRACT_UNLOCKED: the contract has no lock.
    """
    if isinstance(agent, ReferenceAgent) and loaded.reference is None:
        raise REFERENCE_MISSING.error(f"{loaded.directory}: expected a reference, found none")
    lock = find_lock(loaded)
    own = policy or OwnPolicy()
    if not isinstance(agent, ModelAgent):  # of its policy, only prices of time are in force
        own = OwnPolicy(prices=own.prices if own.has_time else None)
    return RunSpec(
        contract_id=loaded.contract.id,
        contract_version_id=lock.version_id,
        statement_digest=lock.statement_digest,
        agent=build_agent_configuration(agent, reference_digest=lock.reference_digest),
        configuration=ConfigurationSpec(
            isolation=level,
            caps=caps or RunCaps(),
            thresholds=own.thresholds or UNSET,
            prices=own.prices or UNSET,
        ),
        root_seed=root_seed,
        replicate=replicate,
    )
