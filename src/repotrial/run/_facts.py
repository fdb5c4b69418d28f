"""What a run is bound to, as the manifest states it (P2, P10)."""

from __future__ import annotations

import os
import platform
from decimal import Decimal
from typing import Literal

from repotrial import __version__
from repotrial._core.absence import Unknown
from repotrial._core.canonical import decimal_text
from repotrial.contract import AllowListNetwork, Limits, LoadedContract, Network, ReplayNetwork
from repotrial.environment import CONTROLLED_VARIABLES, Installation
from repotrial.isolation import Capabilities
from repotrial.run._agents import ModelAgent
from repotrial.run._request import RunRequest
from repotrial.run._seeds import build_seeds
from repotrial.run._staging import find_stage_mode
from repotrial.trace import (
    AgentConfiguration,
    ArchiveIdentity,
    CheckEntryPoint,
    ContractBinding,
    DeclaredVariables,
    DependencySpecification,
    DirectoryIdentity,
    EntryPoints,
    GitIdentity,
    Harness,
    ModelFacts,
    RunConfiguration,
    RunFacts,
    SetupProduct,
    Submodule,
)

_NO_MODEL = Unknown(reason="asks no model")
_MEMORY_STEP_BYTES = 2**30


def build_bound_facts(
    request: RunRequest, run_id: str, installation: Installation, *, rules_id: str, started_at_us: int
) -> RunFacts:
    """The facts of a run whose environment is ready."""
    found = installation.facts
    capabilities = installation.capabilities
    return RunFacts(
        run_id=run_id,
        contract=_bind_contract(request),
        repository=_identify_repository(request),
        dependencies=DependencySpecification(
            lockfiles=found.lockfiles, mirrors=found.mirrors, setup=_describe_setup(installation)
        ),
        environment=found.environment,
        package_managers=found.package_managers,
        toolchain=found.toolchain,
        harness=Harness(version=__version__, entry_points=_list_entry_points(request.loaded)),
        variables=_declare_variables(request.loaded),
        configuration=_describe_configuration(request, capabilities),
        seeds=build_seeds(request.spec),
        agent=_describe_agent(request),
        locale=_find_variable(request.loaded, "LANG"),
        time_zone=_find_variable(request.loaded, "TZ"),
        cpu_class=f"{platform.machine()} x{os.cpu_count() or 1}",
        memory_class=_read_memory_class(),
        started_at_us=started_at_us,
        redaction_rules_id=rules_id,
    )


def build_unbound_facts(
    request: RunRequest, run_id: str, reason: str, *, rules_id: str, started_at_us: int
) -> RunFacts:
    """The facts of a run that could not be bound: it is invalid, and its manifest says why (C2, P2)."""
    unknown = Unknown(reason=reason)
    return RunFacts(
        run_id=run_id,
        contract=_bind_contract(request),
        repository=unknown,
        dependencies=DependencySpecification(lockfiles=unknown, mirrors=unknown),
        environment=unknown,
        package_managers={},
        toolchain={},
        harness=Harness(version=__version__, entry_points=_list_entry_points(request.loaded)),
        variables=_declare_variables(request.loaded),
        configuration=_describe_configuration(request, None),
        seeds=build_seeds(request.spec),
        agent=_describe_agent(request),
        locale=unknown,
        time_zone=unknown,
        cpu_class=f"{platform.machine()} x{os.cpu_count() or 1}",
        memory_class=_read_memory_class(),
        started_at_us=started_at_us,
        redaction_rules_id=rules_id,
    )


def _describe_setup(installation: Installation) -> SetupProduct | None:
    record = installation.setup_network
    if record is None:
        return None
    return SetupProduct(product_digest=record.product_digest, hosts=record.hosts)


def _bind_contract(request: RunRequest) -> ContractBinding:
    lock = request.lock
    return ContractBinding(id=lock.id, version_id=lock.version_id, statement_digest=lock.statement_digest)


def _identify_repository(request: RunRequest) -> GitIdentity | ArchiveIdentity | DirectoryIdentity:
    """As locked; preparing the base has held the files against it."""
    pin = request.lock.repository
    if pin.commit is not None:
        modules = tuple(Submodule(path=module.path, commit=module.commit) for module in pin.submodules)
        return GitIdentity(commit=pin.commit, tree_digest=pin.tree_digest, submodules=modules)
    if pin.archive_digest is not None:
        return ArchiveIdentity(archive_digest=pin.archive_digest, tree_digest=pin.tree_digest)
    return DirectoryIdentity(tree_digest=pin.tree_digest)


def _list_entry_points(loaded: LoadedContract) -> EntryPoints:
    commands = {
        check.id: "; ".join(runner.run for runner in check.all_runners) for check in loaded.contract.checks
    }
    return EntryPoints(
        install=tuple(step.run for step in loaded.contract.setup),
        build=tuple(commands[check.id] for check in loaded.contract.checks if check.gate == "build"),
        acceptance=tuple(
            CheckEntryPoint(check_id=check.id, command=commands[check.id]) for check in loaded.contract.checks
        ),
    )


def _declare_variables(loaded: LoadedContract) -> DeclaredVariables:
    environment = loaded.contract.environment
    return DeclaredVariables(
        present={**CONTROLLED_VARIABLES, **environment.variables},
        absent=environment.absent,
        secrets=tuple(secret.name for secret in environment.secrets),
    )


def _describe_configuration(request: RunRequest, capabilities: Capabilities | None) -> RunConfiguration:
    policy = request.loaded.contract.policy
    meters: dict[str, str | Unknown] = {}
    if capabilities is not None:
        meters = {
            "cpu": capabilities.cpu_meter,
            "memory": capabilities.memory_limit,
            "disk": capabilities.disk_limit,
            "system_calls": capabilities.syscall_audit,
            "freezer": capabilities.freezer,
        }
    return RunConfiguration(
        sandbox_level=request.spec.configuration.isolation,
        meters=meters,
        limits=_render_limits(request.limits),
        stages=find_stage_mode(request),
        network=_name_network(policy.network),
        models=_describe_models(request),
    )


def _describe_models(request: RunRequest) -> ModelFacts | None:
    access = request.models
    if access is None or not isinstance(request.agent, ModelAgent):
        return None
    book = access.tariff.book
    return ModelFacts(
        upstream=access.description,
        price_method=access.tariff.fallback.method if book is None else book.method,
        thresholds=access.thresholds.decode("utf-8", "replace"),
    )


def _name_network(network: Network) -> Literal["none", "allow-list", "replay"]:
    match network:
        case AllowListNetwork():
            return "allow-list"
        case ReplayNetwork():
            return "replay"
        case _:
            return "none"


def _render_limits(limits: Limits) -> dict[str, str]:
    rendered = {}
    for name in Limits.__struct_fields__:
        value = getattr(limits, name)
        if value is None:
            continue
        if isinstance(value, int | Decimal):
            rendered[name] = decimal_text(Decimal(value))
        else:
            base = name.removesuffix("_mb")
            rendered[f"{base}_request_mb"] = str(value.request)
            rendered[f"{base}_kill_mb"] = str(value.kill)
    return rendered


def _describe_agent(request: RunRequest) -> AgentConfiguration:
    agent = request.spec.agent
    return AgentConfiguration(
        name=agent.name,
        version=agent.version,
        model=_NO_MODEL if agent.model is None else agent.model,
        temperature=_NO_MODEL,
        tools=(),
        prompts=(),
    )


def _find_variable(loaded: LoadedContract, name: str) -> str:
    return loaded.contract.environment.variables.get(name, CONTROLLED_VARIABLES[name])


def _read_memory_class() -> str:
    """Main memory in whole gibibytes: a class, not a fingerprint."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{max(1, round(total / _MEMORY_STEP_BYTES))} GiB"
