"""The manifest: everything that a run was bound to before its first action (P2, P10).

A fact that could not be found out is `Unknown(reason)`, which differs from "there is none". A run
whose repository, dependencies, environment or harness are not all known is not bound to anything and does not
verify; other gaps, such as the temperature of an agent that does not tell it, stay visible. What two runs
must have in common to be compared (P30) is digested into one `comparability_class`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.canonical import AsciiKey, Count, DecimalText, canonical_bytes, canonical_digest
from repotrial._core.digest import Digest
from repotrial._core.display import neutralize
from repotrial._core.words import Level
from repotrial.trace._payloads.common import Name
from repotrial.trace._payloads.course import RunId

MANIFEST_SCHEMA = "repotrial/manifest@1"
_MAX_CHARACTERS = 300
_ABSENT = "(absent)"

Commit = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?(?!\n)$", description="a full commit id")
]


class ContractBinding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which contract, to the byte."""

    id: Name
    """The contract's name."""
    version_id: Digest
    """C11: digest over repository, environment, setup, oracle and policy."""
    statement_digest: Digest
    """What the agent was asked."""


class Submodule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Name
    """Where it lies in the tree."""
    commit: Commit
    """What it was at."""


class GitIdentity(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="git"
):
    """A snapshot that came from git."""

    commit: Commit
    """The base commit."""
    tree_digest: Digest
    """Over paths, modes and contents, as found on disk."""
    submodules: tuple[Submodule, ...] = ()
    """All of them, resolved."""


class ArchiveIdentity(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="archive"
):
    """A snapshot that came from an archive."""

    archive_digest: Digest
    """Over the archive's bytes."""
    tree_digest: Digest
    """Over paths, modes and contents, as found on disk."""


class DirectoryIdentity(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="directory"
):
    """A snapshot that came from plain files."""

    tree_digest: Digest
    """Over paths, modes and contents, as found on disk."""


RepositoryIdentity: TypeAlias = GitIdentity | ArchiveIdentity | DirectoryIdentity


class Lockfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Name
    """Where it was found."""
    digest: Digest
    """Over its bytes."""


class SetupProduct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a Setup with network made (C12): the same commands may make another one tomorrow."""

    product_digest: Digest
    """Over the tree as Setup left it, without its history, and over everything that steps keep elsewhere."""
    hosts: tuple[str, ...]
    """Who answered, live or from a recording: host and port, in order of name."""


class DependencySpecification(
    # Left out where there is none: manifests of other runs stay what they were.
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """What the dependencies were resolved to, and from where."""

    lockfiles: tuple[Lockfile, ...] | Unknown
    """What fixed the dependencies."""
    mirrors: tuple[str, ...] | Unknown
    """Indexes and proxies that answered; empty if everything was vendored or cached."""
    setup: SetupProduct | None = None
    """What Setup fetched and made; absent where it had no network."""


class ImageEnvironment(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="image"
):
    """The run happened in an image."""

    reference: Name
    """How the image was named."""
    image_digest: Digest
    """Which image it was."""


class HostEnvironment(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="host"
):
    """The run happened on the machine's own file system."""

    observed_id: Digest
    """Digest over what was observed of it."""


RunEnvironment: TypeAlias = ImageEnvironment | HostEnvironment


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


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an agent's model was reached, priced and watched (P19, P21, P22)."""

    upstream: Name
    """Who answered; never a key."""
    price_method: Name
    """How cost was projected: the price book by its digest, or the fallback schedule by its version."""
    thresholds: str
    """The breakers' thresholds, as their file has them: with them, every decision can be derived again."""


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
    """P10: the standard variables through which the tests were seeded."""


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

    def build_manifest(self) -> Manifest:
        """Complete the facts with schema and comparability class."""
        fields = {name: getattr(self, name) for name in RunFacts.__struct_fields__}
        return Manifest(
            **fields, schema="repotrial/manifest@1", comparability_class=build_comparability_class(self)
        )


class ManifestDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Something in which two runs differ that must agree, or that is not known of one of them."""

    field: str
    """Its path in the manifest."""
    one: str
    """What the first run has there."""
    other: str
    """What the second run has there."""


class Manifest(RunFacts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The document `manifest.json`."""

    schema: Literal["repotrial/manifest@1"]
    """Which version of this format."""
    comparability_class: Digest
    """Runs of one class may be compared without a remark (P30)."""

    def list_differences(self, other: Manifest) -> list[ManifestDifference]:
        """What stands against comparing with another run (P30); none for runs of one comparability class.

        What is unknown of one run is not equal to anything, not even to what is unknown of the other.
        """
        left, right = _list_compared(self), _list_compared(other)
        found = {difference.field: difference for difference in _iter_differences(left, right, "")}
        for run in (self, other):
            for field, unknown in iter_unbound_fields(run):
                text = _show(f"unknown: {unknown.reason}")
                found.setdefault(field, ManifestDifference(field=field, one=text, other=text))
        return [found[field] for field in sorted(found)]


COMPARED_FIELDS = (
    "configuration",
    "contract",
    "cpu_class",
    "dependencies",
    "environment",
    "harness",
    "locale",
    "memory_class",
    "package_managers",
    "repository",
    "time_zone",
    "toolchain",
    "variables",
)


def build_comparability_class(facts: RunFacts) -> Digest:
    """Digest over the fields that must agree between runs; agent, seeds and time are what may differ."""
    return canonical_digest({name: msgspec.to_builtins(getattr(facts, name)) for name in COMPARED_FIELDS})


_BINDING_FIELDS = ("repository", "dependencies", "environment", "harness")


def iter_unbound_fields(facts: RunFacts) -> Iterator[tuple[str, Unknown]]:
    """Unknown facts about what was judged, and by what (C2, P2): they make a run invalid."""
    for name in _BINDING_FIELDS:
        yield from _iter_unknown(getattr(facts, name), name)


def _iter_unknown(value: Any, where: str) -> Iterator[tuple[str, Unknown]]:
    match value:
        case Unknown():
            yield where, value
        case msgspec.Struct():
            for name in value.__struct_fields__:
                yield from _iter_unknown(getattr(value, name), f"{where}.{name}" if where else name)
        case dict():
            for key, item in value.items():
                yield from _iter_unknown(item, f"{where}.{key}")
        case _:
            return


def _list_compared(run: Manifest) -> dict[str, Any]:
    return {name: msgspec.to_builtins(getattr(run, name)) for name in COMPARED_FIELDS}


def _iter_differences(one: Any, other: Any, where: str) -> Iterator[ManifestDifference]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            place = f"{where}.{key}" if where else key
            yield from _iter_differences(one.get(key, _ABSENT), other.get(key, _ABSENT), place)
    elif one != other:
        yield ManifestDifference(field=where, one=_show(one), other=_show(other))


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else canonical_bytes(value).decode()
    return neutralize(text, max_characters=_MAX_CHARACTERS)
