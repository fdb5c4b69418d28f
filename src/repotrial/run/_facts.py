"""What a run is bound to, as the manifest states it (P2, P10)."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import msgspec

from repotrial import __version__
from repotrial._core.absence import Unknown
from repotrial._core.canonical import decimal_text
from repotrial._core.errors import RepoTrialError
from repotrial._core.machine_class import read_cpu_class, read_memory_class
from repotrial.contract import AllowListNetwork, Limits, LoadedContract, Network, ReplayNetwork
from repotrial.cost import load_price_book
from repotrial.environment import CONTROLLED_VARIABLES, Installation
from repotrial.policy import read_thresholds
from repotrial.run._agents import ModelAgent
from repotrial.run._request import ModelAccess, PlannedRun, RunSettings
from repotrial.run._seeds import build_seeds
from repotrial.run._watch._stages import find_stage_mode
from repotrial.trace import (
    AgentFacts,
    ArchiveIdentity,
    CheckEntryPoint,
    ConfigurationFacts,
    ConfigurationFiles,
    ContractBinding,
    DeclaredFile,
    DeclaredVariables,
    DependencySpecification,
    DirectoryIdentity,
    EntryPoints,
    GitIdentity,
    Harness,
    LoggingFacts,
    ModelFacts,
    PreparedWorkspace,
    RunFacts,
    SetupProduct,
    Submodule,
    WriterOptions,
)
from repotrial.witness import ExecutionRecord

_NO_MODEL = Unknown(reason="asks no model")
_ON_THE_WIRE = Unknown(reason="bound at the first exchange, by the event agent-configuration")
_NO_TOOLS = Unknown(reason="what it uses, only its programs show")


def build_facts(
    plan: PlannedRun,
    settings: RunSettings,
    *,
    run_id: str,
    installation: Installation | RepoTrialError,
    started_at_us: int,
    options: WriterOptions,
) -> RunFacts:
    """What a run stands on. Without an installation it is invalid, and its manifest says why (C2, P2)."""
    lock, unknown = plan.lock, Unknown(reason="not looked at")
    if isinstance(installation, RepoTrialError):
        unknown = Unknown(reason=f"{installation.code}: {installation.message}")
    unbound = RunFacts(
        run_id=run_id,
        contract=ContractBinding(
            id=lock.id, version_id=lock.version_id, statement_digest=lock.statement_digest
        ),
        repository=unknown,
        dependencies=DependencySpecification(lockfiles=unknown, mirrors=unknown),
        environment=unknown,
        package_managers={},
        toolchain={},
        harness=Harness(version=__version__, entry_points=_list_entry_points(plan.loaded)),
        variables=_declare_variables(plan.loaded),
        configuration=_describe_configuration(plan, settings.models, options),
        seeds=build_seeds(plan.spec, plan.loaded.contract.environment),
        agent=_describe_agent(plan),
        locale=unknown,
        time_zone=unknown,
        cpu_class=read_cpu_class(),
        memory_class=read_memory_class(),
        started_at_us=started_at_us,
        redaction_rules_id=settings.redactor.rules_id,
        configuration_files=_declare_files(plan.loaded),
        workspace=PreparedWorkspace(digest=unknown, files=unknown),
    )
    return unbound if isinstance(installation, RepoTrialError) else _bind(unbound, plan, installation)


def _bind(facts: RunFacts, plan: PlannedRun, installation: Installation) -> RunFacts:
    found, setup, can = installation.facts, installation.setup_network, installation.capabilities
    return msgspec.structs.replace(
        facts,
        repository=_identify_repository(plan),
        dependencies=DependencySpecification(
            lockfiles=found.lockfiles,
            mirrors=found.mirrors,
            setup=None
            if setup is None
            else SetupProduct(product_digest=setup.product_digest, hosts=setup.hosts),
        ),
        environment=found.environment,
        package_managers=found.package_managers,
        toolchain=found.toolchain,
        configuration=msgspec.structs.replace(
            facts.configuration,
            meters={
                "cpu": can.cpu_meter,
                "memory": can.memory_limit,
                "disk": can.disk_limit,
                "system_calls": can.syscall_audit,
                "freezer": can.freezer,
                "cpu_share": can.cpu_share,
                "shared_tree": can.shared_tree,
                "account": can.account,
            },
        ),
        workspace=PreparedWorkspace(
            digest=installation.base.label.prepared_digest,
            files=installation.base.label.file_count,
            outputs=installation.base.outputs_digest,
        ),
        locale=_find_variable(plan.loaded, "LANG"),
        time_zone=_find_variable(plan.loaded, "TZ"),
    )


def _identify_repository(plan: PlannedRun) -> GitIdentity | ArchiveIdentity | DirectoryIdentity:
    """As locked; preparing the base has held the files against it."""
    pin = plan.lock.repository
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
        # Seeds have a place of their own: replicates differ in them, and are compared all the same.
        present={"LANG": CONTROLLED_VARIABLES["LANG"], "TZ": CONTROLLED_VARIABLES["TZ"]}
        | environment.variables,
        absent=environment.absent,
        secrets=tuple(secret.name for secret in environment.secrets),
    )


def _declare_files(loaded: LoadedContract) -> ConfigurationFiles:
    environment = loaded.contract.environment
    pins = {pin.path: pin.digest for pin in loaded.files}
    return ConfigurationFiles(
        present=tuple(DeclaredFile(path=file.target, digest=pins[file.source]) for file in environment.files),
        absent=environment.absent_files,
    )


def _describe_configuration(
    plan: PlannedRun, access: ModelAccess | None, options: WriterOptions
) -> ConfigurationFacts:
    return ConfigurationFacts(
        sandbox_level=plan.spec.configuration.isolation,
        meters={},
        limits=_render_limits(plan.limits),
        stages=find_stage_mode(plan),
        network=_name_network(plan.loaded.contract.policy.network),
        models=_describe_models(plan, access),
        logging=LoggingFacts(
            inline_bytes=options.inline_bytes,
            prefix_bytes=ExecutionRecord.prefix_bytes,
            run_budget_bytes=options.run_budget_bytes,
            type_budget_bytes=options.type_budget_bytes,
        ),
    )


def _describe_models(plan: PlannedRun, access: ModelAccess | None) -> ModelFacts | None:
    if access is None or not isinstance(plan.agent, ModelAgent):
        return None
    tariff = access.costs.tariff
    return ModelFacts(
        upstream=access.description,
        price_method=tariff.method,
        thresholds=access.thresholds.decode("utf-8", "replace"),
        thresholds_source="built-in" if access.thresholds == read_thresholds() else "own",
        prices_source="built-in" if tariff.method == load_price_book(None).method else "own",
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


def _describe_agent(plan: PlannedRun) -> AgentFacts:
    agent = plan.spec.agent
    has_model = isinstance(plan.agent, ModelAgent)
    return AgentFacts(
        name=agent.name,
        version=agent.version,
        model=_NO_MODEL if agent.model is None else agent.model,
        temperature=_ON_THE_WIRE if has_model else _NO_MODEL,
        tools=_ON_THE_WIRE if has_model else _NO_TOOLS,
        prompts=_ON_THE_WIRE if has_model else _NO_MODEL,
        adapter_digest=agent.adapter_digest,
        parameters={name: str(value) for name, value in agent.parameters.items()},
    )


def _find_variable(loaded: LoadedContract, name: str) -> str:
    return loaded.contract.environment.variables.get(name, CONTROLLED_VARIABLES[name])
