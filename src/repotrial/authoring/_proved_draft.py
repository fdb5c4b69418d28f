"""A draft that is run before it is left: its inventory is what happened."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from repotrial._core.display import list_some
from repotrial._core.errors import RepoTrialError
from repotrial.authoring._base import CommitTree
from repotrial.authoring._project import CreatedContract
from repotrial.authoring._proof._node import apply_node, build_npm_locker
from repotrial.authoring._proof._prove import (
    Proof,
    ProofSettings,
    Unproved,
    add_options,
    prove_contract,
)
from repotrial.authoring._proof._python import apply_python, check_locked, prepare_python
from repotrial.authoring._template import ContractDraft, Guess
from repotrial.authoring._writing import CHECK_ID, INVENTORY_FILE, choose_timeout, finish, write_inventory
from repotrial.contract import (
    CONTRACT_FILE,
    Problem,
    ResultFile,
    build_lock,
    lint_contract,
    load_contract,
)
from repotrial.source import CommitInfo, resolve_snapshot


class DraftTrees(msgspec.Struct, frozen=True, kw_only=True):
    """What a draft is completed from."""

    info: CommitInfo
    base: CommitTree
    """On which the agent starts."""
    head: CommitTree
    """With the change."""
    is_lock_given: bool
    """Whether the author gave the packages."""


class DraftFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Where a draft is written, and what is known about it."""

    staging: Path
    target: Path
    """Where it will lie."""
    statement: str
    test_files: tuple[str, ...]
    problems: tuple[Problem, ...]
    """What the author has to look at whatever the tests do."""


def write_proved(
    draft: ContractDraft, files: DraftFiles, proving: ProofSettings, *, trees: DraftTrees | None
) -> CreatedContract:
    """Complete a draft, run its tests, and write what they did into it.

    Args:
        draft: As it was read from the sources.
        files: Where it goes.
        proving: Where and how often tests are run.
        trees: For a project whose command is ours: what its layout and packages are read from.
    """
    staging = files.staging
    draft, test_files, found = _complete(draft, files, proving, trees)
    finish(staging, files.target, draft=draft, statement=files.statement, problems=())
    proof = _prove(staging, proving, test_files)
    draft, more = _apply_proof(draft, proof, staging)
    problems = [*files.problems, *found, *more]
    created = finish(staging, files.target, draft=draft, statement=files.statement, problems=problems)
    return msgspec.structs.replace(created, proof=proof, missing=_find_missing(staging))


def _complete(
    draft: ContractDraft, files: DraftFiles, proving: ProofSettings, trees: DraftTrees | None
) -> tuple[ContractDraft, tuple[str, ...], list[Problem]]:
    """The draft with layout and packages, test files as its command names them, and what was not found."""
    if trees is None or draft.ecosystem is None:
        return draft, files.test_files, []
    proving.on_step("the packages of that time")
    committed_at = dt.datetime.fromtimestamp(trees.info.committed_at_seconds, dt.UTC)
    if draft.ecosystem.name == "javascript":
        machine = proving.installation
        locker = build_npm_locker(machine.variables, machine.home)
        made = apply_node(draft, trees.head, files.staging, committed_at=committed_at, locker=locker)
        return made[0], files.test_files, made[1]
    prepared = prepare_python(
        trees.head,
        trees.base,
        test_files=files.test_files,
        committed_at=committed_at,
        locker=None if trees.is_lock_given else proving.locker,
    )
    draft = apply_python(draft, prepared, files.staging, files.test_files)
    at = f"{prepared.layout.root}/" if prepared.layout.root else ""
    return draft, tuple(path.removeprefix(at) for path in files.test_files), check_locked(prepared)


def _prove(staging: Path, proving: ProofSettings, test_files: Sequence[str]) -> Proof | Unproved:
    loaded = load_contract(staging)
    pin = resolve_snapshot(loaded.contract.repository, base=staging).pin
    proving.on_step("the environment")
    try:
        return prove_contract(replace(loaded, lock=build_lock(loaded, pin)), proving, test_files=test_files)
    except RepoTrialError as error:  # what the draft needs cannot be had here: it is a draft all the same
        return Unproved(failure="does-not-run", message=f"{error.code}: {error.message}", executions=0)


def _apply_proof(
    draft: ContractDraft, proof: Proof | Unproved, staging: Path
) -> tuple[ContractDraft, list[Problem]]:
    match proof:
        case Proof():
            write_inventory(staging, proof.inventory)
            check = msgspec.structs.replace(
                add_options(draft.check, proof.deselected),
                inventory=INVENTORY_FILE,
                timeout_seconds=choose_timeout(proof.wall_us),
            )
            guesses = [each for each in draft.guesses if each.field not in _PROVED]
            guesses += _list_proved(proof)
            return msgspec.structs.replace(draft, check=check, guesses=tuple(guesses)), _list_left_out(proof)
        case Unproved():
            problem = Problem(
                code="draft-not-proved",
                severity="warning",
                file=CONTRACT_FILE,
                field="checks[0]",
                message=f"expected tests that turn with the change, found {proof.failure}: {proof.message}",
                hint="correct contract.toml and run `repotrial contract prove DIR`, or choose another "
                "change: docs/how-to/contract-from-a-commit.md has each reason",
            )
            inventory = load_contract(staging).inventories.get(CHECK_ID)
            if inventory is not None and inventory.fail_to_pass:
                return draft, [problem]
            # Without a test that must turn, `check`, `lock` and `run` would all refuse the draft: the exit
            # code alone speaks until the author knows the ids.
            check = msgspec.structs.replace(
                draft.check, inventory=None, results=(ResultFile(format="exit-code"),)
            )
            (staging / INVENTORY_FILE).unlink(missing_ok=True)
            return msgspec.structs.replace(draft, check=check), [problem]


_PROVED = frozenset({"checks[0].baseline", "checks[0].inventory", "checks[0].timeout_seconds"})
"""What is no guess once the tests have run."""
_WHY = {
    "unstable-id": "their ids differ between runs",
    "unstable-outcome": "their outcomes differ between runs of the same tree",
    "fails-with-reference": "they fail with the change itself",
    "needs-network": "they want the network",
    "skipped": "they are skipped",
}


def _list_proved(proof: Proof) -> list[Guess]:
    turning, staying = proof.inventory.fail_to_pass, proof.inventory.pass_to_pass
    times = f"{proof.repeats} runs of each tree"
    return [
        Guess(field="checks[0].baseline", value="fail", reason=f"seen in {times}", is_seen=True),
        Guess(
            field="checks[0].inventory",
            value=f"{len(turning)} + {len(staying)} ids",
            reason=f"{len(turning)} turn with the change, {len(staying)} pass always, seen in {times}",
            is_seen=True,
        ),
        Guess(
            field="checks[0].timeout_seconds",
            value=str(choose_timeout(proof.wall_us)),
            reason=f"the longest run took {proof.wall_us / 1e6:.1f} s",
            is_seen=True,
        ),
    ]


def _list_left_out(proof: Proof) -> list[Problem]:
    return [
        Problem(
            code="draft-tests-left-out",
            severity="warning",
            file=CONTRACT_FILE,
            field="checks[0].inventory",
            message=f"expected every test in the inventory, found {len(group.tests)} left out: "
            f"{_WHY[group.reason]} ({list_some(list(group.tests), most=3)})",
            hint=f"nothing, if they do not matter here ({group.reason})",
        )
        for group in proof.left_out
    ]


def _find_missing(staging: Path) -> str | None:
    """The first thing that keeps the draft from being locked, in a line."""
    errors = [each for each in lint_contract(load_contract(staging)) if each.severity == "error"]
    if not errors:
        return None
    statement = [each for each in errors if each.code == "empty-statement"]
    first = (statement or errors)[0]
    return f"{first.file}: {first.message}: {first.hint}"
