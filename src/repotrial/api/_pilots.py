"""Verbs on pilots: from a suite and arms to a frozen plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import msgspec

from repotrial._core.errors import ErrorCode, RepoTrialError, UsageError
from repotrial._core.files import write_atomic
from repotrial.analysis import (
    Pilot,
    PilotArm,
    PowerAnalysis,
    check_pilot,
)
from repotrial.api._contracts import load_contract, verify_usable
from repotrial.api._machine import MachineSettings
from repotrial.api._models import ModelChoice, describe_upstream, verify_budgets, verify_price
from repotrial.authoring import lock_suite
from repotrial.conduct import (
    FreezeResult,
    PlanResult,
    Study,
    StudyArm,
    render_pilot,
)
from repotrial.contract import LoadedContract, Problem, SuiteLock, check_suite
from repotrial.cost import PriceBook, load_price_book
from repotrial.fleet import build_roster
from repotrial.policy import read_thresholds
from repotrial.run import Agent, ModelAgent
from repotrial.signing import PublicKey, SigningKey

_MOST_BYTES = 2**20

PILOT_EXISTS = ErrorCode(
    "pilot-exists",
    UsageError,
    "There is a pilot already where a new one was to be written.",
    hint="name another directory with --out, or edit the pilot.toml that is there",
)
PILOT_MISSING = ErrorCode(
    "pilot-missing",
    UsageError,
    "The path does not name the directory of a pilot.",
    hint="name the directory that holds pilot.toml; `repotrial pilot init` makes one",
)


def init_pilot(suite: Path, arms: Sequence[PilotArm], directory: Path) -> Path:
    """Write a complete `pilot.toml` for a locked suite.

    Raises:
        PILOT_EXISTS: there is one.
        SUITE_INVALID: the suite is not sound.
    """
    target = directory / Pilot.FILE
    if target.exists():
        raise PILOT_EXISTS.error(f"{target}: expected nothing there, found a pilot")
    lock = _load_suite(suite)
    directory.mkdir(parents=True, exist_ok=True)
    where = os.path.relpath(suite.absolute(), directory.absolute())
    name = f"{lock.id}-pilot"
    moved = [_rebase(arm, directory) for arm in arms]
    write_atomic(target, render_pilot(name, where, moved, tasks=len(lock.contracts)).encode())
    return target


def _rebase(arm: PilotArm, directory: Path) -> PilotArm:
    """Files are named from where the command is given; the pilot names them from its own directory."""
    return msgspec.structs.replace(
        arm,
        agent=_map_file(arm.agent, lambda file: os.path.relpath(file, directory.absolute())),
        upstream=None
        if arm.upstream is None
        else _map_file(arm.upstream, lambda file: os.path.relpath(file, directory.absolute())),
    )


def load_study(directory: Path, machine: MachineSettings) -> Study:
    """Read a pilot with everything that it names; nothing is started and nothing is spent.

    Raises:
        PILOT_MISSING: there is none.
        PILOT_INVALID: something in it is wrong; the error lists every problem with its fix.
        SUITE_INVALID: its suite is not as it was locked.
    """
    file = directory / Pilot.FILE
    try:
        with file.open("rb") as stream:
            data = stream.read(_MOST_BYTES)
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or error
        raise PILOT_MISSING.error(f"{file}: expected a pilot, found: {words}") from error
    pilot, problems = check_pilot(data)
    if pilot is None:
        raise Pilot.build_error(problems, where=directory)
    suite_file = directory / pilot.suite
    try:
        suite = _load_suite(suite_file)
    except RepoTrialError as error:
        listed = [each for each in error.details if isinstance(each, Problem)]
        problems += listed or [Pilot.build_problem("suite", error.message, error.hint)]
        raise Pilot.build_error(problems, where=directory) from error
    contracts = {entry.id: load_contract(suite_file.parent / entry.path) for entry in suite.contracts}
    files = {Pilot.FILE: file, "suite.lock.json": suite_file.parent / SuiteLock.FILE}
    arms = _resolve_arms(directory, pilot, contracts, machine, problems, files)
    book = _load_book(directory, pilot, problems, files)
    if problems or book is None:
        raise Pilot.build_error(problems, where=directory)
    return Study(
        directory=directory, pilot=pilot, suite=suite, contracts=contracts, arms=arms, book=book, files=files
    )


def plan_pilot(
    directory: Path, machine: MachineSettings, *, what_if: Mapping[str, int] | None = None
) -> PlanResult | PowerAnalysis:
    """Plan a pilot, and write every planning artefact; nothing is spent.

    Args:
        directory: The pilot's.
        machine: The machine and its operator.
        what_if: Other numbers of `tasks` and `repeats`: what they could show, without writing anything.

    Raises:
        PILOT_INVALID: it could not show what would matter, or something in it is wrong.
    """
    study = load_study(directory, machine)
    if what_if is None:
        return PlanResult.build(study)
    count = what_if.get("tasks", len(study.tasks))

    def price(each: int) -> Decimal:
        return study.cost_model.price_repeats(each) * count / max(1, len(study.tasks))

    return PowerAnalysis.build(study.pilot, count, price, repeats=what_if.get("repeats"))


def freeze_pilot(
    directory: Path,
    machine: MachineSettings,
    *,
    key_file: Path,
    conducting: Sequence[PublicKey],
    reason: str | None,
    removed: Mapping[str, str],
) -> FreezeResult:
    """Sign a planned pilot, or an amendment of one that is frozen.

    Raises:
        PILOT_INVALID: the plan is not the one of this pilot.
        FREEZE_REFUSED: there is nothing to amend, or no reason.
    """
    study = load_study(directory, machine)
    key = SigningKey.load(key_file)
    return FreezeResult.freeze(study, key, conducting=conducting, reason=reason, removed=removed)


def _load_suite(path: Path) -> SuiteLock:
    """A suite that is as it was locked, with every certificate."""
    suite, _, _ = check_suite(path)
    if suite is None and path.is_dir():
        path = path / "suite.toml"
    return lock_suite(path, reason=None, trusted_keys=None, verify=verify_usable, is_check=True).lock


def _load_book(
    directory: Path, pilot: Pilot, problems: list[Problem], files: dict[str, Path]
) -> PriceBook | None:
    prices = None if pilot.prices is None else directory / pilot.prices
    if pilot.thresholds is not None:
        files["thresholds.toml"] = directory / pilot.thresholds
    if prices is not None:
        files["prices.csv"] = prices
    try:
        if pilot.thresholds is not None:
            read_thresholds(directory / pilot.thresholds)
        return load_price_book(prices)
    except RepoTrialError as error:
        problems.append(Pilot.build_problem("prices", error.message, error.hint))
        return None


def _resolve_arms(
    directory: Path,
    pilot: Pilot,
    contracts: Mapping[str, LoadedContract],
    machine: MachineSettings,
    problems: list[Problem],
    files: dict[str, Path],
) -> dict[str, StudyArm]:
    arms: dict[str, StudyArm] = {}
    for place, arm in enumerate(pilot.arms):
        try:
            agents = _resolve(directory, pilot, arm, contracts, machine)
        except RepoTrialError as error:
            problems.append(Pilot.build_problem(f"arms[{place}]", error.message, error.hint))
            continue
        missing = [name for name in contracts if name not in agents]
        if missing:
            message = f"expected the arm to have something for every contract, found none for {missing[0]}"
            problems.append(Pilot.build_problem(f"arms[{place}].agent", message, "an arm works on all tasks"))
        for found in _list_arm_files(directory, arm, contracts):
            files[f"arm/{arm.name}/{found.name}"] = found
        arms[arm.name] = StudyArm(arm=arm, agents=agents)
    return arms


def _list_arm_files(directory: Path, arm: PilotArm, contracts: Mapping[str, LoadedContract]) -> list[Path]:
    kind, _, rest = arm.agent.partition(":")
    names = [arm.briefing] if arm.briefing is not None else []
    if kind in ("script", "patch", "predictions", "agent") and rest:
        names += sorted({rest.replace("{contract}", name) for name in contracts})
    upstream, _, script = (arm.upstream or "").partition(":")
    if upstream == "script":
        names.append(script)
    return [directory / name for name in names]


def _resolve(
    directory: Path,
    pilot: Pilot,
    arm: PilotArm,
    contracts: Mapping[str, LoadedContract],
    machine: MachineSettings,
) -> dict[str, Agent]:
    """An arm's agent on each contract; files are relative to the pilot's directory."""
    roster = build_roster(
        [anchor(directory, arm.agent)], contracts, adapters=machine.find_adapters(), model=arm.model
    )
    found: dict[str, Agent] = {}
    for agent, only in roster.agents:
        for name in contracts if only is None else (only,):
            found[name] = _bind(directory, pilot, arm, agent, machine)
    return found


def _bind(directory: Path, pilot: Pilot, arm: PilotArm, agent: Agent, machine: MachineSettings) -> Agent:
    told = None
    if arm.briefing is not None:
        try:
            told = (directory / arm.briefing).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PILOT_MISSING.error(
                f"briefing: expected a text file, found: {error}",
                hint="relative to pilot.toml",
            ) from error
    agent = msgspec.structs.replace(agent, name=arm.name, briefing=told)
    if not isinstance(agent, ModelAgent):
        return agent
    if arm.version is not None and arm.version != agent.adapter.version:
        raise PILOT_MISSING.error(
            f"version: expected {arm.version}, found {agent.adapter.version}",
            hint="write the version that is installed, or install the one that is meant",
        )
    choice = build_choice(directory, pilot, arm)
    if choice.upstream is None:
        raise PILOT_MISSING.error(
            "upstream: expected a model source, found none", hint="add upstream = 'provider:NAME'"
        )
    verify_price(choice, agent.model)
    verify_budgets(choice, agent.model)
    parameters = {
        **pilot.conditions,
        **arm.conditions,
        "upstream": describe_upstream(choice.upstream, machine),
    }
    return msgspec.structs.replace(agent, parameters=parameters)


def build_choice(directory: Path, pilot: Pilot, arm: PilotArm | None) -> ModelChoice:
    """Who answers for an arm's model, at what price, and out of which envelopes; None: for no model."""
    upstream = None if arm is None or arm.upstream is None else anchor(directory, arm.upstream)
    is_free = (upstream or "").startswith(("script:", "recording:"))
    prices = None if pilot.prices is None else directory / pilot.prices
    return ModelChoice(
        upstream=upstream,
        model=None if arm is None else arm.model,
        prices=prices,
        thresholds=None if pilot.thresholds is None else directory / pilot.thresholds,
        task_budget=pilot.envelopes.task_usd,
        total_budget=pilot.envelopes.total_usd,
        ledger=directory / "ledger.jsonl",
        is_time_only=is_free,
    )


def anchor(directory: Path, name: str) -> str:
    """A `kind:FILE` whose file is relative to the pilot's directory."""
    return _map_file(name, lambda file: str(directory / file))


def _map_file(name: str, change: Callable[[str], str]) -> str:
    kind, separator, rest = name.partition(":")
    is_file = kind in ("script", "patch", "predictions", "agent", "recording") or (
        kind == "provider" and ("/" in rest or rest.endswith(".toml"))
    )
    return f"{kind}:{change(rest)}" if separator and is_file else name
