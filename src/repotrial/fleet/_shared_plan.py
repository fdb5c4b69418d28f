"""The plan in a store: runs, their order, their conditions, and all that they need."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError, UsageError
from repotrial.contract import RunSpec
from repotrial.fleet._bundle import pack_directory, unpack
from repotrial.run import Agent, PlannedRun
from repotrial.store import STORE_MISSING, Store

PLAN_KEY: Final = "plan/plan.json"
_INPUTS_KEY: Final = "plan/inputs.tar.gz"
_MICRO: Final = 1_000_000
NOTHING: Final = digest_bytes(b"")
"""Of a plan whose runs need no files."""

STORE_IN_USE = ErrorCode(
    "store-in-use",
    UsageError,
    "The store holds the plan of other runs.",
    hint="name another prefix; `repotrial fleet status STORE` shows what is there",
)
FLEET_PLAN = ErrorCode(
    "fleet-plan",
    EvidenceError,
    "The store has no plan that this release can read.",
    hint="write one with `repotrial run start … --store URL --dry-run`, by the release that works on it",
)
_CLASS_KEY: Final = "plan/machine.json"
FLEET_MISMATCH = ErrorCode(
    "fleet-mismatch",
    UsageError,
    "This machine would conduct the runs under other conditions than the plan says, so it claims none.",
    hint="install the same release and the same files on all machines",
)


class SharedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the plan."""

    spec: RunSpec
    contract: str
    """Where the contract lies in the inputs."""
    agent: Digest
    """Which of the plan's agents."""
    models: int | None = None
    """Which of the plan's model sources; None: it asks none."""
    reserved_micro_usd: int = 0
    """Most that an attempt may cost: held from its claim to its record."""

    @classmethod
    def build(cls, run: PlannedRun, *, contract: str, models: int | None, reserved_usd: Decimal) -> SharedRun:
        """A run of this machine as all machines know it."""
        return cls(
            spec=run.spec,
            contract=contract,
            agent=digest_agent(run.agent),
            models=models,
            reserved_micro_usd=to_micro_usd(reserved_usd),
        )

    @property
    def run_id(self) -> str:
        return self.spec.run_id

    @property
    def task(self) -> str:
        return self.spec.contract_id


class SharedEnvelopes(msgspec.Struct, frozen=True, kw_only=True):
    """What all runs together, and those of one task, may cost (B4)."""

    total_micro_usd: int | None = None
    task_micro_usd: int | None = None

    @classmethod
    def build(cls, *, total: Decimal | None, task: Decimal | None) -> SharedEnvelopes:
        """Limits in dollars; None: there is none."""
        return cls(
            total_micro_usd=None if total is None else to_micro_usd(total),
            task_micro_usd=None if task is None else to_micro_usd(task),
        )

    @property
    def are_set(self) -> bool:
        return self.total_micro_usd is not None or self.task_micro_usd is not None


class SharedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All of `plan/plan.json`. It is written once and never changed."""

    schema: Literal["repotrial/fleet-plan@1"] = "repotrial/fleet-plan@1"
    conditions: dict[str, str]
    """What a worker has to find on its own machine: release, level, digests of prices and thresholds."""
    study_keys: tuple[str, ...]
    """Public keys that may vouch for a worker's key, in PEM form."""
    ttl_seconds: Annotated[float, msgspec.Meta(gt=0)] = 60
    """A claim that was not renewed for so long, by the store's clock, may be superseded."""
    envelopes: SharedEnvelopes = SharedEnvelopes()
    models: tuple[dict[str, object], ...] = ()
    """Model sources; a key is only ever named."""
    agents: dict[Digest, Agent]
    """Each once."""
    inputs: Digest = NOTHING
    """Of the archive with contracts, prices, thresholds and scripts."""
    runs: tuple[SharedRun, ...]
    """In the order in which they are claimed."""

    @property
    def digest(self) -> Digest:
        return digest_bytes(msgspec.json.encode(self, order="deterministic"))

    def with_inputs(self, inputs: Digest) -> SharedPlan:
        """The same plan, for these inputs."""
        return msgspec.structs.replace(self, inputs=inputs)

    def verify_conditions(self, found: Mapping[str, str]) -> None:
        """Refuse a machine that would measure something else.

        Raises:
            FLEET_MISMATCH: it differs; the message names where.
        """
        for name in sorted({*self.conditions, *found}):
            expected, here = self.conditions.get(name, "nothing"), found.get(name, "nothing")
            if expected != here:
                raise FLEET_MISMATCH.error(f"{name}: expected {expected} as in the plan, found {here}")


def find_other_class(store: Store, machine: Mapping[str, str]) -> str | None:
    """How this machine differs from the one that worked on the plan first; None: it does not (P30)."""
    if store.create(_CLASS_KEY, msgspec.json.encode(dict(machine), order="deterministic")):
        return None
    first = msgspec.json.decode(store.read(_CLASS_KEY), type=dict[str, str])
    return "; ".join(
        f"{name}: expected {first.get(name)}, found {machine.get(name)}"
        for name in sorted({*first, *machine})
        if first.get(name) != machine.get(name)
    )


def to_micro_usd(value: Decimal) -> int:
    """Millionths of a dollar, rounded up: an envelope is never overdrawn by a rounding."""
    return int((value * _MICRO).to_integral_value(rounding=ROUND_CEILING))


def digest_agent(agent: Agent) -> Digest:
    """What tells agents of a plan apart."""
    return canonical_digest(msgspec.to_builtins(agent, str_keys=True))


def write_inputs(store: Store, directories: Mapping[str, Path]) -> Digest:
    """Bring contracts and files into the store, by the names that the plan calls them.

    Raises:
        RepoTrialError: a file cannot be read, or the store cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="repotrial-inputs-") as folder:
        packed = Path(folder) / "inputs.tar.gz"
        digest = pack_directory(packed, directories)
        found = store.find(_INPUTS_KEY)
        if found is None or found.size_bytes != packed.stat().st_size:
            store.upload(_INPUTS_KEY, packed)
    return digest


def write_plan(store: Store, plan: SharedPlan) -> bool:
    """Freeze the plan in the store; false: the very same one was there.

    Raises:
        STORE_IN_USE: there is another one.
    """
    data = msgspec.json.encode(plan, order="deterministic")
    is_there = store.find(PLAN_KEY) is not None
    if not store.create(PLAN_KEY, data):
        known = load_plan(store)
        raise STORE_IN_USE.error(
            f"{store.url}: expected no plan, or this one of {len(plan.runs)} runs, found another of "
            f"{len(known.runs)} runs"
        )
    return not is_there


def load_plan(store: Store) -> SharedPlan:
    """The plan of a store.

    Raises:
        FLEET_PLAN: there is none, or another release wrote it.
    """
    try:
        data = store.read(PLAN_KEY)
    except EvidenceError as error:
        if error.code != STORE_MISSING:
            raise
        raise FLEET_PLAN.error(f"{store.url}: expected a plan, found none") from error
    try:
        return msgspec.json.decode(data, type=SharedPlan)
    except msgspec.DecodeError as error:
        raise FLEET_PLAN.error(f"{store.url}/{PLAN_KEY}: expected a plan, found: {error}") from error


def unpack_inputs(store: Store, plan: SharedPlan, target: Path) -> None:
    """Contracts and files as the plan's maker had them.

    Raises:
        STORE_DIGEST: they are others.
    """
    packed = target.with_name(f"{target.name}.tar.gz")
    store.verify_download(_INPUTS_KEY, packed, plan.inputs)
    try:
        unpack(packed, target)
    finally:
        packed.unlink()
