"""Whole run directories, made by the real writer: the evidence that attacks are made on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial._core.words import Level, LifecyclePhase
from repotrial.redaction import Redactor, SecretRedactor
from repotrial.signing import SigningKey
from repotrial.trace import (
    AcceptanceExecution,
    AgentConfiguration,
    AgentFacts,
    Briefing,
    BuildCheck,
    ByTool,
    CheckEntryPoint,
    Command,
    ConfigurationFacts,
    ConfigurationFiles,
    ContractBinding,
    CoveredTool,
    DeclaredFile,
    DeclaredVariables,
    DependencySpecification,
    Enforced,
    EntryPoints,
    EventRef,
    Exited,
    Failed,
    FileEntry,
    FileModified,
    GitIdentity,
    Harness,
    HostEnvironment,
    Intervention,
    Justification,
    Lockfile,
    LoggingFacts,
    LogPointer,
    Manifest,
    MonitorAlert,
    OfferedTool,
    OnAlert,
    OnDecision,
    OperatorDecision,
    Output,
    Passed,
    PatchApplication,
    PatchContent,
    PhaseChanged,
    PreparedWorkspace,
    Prompt,
    Response,
    ResponseUsage,
    Resume,
    RunFacts,
    RunOpened,
    RunPaths,
    SamplingParameter,
    Seeds,
    SeedStream,
    Segment,
    Signal,
    StageTransition,
    StaticCheck,
    Submodule,
    SystemPrompt,
    Termination,
    TestIds,
    Throttle,
    ToolInvocation,
    TraceWriter,
    WorkspaceMutation,
    seal_run,
    write_manifest,
)
from repotrial.trace._chain import link_hash
from repotrial.trace._manifest import PromptDigest
from repotrial.trace._payloads import KeptPayload
from repotrial.trace._payloads.actions import Message
from repotrial.trace._reader import iter_envelopes

VERSION_ID = digest_bytes(b"version")
SCANNER = SecretRedactor({})
_UNIT = CheckEntryPoint(check_id="unit", command="python -m pytest -q tests")


def build_facts(run_id: str = "run-1", rules_id: str = SCANNER.rules_id) -> RunFacts:
    return RunFacts(
        run_id=run_id,
        contract=ContractBinding(
            id="wide-chars", version_id=VERSION_ID, statement_digest=digest_bytes(b"statement")
        ),
        repository=GitIdentity(
            commit="4f1c" * 10,
            tree_digest=digest_bytes(b"tree"),
            submodules=(Submodule(path="vendor/lib", commit="ab12" * 10),),
        ),
        dependencies=DependencySpecification(
            lockfiles=(Lockfile(path="requirements.lock", digest=digest_bytes(b"lock"), origin="contract"),),
            mirrors=(),
        ),
        environment=HostEnvironment(
            observed_id=digest_bytes(b"host"),
            pins="constraints",
            covers=(
                CoveredTool(
                    name="python", digest=digest_bytes(b"python"), places=("/usr/bin/python3.11",), files=1
                ),
            ),
        ),
        package_managers={"pip": "23.2.1"},
        toolchain={"python": "3.11.7", "gcc": Unknown(reason="not installed")},
        harness=Harness(
            version="0.1.0",
            entry_points=EntryPoints(
                install=(),
                build=("make",),
                acceptance=(CheckEntryPoint(check_id="unit", command="python -m pytest -q tests"),),
            ),
        ),
        variables=DeclaredVariables(present={"TZ": "UTC"}, absent=("CI",), secrets=("API_KEY",)),
        configuration=ConfigurationFacts(
            sandbox_level=Level.L3,
            meters={"cpu": "cgroup", "disk": Unknown(reason="no quota support")},
            limits={"wall_seconds": "1800", "cost_usd": "5"},
            stages="automatic",
            network="none",
            logging=LoggingFacts(
                inline_bytes=4096, prefix_bytes=16384, run_budget_bytes=2**31, type_budget_bytes={}
            ),
        ),
        seeds=Seeds(
            root=20260307,
            streams=(SeedStream(name="replicate", spawn_key=(0, 3)),),
            test_variables={"PYTHONHASHSEED": "0"},
            agent_variables={"REPOTRIAL_SEED": "7"},
        ),
        agent=AgentFacts(
            name="script",
            version="1",
            model=Unknown(reason="no model is asked"),
            temperature="0.7",
            tools=("bash",),
            prompts=(PromptDigest(name="system", digest=digest_bytes(b"prompt")),),
            adapter_digest=digest_bytes(b"adapter"),
            parameters={},
        ),
        locale="C.UTF-8",
        time_zone="UTC",
        cpu_class="x86_64/2",
        memory_class="4-8 GiB",
        started_at_us=1_700_000_000_000_000,
        redaction_rules_id=rules_id,
        machine_settings={"cache": "on"},
        configuration_files=ConfigurationFiles(
            present=(DeclaredFile(path="/etc/tool.conf", digest=digest_bytes(b"conf")),),
            absent=("/etc/pip.conf",),
        ),
        workspace=PreparedWorkspace(digest=digest_bytes(b"prepared"), files=12),
    )


def build_agent_configuration(
    *, conversation: str = "main", prompt: int | None = None, response: int | None = None
) -> AgentConfiguration:
    """As the gateway's first exchange binds it."""
    unset = Unknown(reason="the request does not set it: the provider's default")
    return AgentConfiguration(
        conversation=conversation,
        prompt=prompt,
        response=response,
        wire="openai-chat",
        model_asked="m-1",
        model_answering="m-1",
        temperature="0.7",
        effort=unset,
        max_output_tokens=512,
        context_tokens=unset,
        parameters=(SamplingParameter(name="top_p", value="0.9"),),
        tools=(OfferedTool(name="bash", digest=digest_bytes(b"bash")),),
        tool_count=1,
        prompts=(SystemPrompt(role="system", digest=digest_bytes(b"prompt")),),
    )


def build_example_manifest(run_id: str = "run-1") -> Manifest:
    return build_facts(run_id).build_manifest()


class RunBuilder:
    """Writes a run directory event by event, with small helpers for the parts that events share."""

    def __init__(
        self,
        root: Path,
        *,
        run_id: str = "run-1",
        manifest: Manifest | None = None,
        policy_rules: int = 1,
        completeness_rules: int = 1,
        redactor: Redactor = SCANNER,
    ) -> None:
        self.paths = RunPaths(root)
        root.mkdir(parents=True)
        self.manifest = manifest or build_facts(run_id, redactor.rules_id).build_manifest()
        data = write_manifest(self.paths.manifest, self.manifest)
        opened = RunOpened(
            run_id=run_id,
            manifest_digest=digest_bytes(data),
            redaction_rules_id=redactor.rules_id,
            harness_version="0.1.0",
            policy_rules=policy_rules,
            completeness_rules=completeness_rules,
        )
        self.writer = TraceWriter.create(self.paths, opened, redactor=redactor)
        self._phase: LifecyclePhase | None = None

    def add(self, payload: KeptPayload) -> EventRef:
        return self.writer.append(payload, actor="harness")

    def enter(self, phase: LifecyclePhase) -> None:
        self.add(PhaseChanged(phase=phase, previous=self._phase))
        self._phase = phase

    def alert(self, *, text: str = "rm -rf /") -> EventRef:
        segment = Segment(format="command", body=self.writer.body(text.encode()), event=0)
        return self.writer.append(
            MonitorAlert(
                monitor="policy",
                rule="system-paths",
                severity="critical",
                phase="act",
                signals=(Signal(name="wall_us", value=7, threshold="1.5"),),
                segment=segment,
            ),
            actor="monitor",
        )

    def tool(self, *, arguments: str = '{"command": "ls"}', output: bytes = b"a b c\n") -> EventRef:
        result = self.writer.append(
            ToolInvocation(
                tool="bash",
                source="gateway",
                arguments=self.writer.body(arguments.encode()),
                exit=Exited(code=0),
                started_at_us=1,
                wall_us=2,
                stdout=self.writer.output(output, prefix_bytes=16 * 1024),
            ),
            actor="agent",
        )
        assert isinstance(result, EventRef)
        return result

    def program(self, *, stdout: bytes = b"thinking\n", stderr: bytes = b"oh\n") -> None:
        """The agent's own program, as the harness records it."""
        self.writer.append(
            ToolInvocation(
                tool="script",
                source="sandbox",
                arguments=self.writer.body(b"[]"),
                command=Command(argv=("/bin/sh", "work it"), cwd="."),
                exit=Exited(code=3),
                started_at_us=1,
                wall_us=2,
                stdout=self.stream(stdout),
                stderr=self.stream(stderr),
            ),
            actor="agent",
        )

    def stream(self, data: bytes) -> Output:
        """A stream as the harness keeps it: all of a short one, the beginning of a long one."""
        output = self.writer.output(data)
        log = self.writer.blob(data) if 4 * 1024 < len(data) <= 64 * 1024 else None
        return msgspec.structs.replace(output, log=log)

    def execution(self, *, log: bytes = b"log") -> dict[str, Any]:
        blob = self.writer.blob(log * 3000)
        assert blob is not None
        return {
            "started_at_us": 1,
            "ended_at_us": 2,
            "command": Command(argv=("python", "-m", "pytest"), cwd="."),
            "exit": Exited(code=0),
            "stdout": self.writer.output(b"out"),
            "stderr": self.writer.output(b""),
            "logs": (LogPointer(name="junit.xml", blob=blob),),
        }

    def accept(
        self, check_id: str = "unit", *, subject: Any = "candidate", variant: Any = "plain", attempt: int = 1
    ) -> EventRef:
        return self.add(
            AcceptanceExecution(
                **self.execution(),
                outcome=Passed(),
                check_id=check_id,
                gate="acceptance",
                attempt=attempt,
                subject=subject,
                variant=variant,
                failing=TestIds.build([]),
                passed_count=3,
                skipped_count=0,
                missing=TestIds.build([]),
                tree_digest=digest_bytes(b"tree after"),
            )
        )

    def end(self) -> EventRef:
        return self.add(
            Termination(category="completed", nature="none", code="agent-done", rationale="the agent said so")
        )

    def finish(self) -> RunPaths:
        """Close the trace and leave the other files of a run."""
        self.writer.close()
        self.paths.change.write_text("--- a/x\n+++ b/x\n")
        artifacts = self.paths.acceptance / "unit"
        artifacts.mkdir(parents=True)
        (artifacts / "junit.xml").write_text("<testsuites/>")
        return self.paths


def build_run(root: Path, *, run_id: str = "run-1") -> RunPaths:
    """A finished, unsealed run with an event of nearly every type: 21 of them."""
    builder = RunBuilder(root, run_id=run_id)
    body = builder.writer.body
    builder.enter("brief")
    builder.add(
        Briefing(issue=body(b"fix it"), obligations=(body(b"tests pass"),), delivered=body(b"fix it, please"))
    )
    builder.enter("act")
    builder.writer.append(
        Prompt(
            model="m-1",
            conversation="main",
            index=0,
            request=body(b"{}"),
            messages=(Message(role="user", body=body(b"hello")),),
        ),
        actor="agent",
    )
    builder.writer.append(
        Response(
            prompt=4,
            model="m-1",
            role="assistant",
            conversation="main",
            index=0,
            body=body(b"I run ls"),
            usage=ResponseUsage(output_tokens=3),
        ),
        actor="agent",
    )
    builder.add(build_agent_configuration(prompt=4, response=5))
    tool = builder.tool(output=b"x" * 9000)
    _mutate(builder, tool)
    builder.add(
        StageTransition(before="read", after="write", status=Enforced(mechanism="mount-flip", took_us=9))
    )
    alert = builder.alert()
    builder.add(Intervention(action=Throttle(wait_us=5), basis=OnAlert(alert=alert.seq), effective=True))
    decision = builder.writer.append(
        OperatorDecision(
            operator="duty",
            decision="resume",
            answers=alert.seq,
            justification=Justification(reason="harmless", text="looked at it"),
        ),
        actor="operator",
    )
    builder.add(Intervention(action=Resume(), basis=OnDecision(decision=decision.seq), effective=True))
    builder.end()
    builder.enter("accept")
    execution = builder.execution()
    builder.add(PatchApplication(**execution, outcome=Passed(), patch_digest=digest_bytes(b"patch")))
    builder.add(BuildCheck(**execution, outcome=Passed(), check_id="make", gate="build", attempt=1))
    failed = Failed(summary="two findings")
    builder.add(
        StaticCheck(**execution, outcome=failed, check_id="types", gate="build", attempt=1, findings=2)
    )
    builder.accept()
    builder.enter("seal")
    return builder.finish()


def _mutate(builder: RunBuilder, tool: EventRef) -> None:
    entry = FileEntry(mode=0o644, digest=digest_bytes(b"old"), size_bytes=3)
    change = FileModified(
        path="x",
        before=entry,
        after=FileEntry(mode=0o644, digest=digest_bytes(b"new"), size_bytes=3),
        content=PatchContent(patch=builder.writer.body(b"-old\n+new\n")),
    )
    builder.add(WorkspaceMutation(cause=ByTool(invocation=tool.seq), changes=(change,)))


def build_sealed_run(
    root: Path, *, run_id: str = "run-1", key_name: str = "seal.pem"
) -> tuple[RunPaths, SigningKey]:
    paths = build_run(root, run_id=run_id)
    key = SigningKey.load(root.parent / key_name)
    seal_run(paths, key, harness_version="0.1.0")
    return paths, key


def append_unknown_event(paths: RunPaths) -> None:
    """As a later release would write it."""
    *_, last = iter_envelopes(paths.trace)
    seq = last.seq + 1
    front, rest = (
        b'{"actor":"harness",',
        b'"payload":{},"seq":%d,"t":%d,"type":"from-the-future"}' % (seq, last.t + 1),
    )
    digest = link_hash(bytes.fromhex(last.hash), seq, front + rest, version=2)
    with paths.trace.open("ab") as stream:
        stream.write(front + b'"hash":"%b",' % digest.hex().encode() + rest + b"\n")
