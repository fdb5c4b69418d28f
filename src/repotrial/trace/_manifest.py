"""The manifest: everything that a run was bound to before its first action (P2, P10).

A fact that could not be found out is `Unknown(reason)`, which differs from "there is none". A run
whose repository, dependencies, environment, prepared workspace or harness are not all known is not bound to
anything and does not verify; other gaps stay visible. What two runs must have in common to be compared (P30)
is digested into one `comparability_class`.

Two versions are read. Version 2 is what this release writes: it has every field. Version 1 has none of those
that may be `UNSET` here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from repotrial._core.absence import Unknown
from repotrial._core.canonical import AsciiKey, Count, DecimalText, canonical_digest
from repotrial._core.digest import Digest
from repotrial._core.words import Level
from repotrial.trace._comparability import (
    ManifestDifference,
    build_compared,
    build_unknown_difference,
    iter_differences,
    iter_unknown,
)
from repotrial.trace._manifest_ground import (
    ConfigurationFiles,
    DependencySpecification,
    PreparedWorkspace,
    RepositoryIdentity,
    RunEnvironment,
)
from repotrial.trace._payloads.common import Name
from repotrial.trace._payloads.course import RunId

MANIFEST_SCHEMA = "repotrial/manifest@2"
MANIFEST_SCHEMAS = ("repotrial/manifest@1", MANIFEST_SCHEMA)
"""All that this release reads."""


class ContractBinding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which contract, to the byte."""

    id: Name
    """The contract's name."""
    version_id: Digest
    """C11: digest over repository, environment, setup, oracle and policy."""
    statement_digest: Digest
    """What the agent was asked."""


class CheckEntryPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    check_id: Name
    """The contract's check."""
    command: Name
    """What ran."""


class EntryPoints(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The commands that the harness ran, in order; an empty list says that there is none."""

    install: tuple[str, ...] | Unknown
    """Commands of Setup."""
    build: tuple[str, ...] | Unknown
    """Commands of the build gate."""
    acceptance: tuple[CheckEntryPoint, ...] | Unknown
    """Every check that has to run; completeness is judged against this list (P15)."""


class Harness(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Name
    """The version of RepoTrial."""
    entry_points: EntryPoints
    """What it ran."""


class DeclaredVariables(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Environment variables of the run (C3)."""

    present: dict[AsciiKey, str]
    """Set, with their values."""
    absent: tuple[str, ...] = ()
    """Declared to be unset."""
    secrets: tuple[str, ...] = ()
    """Names only."""


PolicySource: TypeAlias = Literal["built-in", "own"]
"""Whether a policy file is the one of this release, or one of the operator's own: a deviation (X6)."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an agent's model was reached, priced and watched (P19, P21, P22)."""

    upstream: Name
    """Who answered; never a key."""
    price_method: Name
    """How cost was projected: the price book by its digest, or the fallback schedule by its version."""
    thresholds: str
    """The breakers' thresholds, as their file has them: with them, every decision can be derived again."""
    thresholds_source: PolicySource | UnsetType = UNSET
    """Whose thresholds these are."""
    prices_source: PolicySource | UnsetType = UNSET
    """Whose prices were used."""


class LoggingFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much the record keeps."""

    inline_bytes: Count
    """Longer bodies are blobs."""
    prefix_bytes: Count
    """Kept of a command's output, at least."""
    run_budget_bytes: Count | None
    """For lines and blobs of the run together; null for no limit."""
    type_budget_bytes: dict[AsciiKey, Count]
    """The same for single event types."""


class ConfigurationFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the run was carried out."""

    sandbox_level: Level | Unknown
    """The isolation level that was in force."""
    meters: dict[AsciiKey, str | Unknown]
    """By what each resource was measured."""
    limits: dict[AsciiKey, DecimalText]
    """By name; the unit is the end of the name (`wall_seconds`, `cost_usd`)."""
    stages: Literal["explicit", "automatic", "single"]
    """How privileges moved."""
    network: Literal["none", "allow-list", "replay"]
    """What could be reached."""
    models: ModelFacts | None = None
    """How models were reached; null for agents that ask none."""
    logging: LoggingFacts | UnsetType = UNSET
    """How much the record keeps."""


class SeedStream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stream spawned from the root seed."""

    name: Name
    """What it is for."""
    spawn_key: tuple[Count, ...]
    """Its place below the root seed."""


class Seeds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    root: Count
    """The root seed."""
    streams: tuple[SeedStream, ...] = ()
    """Streams spawned from it."""
    test_variables: dict[AsciiKey, str] = {}
    """P10: the variables through which the tests were seeded."""
    agent_variables: dict[AsciiKey, str] | UnsetType = UNSET
    """The variables through which the agent was seeded."""


class PromptDigest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    """Which prompt."""
    digest: Digest
    """Over its text."""


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    """The agent."""
    version: Name | Unknown
    """Its version."""
    model: Name | Unknown
    """The model that it asked."""
    temperature: DecimalText | Unknown
    """Sampling temperature."""
    tools: tuple[str, ...] | Unknown
    """Tools that it had."""
    prompts: tuple[PromptDigest, ...] | Unknown
    """Prompts that it brought."""
    adapter_digest: Digest | UnsetType = UNSET
    """Over what starts it: the adapter with its locks, the script, the patch."""
    parameters: dict[AsciiKey, str] | UnsetType = UNSET
    """What it was told beside its task, by name."""


class RunFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known about a run before its first action."""

    run_id: RunId
    """The run."""
    contract: ContractBinding
    """Which contract."""
    repository: RepositoryIdentity | Unknown
    """Which snapshot."""
    dependencies: DependencySpecification
    """Which dependencies."""
    environment: RunEnvironment | Unknown
    """Where programs came from."""
    package_managers: dict[AsciiKey, str | Unknown]
    """Observed versions by name."""
    toolchain: dict[AsciiKey, str | Unknown]
    """Observed versions by name."""
    harness: Harness
    """What carried the run out."""
    variables: DeclaredVariables
    """Environment variables."""
    configuration: ConfigurationFacts
    """How the run was carried out."""
    seeds: Seeds
    """Randomness (P8, P10)."""
    agent: AgentFacts
    """Who worked."""
    locale: Name | Unknown
    """The locale of all programs."""
    time_zone: Name | Unknown
    """The time zone of all programs."""
    cpu_class: Name | Unknown
    """Architecture and number of processors."""
    memory_class: Name | Unknown
    """Main memory, as a class."""
    started_at_us: Count
    """When the run was bound, microseconds since the epoch."""
    redaction_rules_id: Digest | Unknown
    """Which scanner the bodies passed; values of secrets do not enter it."""
    machine_settings: dict[AsciiKey, str] = {}
    """Settings of this machine by name; recorded, never compared."""
    configuration_files: ConfigurationFiles | UnsetType = UNSET
    """Configuration files outside the tree."""
    workspace: PreparedWorkspace | UnsetType = UNSET
    """The prepared workspace."""

    def build_manifest(self) -> Manifest:
        """Complete the facts with schema and comparability class."""
        fields = {name: getattr(self, name) for name in RunFacts.__struct_fields__}
        return Manifest(
            **fields,
            schema="repotrial/manifest@2",
            comparability_class=build_comparability_class(self, schema=MANIFEST_SCHEMA),
        )


class Manifest(RunFacts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The document `manifest.json`."""

    schema: Literal["repotrial/manifest@1", "repotrial/manifest@2"]
    """Which version of this format."""
    comparability_class: Digest
    """Runs of one class may be compared without a remark (P30)."""

    def list_differences(self, other: Manifest) -> list[ManifestDifference]:
        """What stands against comparing with another run (P30); none for runs of one comparability class.

        What is unknown of one run is not equal to anything, not even to what is unknown of the other.
        """
        schema = min(self.schema, other.schema)  # what the older of the two can tell
        left, right = (build_compared(run, schema=schema) for run in (self, other))
        found = {difference.field: difference for difference in iter_differences(left, right, "")}
        for run in (self, other):
            for field, unknown in iter_unbound_fields(run):
                found.setdefault(field, build_unknown_difference(field, unknown))
        return [found[field] for field in sorted(found)]


def build_comparability_class(facts: RunFacts, *, schema: str) -> Digest:
    """Digest over the fields that must agree between runs; agent, seeds and time are what may differ."""
    return canonical_digest(build_compared(facts, schema=schema))


_BINDING_FIELDS = ("repository", "dependencies", "environment", "harness", "workspace")


def iter_unbound_fields(facts: RunFacts) -> Iterator[tuple[str, Unknown]]:
    """Unknown facts about what was judged, and by what (C2, P2): they make a run invalid."""
    for name in _BINDING_FIELDS:
        yield from iter_unknown(getattr(facts, name), name)
