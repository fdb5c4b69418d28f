"""The verbs of RepoTrial: what the command line calls, and what programs may call.

The only package that sees everything below it. It joins the others and decides nothing.
"""

from __future__ import annotations

from repotrial.api._catalogue import (
    ErrorEntry,
    UnknownErrorCodeError,
    UnknownSchemaError,
    build_schema,
    find_error,
    list_errors,
    list_schemas,
)
from repotrial.api._contracts import (
    ContractCheck,
    ContractDescription,
    check_contract,
    describe_contract,
    load_contract,
    lock_contract,
    verify_lock,
)
from repotrial.api._directories import (
    ContractDirectoryMissingError,
    RunDirectoryMissingError,
)
from repotrial.api._machine import (
    CacheEntry,
    CommandResult,
    DoctorReport,
    EnvironmentNotSupportedError,
    MachineSettings,
    execute_in_contract,
    list_cache,
    prune_cache,
    run_doctor,
)
from repotrial.api._runs import (
    KeyDescription,
    RunCheck,
    iter_run_timeline,
    list_event_types,
    load_own_public_key,
    load_public_keys,
    show_key,
    verify_run,
)
from repotrial.authoring import (
    CommitContract,
    CreatedContract,
    EcosystemName,
    LockResult,
    NewContract,
    create_contract,
    create_contract_from_commit,
)
from repotrial.contract import (
    Check,
    Contract,
    Inventory,
    LoadedContract,
    Problem,
    TaskKind,
)
from repotrial.sandbox import Capabilities
from repotrial.trace import (
    AspectVerdict,
    CouldNotBeChecked,
    DoesNotHold,
    Exited,
    Holds,
    Marker,
    PublicKey,
    Signaled,
    TimelineRow,
)

__all__ = [
    "AspectVerdict",
    "CacheEntry",
    "Capabilities",
    "Check",
    "CommandResult",
    "CommitContract",
    "Contract",
    "ContractCheck",
    "ContractDescription",
    "ContractDirectoryMissingError",
    "CouldNotBeChecked",
    "CreatedContract",
    "DoctorReport",
    "DoesNotHold",
    "EcosystemName",
    "EnvironmentNotSupportedError",
    "ErrorEntry",
    "Exited",
    "Holds",
    "Inventory",
    "KeyDescription",
    "LoadedContract",
    "LockResult",
    "MachineSettings",
    "Marker",
    "NewContract",
    "Problem",
    "PublicKey",
    "RunCheck",
    "RunDirectoryMissingError",
    "Signaled",
    "TaskKind",
    "TimelineRow",
    "UnknownErrorCodeError",
    "UnknownSchemaError",
    "build_schema",
    "check_contract",
    "create_contract",
    "create_contract_from_commit",
    "describe_contract",
    "execute_in_contract",
    "find_error",
    "iter_run_timeline",
    "list_cache",
    "list_errors",
    "list_event_types",
    "list_schemas",
    "load_contract",
    "load_own_public_key",
    "load_public_keys",
    "lock_contract",
    "prune_cache",
    "run_doctor",
    "show_key",
    "verify_lock",
    "verify_run",
]
