"""RunSpec: everything that decides what a run is, and an id over it (P2, P8, P30)."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from repotrial._core.canonical import (
    AsciiKey,
    Count,
    JsonValue,
    SafeInt,
    canonical_bytes,
    canonical_digest,
    decimal_text,
)
from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.seed import ROOT_SEED
from repotrial._core.words import Level
from repotrial.contract._environment import AllowListNetwork, ReplayNetwork
from repotrial.contract._policy import Band, Limits
from repotrial.contract._types import Identifier, Megabytes, Positive, Seconds, StrictDocument, Usd

RUN_SPEC_SCHEMA = "repotrial/run-spec@1"

ParameterValue: TypeAlias = SafeInt | bool | str
"""Fractions travel as decimal text: what is hashed holds no floats."""

_NAME_CHARS = 60
_MAX_PLACES = 12
_MAX_USD = 10**9
_DIGEST_CHARS = 10
_UNSAFE = re.compile(r"[^a-z0-9._-]")


RUN_SPEC = ErrorCode(
    "run-spec",
    ContractError,
    "A run specification cannot be read: it is not JSON, misses a field, or has one that is unknown.",
    hint="write run specifications with repotrial; unknown fields and other majors are refused",
)


class AgentSpec(StrictDocument, frozen=True, kw_only=True):
    """Which agent, exactly."""

    name: Identifier
    version: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    model: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    """Left out for agents that ask no model: a script, a patch, a person."""
    parameters: dict[AsciiKey, ParameterValue] = {}
    """Temperature, effort and the like; fractions as text, `"0.7"`."""
    prompts_digest: Digest | None = None
    """Over the prompts that the agent brings; the statement has a digest of its own."""
    adapter_digest: Digest
    """Over the adapter that starts the agent."""


class RunCaps(StrictDocument, frozen=True, kw_only=True):
    """Limits that this run sets in place of the contract's; what is left out is as the contract says."""

    wall_seconds: Seconds | None = None
    command_seconds: Seconds | None = None
    cpu_seconds: Seconds | None = None
    cost_usd: Usd | None = None
    tokens: Positive | None = None
    tool_calls: Positive | None = None
    failed_check_cycles: Positive | None = None
    memory_mb: Band | None = None
    disk_mb: Band | None = None
    processes: Positive | None = None
    output_mb: Megabytes | None = None

    def __post_init__(self) -> None:
        if self.cost_usd is not None and not _is_amount(self.cost_usd):
            raise ValueError("expected cost_usd between 0 and 10^9 with at most 12 decimal places")

    def apply_to(self, limits: Limits) -> Limits:
        """A contract's limits, with what this run sets in their place."""
        fields = msgspec.structs.asdict(self)
        changed = {name: value for name, value in fields.items() if value is not None}
        return msgspec.structs.replace(limits, **changed)


class ConfigurationSpec(StrictDocument, frozen=True, kw_only=True):
    """How the run is carried out (P2)."""

    isolation: Level
    """The sandbox level of this run, at least what the contract asks for."""
    stages: Literal["as-contract", "explicit", "automatic", "single"] = "as-contract"
    network: Literal["as-contract", "none"] | AllowListNetwork | ReplayNetwork = "as-contract"
    caps: RunCaps = RunCaps()
    thresholds: Digest | UnsetType = UNSET
    """Digest of the breakers' thresholds, where they are not the release's own; left out otherwise, so that
    such specifications have the id that they always had."""
    prices: Digest | UnsetType = UNSET
    """The same of the price book."""


class RunSpec(StrictDocument, frozen=True, kw_only=True, dict=True):
    """One run, before it happens. Attempts at the same spec are separate directories with the same id."""

    schema: Annotated[str, msgspec.Meta(pattern=r"^repotrial/run-spec@1(\.[0-9]+)?$(?!\n)")] = RUN_SPEC_SCHEMA
    contract_id: Identifier
    contract_version_id: Digest
    statement_digest: Digest
    """Beside the version id, which leaves the statement out (P30)."""
    agent: AgentSpec
    configuration: ConfigurationSpec
    root_seed: Count = ROOT_SEED
    replicate: Count = 0
    """Counted from 0."""

    def to_canonical(self) -> JsonValue:
        """The spec as a canonical value: every field, decimals as text."""
        return _canonical(msgspec.to_builtins(self, builtin_types=(Decimal,)))

    def to_bytes(self) -> bytes:
        """The spec as a file; `parse_run_spec` reads it back."""
        return canonical_bytes(self.to_canonical())

    @cached_property
    def run_spec_id(self) -> Digest:
        """Digest over the canonical form, under a tag of its own: no other document has the same."""
        return canonical_digest(["repotrial/run-spec-id@1", self.to_canonical()])

    @cached_property
    def run_id(self) -> str:
        """A readable name for directories; the digest in it tells specs apart, the names help people."""
        contract, agent = (_file_name(name) for name in (self.contract_id, self.agent.name))
        digest = self.run_spec_id.removeprefix("sha256:")[:_DIGEST_CHARS]
        return f"{contract}-{agent}-r{self.replicate}-{digest}"


def parse_run_spec(data: bytes) -> RunSpec:
    """Read a run specification.

    Raises:
        RUN_SPEC: the bytes are not one; the message names the field.
    """
    try:
        return msgspec.json.decode(data, type=RunSpec)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RUN_SPEC.error(f"expected a {RUN_SPEC_SCHEMA} document, found: {error}") from error


def _canonical(value: Any) -> JsonValue:
    match value:
        case Decimal():
            return decimal_text(value)
        case dict():
            return {key: _canonical(item) for key, item in value.items()}
        case list() | tuple():
            return [_canonical(item) for item in value]
        case _:
            leaf: JsonValue = value  # what has no canonical form is refused by `canonical_bytes`
            return leaf


def _is_amount(value: Decimal) -> bool:
    """Bounded in size and in digits: a decimal can otherwise stand for a text of a billion characters."""
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -_MAX_PLACES and 0 <= value <= _MAX_USD


def _file_name(name: str) -> str:
    """Safe whatever the name holds, since constructors do not validate."""
    return _UNSAFE.sub("_", name)[:_NAME_CHARS].strip("._-") or "unnamed"
