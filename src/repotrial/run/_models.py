"""How agents reach a model, and what that may cost: the operator's choice, shared by many runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.contract import RunSpec
from repotrial.cost import Parent, Tariff
from repotrial.gateway import GatewayLoop, Upstream
from repotrial.run._adapters._install import InstalledAgent
from repotrial.run._adapters._load import LoadedAdapter
from repotrial.trace import Redactor

if TYPE_CHECKING:
    from repotrial.gateway import AddressCheck, Resolver


MODEL_ACCESS_MISSING = ErrorCode(
    "model-access-missing",
    UsageError,
    "An agent that asks a model was to be run, and no model source was named.",
    hint="name the model source with --upstream: provider:NAME, script:FILE or recording:RUN_DIR",
)


@dataclass(frozen=True, kw_only=True)
class UpstreamOrder:
    """What one run gives to its model source."""

    redactor: Redactor
    """Its secrets, its own key among them: where another run's stood in a recording, this one's stand now."""
    on_divergence: Callable[[str], None]
    """Told where a replay leaves its recording."""


@dataclass(frozen=True, kw_only=True)
class ModelAccess:
    """The model source, its prices, and where agents are installed."""

    description: str
    """Of the model source; never a key."""
    open_upstream: Callable[[UpstreamOrder], Upstream]
    """Opens the model source for one run; the run closes it."""
    loop: GatewayLoop
    tariff: Tariff
    unit_cap: str
    """Most that a run may cost in abstract units, where its model has no price."""
    open_agent: Callable[[LoadedAdapter], AbstractContextManager[InstalledAgent]]
    """Finds an agent in the cache, or installs it there; it stays for as long as the run holds it."""
    thresholds: bytes
    """The breakers' thresholds (TOML)."""
    open_envelopes: Callable[[str, RunSpec], AbstractContextManager[Parent | None]]
    """What a run draws on beside its own caps, until the block ends: then it holds nothing any more."""
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
