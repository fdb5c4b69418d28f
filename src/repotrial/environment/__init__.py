"""What a contract needs installed: host tools, packages, images, services, Setup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.environment._executions import HostExecution, telling
    from repotrial.environment._host import HostTool, HostToolchain, observe_host, verify_host
    from repotrial.environment._images._catalog import KeptImage, import_image, list_images, remove_images
    from repotrial.environment._installation._contract_environment import (
        CONTROLLED_VARIABLES,
        InstallationSettings,
        SandboxRequest,
        build_resource_limits,
    )
    from repotrial.environment._installation._installation import Installation, open_installation
    from repotrial.environment._installation._level import check_machine
    from repotrial.environment._installation._place import ScratchPlace, read_pinned
    from repotrial.environment._installation._program_tree import (
        NpmPrograms,
        ProgramSource,
        PypiPrograms,
        open_program_tree,
    )
    from repotrial.environment._installation._sandbox import ContractSandbox
    from repotrial.environment._installation._setup_network import SETUP_NETWORK, StepNetwork
    from repotrial.environment._node_env import lock_node_packages
    from repotrial.environment._packages import load_index_settings, parse_requirements
    from repotrial.environment._process import (
        PREPARATION_STOPPED,
        Interrupt,
        execute_program,
        interruptible,
    )
    from repotrial.environment._store import (
        BrokenEntry,
        Store,
        StoreKind,
        StoreRecord,
        list_store,
        prune_store,
    )
    from repotrial.environment._tools import SYSTEM_PATH
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "CONTROLLED_VARIABLES",
    "PREPARATION_STOPPED",
    "SETUP_NETWORK",
    "SYSTEM_PATH",
    "BrokenEntry",
    "ContractSandbox",
    "HostExecution",
    "HostTool",
    "HostToolchain",
    "Installation",
    "InstallationSettings",
    "Interrupt",
    "KeptImage",
    "NpmPrograms",
    "ProgramSource",
    "PypiPrograms",
    "SandboxRequest",
    "ScratchPlace",
    "StepNetwork",
    "Store",
    "StoreKind",
    "StoreRecord",
    "build_resource_limits",
    "check_machine",
    "execute_program",
    "import_image",
    "interruptible",
    "list_images",
    "list_store",
    "load_index_settings",
    "lock_node_packages",
    "observe_host",
    "open_installation",
    "open_program_tree",
    "parse_requirements",
    "prune_store",
    "read_pinned",
    "remove_images",
    "telling",
    "verify_host",
]
