"""Run directories to be judged: written by the real writer, bound to a real contract record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial._core.words import Level
from repotrial.contract import AgentSpec as SpecAgent
from repotrial.contract import (
    Check,
    ConfigurationSpec,
    Contract,
    ContractRecord,
    DirectoryRepository,
    Environment,
    LoadedContract,
    Policy,
    RepositoryPin,
    RunSpec,
    Scoring,
    build_lock,
)
from repotrial.redaction import Redactor
from repotrial.score import ScoreCard, build_score_card, load_evidence, write_verdict
from repotrial.signing import SigningKey
from repotrial.trace import (
    AcceptanceExecution,
    BuildCheck,
    CheckEntryPoint,
    CheckOutcome,
    Command,
    ContractBinding,
    DirectoryIdentity,
    EntryPoints,
    Errored,
    Exited,
    Failed,
    Harness,
    ModelFacts,
    MonitorAlert,
    NotStarted,
    Passed,
    PatchApplication,
    RunPaths,
    Segment,
    StaticCheck,
    Termination,
    TestIds,
    TwinCount,
    seal_run,
)
from repotrial.trace import Briefing as BriefingEvent
from support.run_directories import SCANNER, RunBuilder, build_facts

TREE = digest_bytes(b"tree")
FINAL_TREE = digest_bytes(b"tree after")

PATCH = b"""\
diff --git a/src/wrap.py b/src/wrap.py
index 1111111..2222222 100644
--- a/src/wrap.py
+++ b/src/wrap.py
@@ -1,2 +1,3 @@
 first
-second
+zweite
+third
"""

UNIT = Check(id="unit", gate="acceptance", layer="unit", run="pytest", timeout_seconds=60)
BUILD = Check(id="make", gate="build", run="make", timeout_seconds=60)
SAFETY = Check(id="guard", gate="safety", run="guard", timeout_seconds=60)
CHECKS = (BUILD, UNIT, SAFETY)

PASSED = Passed()
FAILED = Failed(summary="two tests fail")
HUNG = Errored(reason="timeout", detail="60 s")
CRASHED = Errored(reason="crash", detail="signal 11")

Subject: TypeAlias = Literal["candidate", "reference", "snapshot"]


def build_contract(
    checks: tuple[Check, ...] = CHECKS, *, policy: Policy | None = None, scoring: Scoring | None = None
) -> Contract:
    return Contract(
        schema="repotrial/contract@1",
        id="wide-chars",
        title="Wide characters",
        kind="bug-fix",
        repository=DirectoryRepository(source="repo"),
        environment=Environment(image="host"),
        checks=checks,
        policy=policy or Policy(),
        scoring=scoring or Scoring(),
    )


def build_contract_record(contract: Contract) -> ContractRecord:
    loaded = LoadedContract(
        directory=Path(),
        contract=contract,
        statement="Make it right.\n",
        reference=None,
        inventories={},
        files=(),
        lock=None,
    )
    return ContractRecord(contract=contract, lock=build_lock(loaded, RepositoryPin(tree_digest=TREE)))


class ScoreRun:
    """A run in the making, from briefing to sealing."""

    def __init__(
        self,
        root: Path,
        contract: Contract | None = None,
        *,
        patch: bytes = PATCH,
        run_id: str = "run-1",
        root_seed: int = 20260307,
        replicate: int = 0,
        thresholds: str | None = None,
        policy_rules: int = 1,
        completeness_rules: int = 1,
        redactor: Redactor = SCANNER,
        issue: bytes = b"fix",
    ) -> None:
        self.contract = contract or build_contract()
        self.record = build_contract_record(self.contract)
        self.patch = patch
        lock = self.record.lock
        facts = build_facts(run_id)
        entry_points = EntryPoints(
            install=(),
            build=(),
            acceptance=tuple(
                CheckEntryPoint(check_id=check.id, command=check.run or "?") for check in self.contract.checks
            ),
        )
        facts = msgspec.structs.replace(
            facts,
            contract=ContractBinding(
                id="wide-chars", version_id=lock.version_id, statement_digest=lock.statement_digest
            ),
            repository=DirectoryIdentity(tree_digest=TREE),
            harness=Harness(version="0.1.0", entry_points=entry_points),
            seeds=msgspec.structs.replace(facts.seeds, root=root_seed),
            redaction_rules_id=redactor.rules_id,
        )
        if thresholds is not None:
            models = ModelFacts(
                upstream="script",
                price_method="none",
                thresholds=thresholds,
                thresholds_source="built-in",
                prices_source="built-in",
            )
            configuration = msgspec.structs.replace(facts.configuration, models=models)
            facts = msgspec.structs.replace(facts, configuration=configuration)
        self.builder = RunBuilder(
            root,
            run_id=run_id,
            manifest=facts.build_manifest(),
            policy_rules=policy_rules,
            completeness_rules=completeness_rules,
            redactor=redactor,
        )
        self.paths: RunPaths = self.builder.paths
        self.spec = RunSpec(
            contract_id="wide-chars",
            contract_version_id=lock.version_id,
            statement_digest=lock.statement_digest,
            agent=SpecAgent(name="script", version="1", adapter_digest=digest_bytes(b"adapter")),
            configuration=ConfigurationSpec(isolation=Level.L3),
            root_seed=root_seed,
            replicate=replicate,
        )
        self._attempts: dict[tuple[str, str, str], int] = {}
        body = self.builder.writer.body
        self.builder.enter("brief")
        self.builder.add(BriefingEvent(issue=body(issue), obligations=(), delivered=body(b"fix")))
        self.builder.enter("act")

    def alert(self, rule: str, *, phase: Any = "act", severity: Any = "warning", **fields: Any) -> int:
        segment = Segment(format="code", body=self.builder.writer.body(b"socket()"), event=0)
        alert = MonitorAlert(
            monitor=fields.pop("monitor", "system-calls"),
            rule=rule,
            severity=severity,
            phase=phase,
            segment=segment,
            **fields,
        )
        return self.builder.writer.append(alert, actor="monitor").seq

    def end_acting(self, **fields: Any) -> None:
        values: dict[str, Any] = {
            "category": "completed",
            "nature": "none",
            "code": "done",
            "rationale": "the agent said so",
        }
        self.builder.add(Termination(**{**values, **fields}))
        self.builder.enter("accept")

    def apply(self, outcome: CheckOutcome = PASSED, **fields: Any) -> None:
        self.builder.add(
            PatchApplication(
                **self._execution(outcome),
                patch_digest=digest_bytes(self.patch),
                tree_digest=FINAL_TREE if isinstance(outcome, Passed) else None,
                **fields,
            )
        )

    def check(
        self,
        check: Check,
        outcome: CheckOutcome = PASSED,
        *,
        subject: Subject = "candidate",
        is_started: bool = True,
        is_static: bool = False,
        output: bytes = b"out",
        **fields: Any,
    ) -> None:
        """One execution; attempts are counted by themselves."""
        series = (check.id, subject, fields.get("variant", "plain"))
        attempt = self._attempts[series] = self._attempts.get(series, 0) + 1
        common = {
            **self._execution(outcome, output=output),
            "check_id": check.id,
            "gate": check.gate,
            "attempt": attempt,
            "subject": subject,
        }
        if not is_started:
            common["exit"] = NotStarted(reason="a check that it needs did not pass")
        if check.gate == "build":
            self.builder.add(StaticCheck(**common, **fields) if is_static else BuildCheck(**common, **fields))
            return
        failing = ["test_a", "test_b"] if isinstance(outcome, Failed) and is_started else []
        values: dict[str, Any] = {
            "layer": check.layer,
            "judge": check.judge,
            "failing": TestIds.build(failing),
            "missing": TestIds.build([]),
            "passed_count": 3,
            "skipped_count": 0,
            "tree_digest": FINAL_TREE,
        }
        self.builder.add(AcceptanceExecution(**common, **{**values, **fields}))

    def twins(self, check: Check, outcome: CheckOutcome = PASSED, *, survived: tuple[str, ...] = ()) -> None:
        count = TwinCount(mixed_in=4, survived=TestIds.build(survived), silent=TestIds.build([]))
        self.check(check, outcome, variant="twins", twins=count)

    def finish(self, *, key: SigningKey | None = None) -> Path:
        """Close the record; sealed where there is a key."""
        self.builder.enter("seal")
        self.builder.writer.close()
        self.paths.change.write_bytes(self.patch)
        self.paths.contract.write_bytes(self.record.to_bytes())
        self.paths.spec.write_bytes(self.spec.to_bytes() + b"\n")
        if key is not None:
            seal_run(self.paths, key, harness_version="0.1.0")
        return self.paths.root

    def _execution(self, outcome: CheckOutcome, *, output: bytes = b"out") -> dict[str, Any]:
        return {
            "started_at_us": 1_000,
            "ended_at_us": 3_000,
            "command": Command(argv=("sh", "-c", "run"), cwd="."),
            "exit": Exited(code=0 if isinstance(outcome, Passed) else 1),
            "outcome": outcome,
            "stdout": self.builder.writer.output(output),
            "stderr": self.builder.writer.output(b""),
        }


def write_run(
    root: Path,
    outcomes: Mapping[str, CheckOutcome] | None = None,
    *,
    contract: Contract | None = None,
    patch: bytes = PATCH,
    key: SigningKey | None = None,
    **fields: Any,
) -> Path:
    """A run in which every check is executed once, with the given outcomes."""
    run = ScoreRun(root, contract, patch=patch, **fields)
    run.end_acting()
    run.apply()
    for check in run.contract.checks:
        run.check(check, (outcomes or {}).get(check.id, PASSED))
    return run.finish(key=key)


def write_score(run_directory: Path) -> ScoreCard:
    """Judge a run and write its documents, as the product does in two steps."""
    evidence = load_evidence(run_directory)
    card = build_score_card(evidence)
    write_verdict(run_directory, evidence, card)
    return card
