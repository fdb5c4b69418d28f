"""Writes a small sealed run directory by hand, for `make demo`.

No agent ran and nothing was executed, and the record says so: checks have errors instead of results. What it
binds (repository, lockfiles, machine) is observed.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from repotrial import __version__
from repotrial._core.absence import Unknown
from repotrial._core.canonical import JsonValue, canonical_digest
from repotrial._core.clock import SystemClock
from repotrial._core.digest import digest_bytes, digest_file
from repotrial.contract import LoadedContract, load_contract
from repotrial.source import resolve_snapshot
from repotrial.trace import (
    AcceptanceExecution,
    AgentConfiguration,
    Briefing,
    CheckEntryPoint,
    Command,
    ContractBinding,
    DeclaredVariables,
    DependencySpecification,
    DirectoryIdentity,
    EntryPoints,
    Errored,
    ExitUnknown,
    Harness,
    HostEnvironment,
    Lockfile,
    Manifest,
    NotStarted,
    PhaseChanged,
    RunConfiguration,
    RunFacts,
    RunOpened,
    RunPaths,
    SecretRedactor,
    Seeds,
    Termination,
    ToolInvocation,
    TraceWriter,
    build_manifest,
    build_test_ids,
    load_or_create_key,
    seal_run,
    write_manifest,
)

RUN_ID = "demo-by-hand"
BY_HAND = "written by hand, nothing was executed"
NOT_RUN = Unknown(reason=BY_HAND)


def main() -> int:
    contract_directory, run_directory, key_file = (Path(argument) for argument in sys.argv[1:4])
    loaded = load_contract(contract_directory)
    paths = RunPaths(run_directory)
    redactor = SecretRedactor({"API_TOKEN": "correct-horse-battery"})
    write_record(paths, build_manifest(observe_facts(loaded, redactor)), loaded, redactor)
    seal_run(paths, load_or_create_key(key_file), harness_version=__version__)
    return 0


def observe_facts(loaded: LoadedContract, redactor: SecretRedactor) -> RunFacts:
    assert loaded.lock is not None, "the example contracts are locked"
    contract = loaded.contract
    snapshot = resolve_snapshot(contract.repository, base=loaded.directory)
    lockfile = loaded.directory / "requirements.lock"
    machine: JsonValue = {
        "machine": platform.machine(),
        "system": platform.system(),
        "release": platform.release(),
    }
    return RunFacts(
        run_id=RUN_ID,
        contract=ContractBinding(
            id=contract.id,
            version_id=loaded.lock.version_id,
            statement_digest=loaded.lock.statement_digest,
        ),
        repository=DirectoryIdentity(tree_digest=snapshot.tree_digest),
        dependencies=DependencySpecification(
            lockfiles=(Lockfile(path=lockfile.name, digest=digest_file(lockfile)),), mirrors=()
        ),
        environment=HostEnvironment(observed_id=canonical_digest(machine)),
        package_managers={},
        toolchain={"python": platform.python_version()},
        harness=Harness(
            version=__version__,
            entry_points=EntryPoints(
                install=(),
                build=(),
                acceptance=tuple(
                    CheckEntryPoint(check_id=check.id, command=check.run)
                    for check in contract.checks
                    if check.gate == "acceptance" and check.run
                ),
            ),
        ),
        variables=DeclaredVariables(
            present=contract.environment.variables,
            absent=tuple(contract.environment.absent),
            secrets=("API_TOKEN",),
        ),
        configuration=RunConfiguration(
            sandbox_level=NOT_RUN, meters={}, limits={"wall_seconds": "1800"}, stages="single", network="none"
        ),
        seeds=Seeds(root=20260307),
        agent=AgentConfiguration(
            name="by-hand",
            version=NOT_RUN,
            model=NOT_RUN,
            temperature=NOT_RUN,
            tools=NOT_RUN,
            prompts=NOT_RUN,
        ),
        locale=NOT_RUN,
        time_zone=NOT_RUN,
        cpu_class=NOT_RUN,
        memory_class=NOT_RUN,
        started_at_us=SystemClock().now_us(),
        redaction_rules_id=redactor.rules_id,
    )


def write_record(
    paths: RunPaths, manifest: Manifest, loaded: LoadedContract, redactor: SecretRedactor
) -> None:
    checks = manifest.harness.entry_points.acceptance
    assert not isinstance(checks, Unknown)
    manifest_bytes = write_manifest(paths.manifest, manifest, redactor=redactor)
    opened = RunOpened(
        run_id=RUN_ID,
        manifest_digest=digest_bytes(manifest_bytes),
        redaction_rules_id=redactor.rules_id,
        harness_version=__version__,
    )
    with TraceWriter.create(paths, opened, redactor=redactor) as writer:
        writer.append(PhaseChanged(phase="bind", previous=None), actor="harness")
        writer.append(PhaseChanged(phase="brief", previous="bind"), actor="harness")
        issue = writer.body(loaded.statement.encode())
        writer.append(Briefing(issue=issue, obligations=(), delivered=issue), actor="harness")
        writer.append(PhaseChanged(phase="act", previous="brief"), actor="harness")
        command = "curl -H 'Authorization: correct-horse-battery' https://example.org \x1b[31m"
        writer.append(
            ToolInvocation(
                tool="shell",
                source="transcript",
                arguments=writer.body(command.encode()),
                command=Command(argv=("sh", "-c", command), cwd="."),
                exit=ExitUnknown(reason=BY_HAND),
                started_at_us=SystemClock().now_us(),
                wall_us=0,
            ),
            actor="agent",
        )
        writer.append(
            Termination(category="completed", nature="none", code="done", rationale="end of the demo"),
            actor="harness",
        )
        writer.append(PhaseChanged(phase="accept", previous="act"), actor="harness")
        for check in checks:
            writer.append(build_execution(writer, check, manifest), actor="harness")
        writer.append(PhaseChanged(phase="seal", previous="accept"), actor="harness")


def build_execution(writer: TraceWriter, check: CheckEntryPoint, manifest: Manifest) -> AcceptanceExecution:
    assert isinstance(manifest.repository, DirectoryIdentity)
    now_us = SystemClock().now_us()
    nothing = writer.output(b"", of=AcceptanceExecution)
    return AcceptanceExecution(
        started_at_us=now_us,
        ended_at_us=now_us,
        command=Command(argv=("sh", "-c", check.command), cwd="."),
        exit=NotStarted(reason=BY_HAND),
        outcome=Errored(reason="harness-exception", detail=BY_HAND),
        stdout=nothing,
        stderr=nothing,
        check_id=check.check_id,
        gate="acceptance",
        attempt=1,
        failing=build_test_ids([]),
        passed_count=0,
        skipped_count=0,
        missing=build_test_ids([]),
        tree_digest=manifest.repository.tree_digest,
    )


if __name__ == "__main__":
    sys.exit(main())
