"""Contracts: what is promised. Pure data with rules; nothing here starts a process."""

from __future__ import annotations

from repotrial.contract._check_document import check_document
from repotrial.contract._contract import CONTRACT_SCHEMA, STATEMENT_FILE, Contract, TaskKind
from repotrial.contract._environment import (
    AllowListNetwork,
    Artifact,
    CommandReadiness,
    Environment,
    ImageArchive,
    ImageLayout,
    ImageReference,
    Mount,
    Network,
    NodeEnvironment,
    PythonEnvironment,
    ReplayNetwork,
    Service,
    SetupStep,
)
from repotrial.contract._lint import lint_contract
from repotrial.contract._loaded import CONTRACT_FILE, LoadedContract
from repotrial.contract._loader import CONTRACT_INVALID, build_invalid_error, check_directory, load_contract
from repotrial.contract._lock import LOCK_FILE, ContractLock, FilePin, RepositoryPin
from repotrial.contract._lockfile import build_lock, check_lock, dump_lock
from repotrial.contract._oracle import Check, Inventory, Overlay, ResultFile, ResultFormat, Runner
from repotrial.contract._policy import DependencyPolicy, Limits, Policy, Severity
from repotrial.contract._problems import Problem, render_problems
from repotrial.contract._record import ContractRecord, build_record, parse_record
from repotrial.contract._repository import (
    TRANSPORTS,
    ArchiveRepository,
    DirectoryRepository,
    GitRepository,
    Repository,
    SubmodulePin,
)
from repotrial.contract._runspec import (
    AgentConfiguration,
    Caps,
    ParameterValue,
    RunConfiguration,
    RunSpec,
    apply_caps,
    deviations,
    parse_run_spec,
)
from repotrial.contract._schema import build_schemas
from repotrial.contract._score import (
    ChangeSummary,
    EnvelopeValue,
    ScoreInputs,
    Violation,
    build_interface_score,
)
from repotrial.contract._scoring import ChangeEnvelope, DimensionWeights, Scoring
from repotrial.contract._types import Document

__all__ = [
    "CONTRACT_FILE",
    "CONTRACT_INVALID",
    "CONTRACT_SCHEMA",
    "LOCK_FILE",
    "STATEMENT_FILE",
    "TRANSPORTS",
    "AgentConfiguration",
    "AllowListNetwork",
    "ArchiveRepository",
    "Artifact",
    "Caps",
    "ChangeEnvelope",
    "ChangeSummary",
    "Check",
    "CommandReadiness",
    "Contract",
    "ContractLock",
    "ContractRecord",
    "DependencyPolicy",
    "DimensionWeights",
    "DirectoryRepository",
    "Document",
    "EnvelopeValue",
    "Environment",
    "FilePin",
    "GitRepository",
    "ImageArchive",
    "ImageLayout",
    "ImageReference",
    "Inventory",
    "Limits",
    "LoadedContract",
    "Mount",
    "Network",
    "NodeEnvironment",
    "Overlay",
    "ParameterValue",
    "Policy",
    "Problem",
    "PythonEnvironment",
    "ReplayNetwork",
    "Repository",
    "RepositoryPin",
    "ResultFile",
    "ResultFormat",
    "RunConfiguration",
    "RunSpec",
    "Runner",
    "ScoreInputs",
    "Scoring",
    "Service",
    "SetupStep",
    "Severity",
    "SubmodulePin",
    "TaskKind",
    "Violation",
    "apply_caps",
    "build_interface_score",
    "build_invalid_error",
    "build_lock",
    "build_record",
    "build_schemas",
    "check_directory",
    "check_document",
    "check_lock",
    "deviations",
    "dump_lock",
    "lint_contract",
    "load_contract",
    "parse_record",
    "parse_run_spec",
    "render_problems",
]
