"""Which runs are wanted."""

from __future__ import annotations

import dataclasses
import fcntl
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from repotrial._core.digest import digest_bytes
from repotrial._core.seed import ROOT_SEED
from repotrial._core.words import Level, TerminationCategory
from repotrial.authoring import lock_contract
from repotrial.contract import LOCK_FILE, ContractRecord, LoadedContract, RunCaps, load_contract
from repotrial.fleet import FleetPlan, RunConditions, plan_runs
from repotrial.redaction import NO_REDACTION
from repotrial.run import Agent, NoopAgent, PatchAgent, ReferenceAgent, remove_unfinished
from repotrial.run._directory import open_attempt
from repotrial.run._request import find_lock
from repotrial.trace import (
    Justification,
    MonitorAlert,
    OperatorDecision,
    RunOpened,
    RunPaths,
    Termination,
    TraceWriter,
)
from support.contracts import write_contract
from support.errors import raises_code

CONTRACT = """\
schema = "repotrial/contract@1"
id = "{id}"
title = "Something small"
kind = "bug-fix"
{reference}

[repository]
kind = "directory"
source = "repo"

[environment]
image = "host"

[[checks]]
id = "unit"
gate = "acceptance"
run = "true"
judge = "out-of-process"
timeout_seconds = 30
repeats = 2

[limits]
wall_seconds = 100
cost_usd = 1.50
"""
REFERENCE = "--- a/readme\n+++ b/readme\n@@ -1 +1 @@\n-hello\n+bye\n"


@pytest.fixture
def contracts(tmp_path: Path) -> list[LoadedContract]:
    loaded = []
    for name in ("one", "two"):
        directory = write_contract(
            tmp_path / name,
            CONTRACT.format(id=name, reference='reference = "reference.patch"'),
            files={"repo/readme": "hello\n", "reference.patch": REFERENCE},
        )
        lock_contract(directory)
        loaded.append(load_contract(directory))
    return loaded


def plan(
    contracts: list[LoadedContract],
    runs: Path,
    *agents: Agent,
    only: str | None = None,
    **conditions: Any,
) -> FleetPlan:
    everyone = [(agent, only) for agent in agents]
    return plan_runs(
        contracts, everyone, RunConditions(runs=runs, level=Level.L3, root_seed=ROOT_SEED, **conditions)
    )


def test_replicates_come_last_so_that_stopping_leaves_everything_tried_about_as_often(
    contracts: list[LoadedContract], tmp_path: Path
) -> None:
    found = plan(contracts, tmp_path, NoopAgent(), ReferenceAgent(), repeats=2)
    order = [(run.spec.replicate, run.spec.contract_id, run.agent.name) for run in found.runs]
    assert order == [
        (replicate, contract, agent)
        for replicate in (0, 1)
        for contract in ("one", "two")
        for agent in ("noop", "reference")
    ]
    assert found.missing == found.runs


def test_what_is_named_twice_is_run_once(contracts: list[LoadedContract], tmp_path: Path) -> None:
    found = plan([*contracts, *contracts], tmp_path, NoopAgent(), NoopAgent())
    assert len(found.runs) == 2


def test_an_agent_for_one_contract_is_not_tried_on_others(
    contracts: list[LoadedContract], tmp_path: Path
) -> None:
    found = plan(contracts, tmp_path, PatchAgent(patch=b""), only="two")
    assert [run.spec.contract_id for run in found.runs] == ["two"]


def test_a_contract_without_a_lock_is_refused(contracts: list[LoadedContract], tmp_path: Path) -> None:
    (contracts[0].directory / LOCK_FILE).unlink()
    unlocked = load_contract(contracts[0].directory)
    with raises_code("contract-unlocked"):
        plan([unlocked], tmp_path, NoopAgent())


def test_ceilings_are_those_of_the_contracts_unless_caps_say_otherwise(
    contracts: list[LoadedContract], tmp_path: Path
) -> None:
    found = plan(contracts, tmp_path, NoopAgent(), repeats=3)
    # Both attempts of the check, each with a control on the reference.
    assert found.ceiling_seconds == 6 * (100 + 2 * 2 * 30)
    assert found.ceiling_usd == 0, "nobody asks a model"
    capped = plan(contracts, tmp_path, NoopAgent(), caps=RunCaps(wall_seconds=7))
    assert capped.ceiling_seconds == 2 * (7 + 120)


def test_agents_that_ask_a_model_may_cost_what_the_contract_allows(
    contracts: list[LoadedContract], tmp_path: Path
) -> None:
    (run, *_) = plan(contracts, tmp_path, NoopAgent()).runs
    agent = msgspec.structs.replace(run.spec.agent, model="m-1")
    asking = dataclasses.replace(run, spec=msgspec.structs.replace(run.spec, agent=agent))
    assert FleetPlan(runs=(asking, asking, run)).ceiling_usd == Decimal("3.00")


def attempt(
    contracts: list[LoadedContract],
    runs: Path,
    *payloads: Termination | MonitorAlert | OperatorDecision,
    is_sealed: bool = True,
) -> Path:
    """An attempt at the first run, as a harness might leave it."""
    (run, *_) = plan(contracts, runs, NoopAgent()).runs
    paths: RunPaths = open_attempt(
        runs, run.spec, ContractRecord(contract=run.loaded.contract, lock=find_lock(run.loaded))
    )
    opened = RunOpened(
        run_id=paths.root.name,
        manifest_digest=digest_bytes(b""),
        redaction_rules_id=NO_REDACTION.rules_id,
        harness_version="0",
    )
    with TraceWriter.create(paths, opened) as writer:
        for payload in payloads:
            writer.append(payload, actor="harness")
    if is_sealed:
        paths.seal.write_text("{}")
    return paths.root


def end(category: TerminationCategory = "completed", *evidence: int) -> Termination:
    return Termination(category=category, nature="none", code="x", rationale="x", evidence=evidence)


def find_conducted(contracts: list[LoadedContract], runs: Path) -> Path | None:
    return plan(contracts, runs, NoopAgent()).runs[0].conducted


def test_what_was_carried_through_is_not_missing(contracts: list[LoadedContract], tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    first, second = attempt(contracts, runs, end()), attempt(contracts, runs, end())
    assert (first.name[-3:], second.name[-3:]) == ("-a1", "-a2")
    assert find_conducted(contracts, runs) == first, "the first that counts"
    found = plan(contracts, runs, NoopAgent())
    assert [run.spec.contract_id for run in found.missing] == ["two"]
    assert len(plan(contracts, runs, NoopAgent(), is_fresh=True).missing) == 2


LOST = MonitorAlert(monitor="harness", rule="launcher-lost", severity="critical", phase="accept")
BROKEN = MonitorAlert(monitor="harness", rule="x", severity="critical", phase="accept")
DECISION = OperatorDecision(
    operator="duty", decision="abort", justification=Justification(reason="x", text="x")
)


@pytest.mark.parametrize(
    "payloads",
    [
        (),
        (end("harness-fault"),),
        (DECISION, end("operator-abort", 1)),
        (end(), LOST),
    ],
)
def test_what_is_excused_is_missing_until_it_was_repeated_twice(
    contracts: list[LoadedContract],
    tmp_path: Path,
    payloads: tuple[Termination | MonitorAlert | OperatorDecision, ...],
) -> None:
    runs = tmp_path / "runs"
    attempt(contracts, runs, end(), is_sealed=False)
    attempt(contracts, runs, *payloads)
    attempt(contracts, runs, *payloads)
    assert find_conducted(contracts, runs) is None
    last = attempt(contracts, runs, *payloads)
    assert find_conducted(contracts, runs) == last


def test_an_invalid_attempt_that_is_not_excused_is_not_repeated(
    contracts: list[LoadedContract], tmp_path: Path
) -> None:
    """A candidate that breaks the harness gets no second try."""
    runs = tmp_path / "runs"
    broken = attempt(contracts, runs, end(), BROKEN)
    assert find_conducted(contracts, runs) == broken


def test_a_record_that_cannot_be_read_is_missing(contracts: list[LoadedContract], tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (attempt(contracts, runs, end()) / "trace.jsonl").write_text("broken\n")
    assert find_conducted(contracts, runs) is None


def test_an_earlier_attempt_that_was_carried_through_is_found_behind_a_later_one_that_was_not(
    contracts: list[LoadedContract], tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    good = attempt(contracts, runs, end("run-timeout"))
    attempt(contracts, runs, end("harness-fault"))
    assert find_conducted(contracts, runs) == good


def test_the_reference_on_a_contract_that_has_none_is_refused_before_anything_runs(
    tmp_path: Path, contracts: list[LoadedContract]
) -> None:
    directory = write_contract(
        tmp_path / "bare", CONTRACT.format(id="bare", reference=""), files={"repo/readme": "hello\n"}
    )
    lock_contract(directory)
    runs = tmp_path / "runs"
    with raises_code("reference-missing", match="bare: expected a reference"):
        plan([*contracts, load_contract(directory)], runs, NoopAgent(), ReferenceAgent())
    assert not runs.exists()


def leave_unfinished(runs: Path, name: str, *files: str) -> Path:
    place = runs / name
    place.mkdir(parents=True)
    for file in files:
        (place / file).write_text("{}")
    return place


def test_what_a_killed_harness_was_making_is_removed_and_nothing_else(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    leave_unfinished(runs, ".new-abcd1234", "spec.json", ".contract.json.x7")
    leave_unfinished(runs, ".new-00000000")
    kept = [
        leave_unfinished(runs, ".new-notes", "spec.json"),
        leave_unfinished(runs, ".new-abcd1235", "spec.json", "thesis.tex"),
        leave_unfinished(runs, "finished-a1", "spec.json"),
    ]
    (runs / ".new-abcd1236").symlink_to(tmp_path)
    assert remove_unfinished(runs) == (".new-00000000", ".new-abcd1234")
    assert all(path.is_dir() for path in kept)
    assert (runs / ".new-abcd1236").is_symlink()
    assert remove_unfinished(tmp_path / "nowhere") == ()


def test_nothing_is_removed_while_a_harness_makes_a_directory(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    place = leave_unfinished(runs, ".new-abcd1234", "spec.json")
    handle = os.open(runs, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        assert remove_unfinished(runs) == ()
    finally:
        os.close(handle)
    assert place.is_dir()
    assert remove_unfinished(runs) == (place.name,)
