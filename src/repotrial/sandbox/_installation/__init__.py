"""A contract's environment, made ready once on this machine, and the sandboxes that are opened in it."""

from __future__ import annotations

from repotrial.sandbox._installation._artifacts import (
    ArtifactDigestError,
    ArtifactMissingError,
    ArtifactOutsideError,
    open_artifact,
)
from repotrial.sandbox._installation._download import ArtifactAddressError, ArtifactUnreachableError
from repotrial.sandbox._installation._facts import InstallationFacts
from repotrial.sandbox._installation._installation import (
    FilesPresentError,
    Installation,
    InstallationSettings,
    open_installation,
)
from repotrial.sandbox._installation._mounts import HostMountError, MountMissingError, TargetTakenError
from repotrial.sandbox._installation._place import ContractChangedError, ScratchPlace, read_pinned
from repotrial.sandbox._installation._programs import ImagePackagesError
from repotrial.sandbox._installation._sandbox import ContractSandbox
from repotrial.sandbox._installation._services import ServiceNotReadyError
from repotrial.sandbox._installation._setup_errors import (
    SetupFailedError,
    SetupNetworkError,
    SetupOutputMissingError,
)
from repotrial.sandbox._installation._setup_network import ServedNetwork, SetupNetwork, StepNetwork
from repotrial.sandbox._installation._variables import CONTROLLED_VARIABLES, Phase, SecretMissingError

__all__ = [
    "CONTROLLED_VARIABLES",
    "ArtifactAddressError",
    "ArtifactDigestError",
    "ArtifactMissingError",
    "ArtifactOutsideError",
    "ArtifactUnreachableError",
    "ContractChangedError",
    "ContractSandbox",
    "FilesPresentError",
    "HostMountError",
    "ImagePackagesError",
    "Installation",
    "InstallationFacts",
    "InstallationSettings",
    "MountMissingError",
    "Phase",
    "ScratchPlace",
    "SecretMissingError",
    "ServedNetwork",
    "ServiceNotReadyError",
    "SetupFailedError",
    "SetupNetwork",
    "SetupNetworkError",
    "SetupOutputMissingError",
    "StepNetwork",
    "TargetTakenError",
    "open_artifact",
    "open_installation",
    "read_pinned",
]
