"""What an engine is told: settings from a file, and an order for workers on a plan."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, MachineError, UsageError

EngineName: TypeAlias = Literal["slurm", "dask", "kubernetes"]
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

ENGINE_FILE = ErrorCode(
    "engine-file",
    UsageError,
    "The file that says how an engine starts workers is not one, or lacks something.",
    hint="docs/how-to/run-on-a-cluster.md has one for each engine",
)
ENGINE_UNAVAILABLE = ErrorCode(
    "engine-unavailable",
    MachineError,
    "The engine that was to start workers is not here, or refused them.",
    hint="start workers by hand: `repotrial fleet work STORE` on every machine; the plan is in the store",
)


class SlurmSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How `sbatch` starts workers."""

    options: tuple[str, ...] = ()
    """More options of `sbatch`, such as `--partition=long`."""
    variables: tuple[str, ...] = ("HOME", "LANG", "PATH")
    """Names of variables that jobs get from the command line's environment; none of them may be a secret."""
    secrets_file: str | None = None
    """A file on the nodes with NAME=VALUE lines, of this user alone: credentials and the like."""


class DaskSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which Dask cluster starts workers."""

    scheduler: str
    """`tls://HOST:PORT`, or `tcp://` on the loopback: such a port executes what it is sent."""
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0)] = 20
    """How long the scheduler may take to answer."""


class KubernetesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What pods are made of."""

    image: str
    """With this release of RepoTrial in it; by digest."""
    namespace: str = "default"
    secret: str | None = None
    """The Secret whose entries become variables: credentials of the store and of providers."""
    key_secret: str | None = None
    """The Secret that holds the study's key as `seal-key.pem`."""
    cpu: str = "1"
    memory: str = "2Gi"


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of an engine file (TOML)."""

    workers: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 2
    slots: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    """Runs at a time of each worker."""
    idle_seconds: Annotated[float, msgspec.Meta(ge=0)] = 90
    work_options: tuple[str, ...] = ()
    """More options of `repotrial fleet work`."""
    slurm: SlurmSettings = SlurmSettings()
    dask: DaskSettings | None = None
    kubernetes: KubernetesSettings | None = None

    @staticmethod
    def load(path: Path | None) -> EngineSettings:
        """Read an engine file; defaults where none is named.

        Raises:
            ENGINE_FILE: it is not one; the message names the field.
        """
        if path is None:
            return EngineSettings()
        try:
            found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), EngineSettings)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise ENGINE_FILE.error(f"{path}: expected settings of an engine, found: {error}") from error
        for name in found.slurm.variables:
            if not _NAME.fullmatch(name):
                raise ENGINE_FILE.error(f"{path}: slurm.variables: expected a name, found {name!r}")
        return found


class EngineOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is to start."""

    store: str
    plan: Digest
    """What the job is called by: the same plan, the same job."""
    program: tuple[str, ...]
    """How RepoTrial is started on this machine and on nodes like it."""
    key_file: Path
    settings: EngineSettings
    directory: Path
    """Where scripts and manifests are written."""

    @property
    def name(self) -> str:
        return f"repotrial-{self.plan.removeprefix('sha256:')[:10]}"

    def build_command(self, program: tuple[str, ...], key_file: str) -> list[str]:
        """The one worker that every engine starts."""
        settings = self.settings
        words = [*program, "fleet", "work", self.store, "--slots", str(settings.slots)]
        words += ["--idle-seconds", f"{settings.idle_seconds:g}", "--key-file", key_file]
        return [*words, *settings.work_options]


class EngineStarted(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an order."""

    engine: EngineName
    file: str | None
    """The script or manifest."""
    jobs: tuple[str, ...]
    """As the engine calls them; none where a person has to hand the file in."""
    next_step: str
    """What to do now."""
