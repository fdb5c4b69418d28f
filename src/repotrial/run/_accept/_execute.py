"""One execution of one check on one tree: a fresh workspace, a sandbox of its own, oracle files last."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.words import JudgedTree
from repotrial.contract import Check, LoadedContract, Overlay, Runner
from repotrial.isolation import WORKSPACE, Bind, CommandResult, CommandSpec, Sandbox
from repotrial.judging import (
    Judgement,
    MixedSuite,
    RunnerRecord,
    SuiteFile,
    Supply,
    Twin,
    build_python_twins,
    judge_mixed,
    judge_negatives,
    judge_plain,
    judge_supply,
    judge_twinned,
    list_changeable,
    list_imported,
    may_be_starvation,
    mix_in_negatives,
)
from repotrial.run._accept._candidate import apply_patch_inside, is_applied
from repotrial.run._accept._changed import ChangeWatch
from repotrial.run._accept._oracle import list_oracle_files, place_files
from repotrial.run._accept._prepared import (
    Prepared,
    are_outputs_bounded,
    carry_outputs,
    read_leftovers,
    remove_inside,
    take_outputs,
)
from repotrial.run._books import CHECK_SECONDS
from repotrial.run._context import BoundRun
from repotrial.trace import ChangedPaths
from repotrial.workspace import Workspace

RESULT_BYTES: Final = 64 * 2**20
_LOG_BYTES: Final = 64 * 1024

Variant: TypeAlias = Literal["plain", "twins", "negative"]


CANDIDATE_LOST = ErrorCode(
    "candidate-lost",
    MachineError,
    "A patch that applied a moment ago does not apply to the same tree again.",
    hint="the machine is unreliable: look at its disk and memory, then try again",
)


class TimedResult(NamedTuple):
    """How one command of a check ended, and when it began."""

    result: CommandResult
    started_us: int
    ceiling_us: int
    changed: ChangedPaths


@dataclass(frozen=True, kw_only=True)
class CheckExecution:
    """What was executed, and what came of it."""

    check: Check
    subject: JudgedTree
    variant: Variant
    attempt: int
    records: tuple[RunnerRecord, ...]
    results: tuple[TimedResult, ...]
    """One for each record."""
    judgement: Judgement
    started_us: int
    ended_us: int
    tree_digest: Digest

    @property
    def supply(self) -> Supply:
        """What its commands got of the processors."""
        return judge_supply(each.result.usage.pressure for each in self.results)

    @property
    def is_starved(self) -> bool:
        """Whether it says nothing about the change, for want of processor time."""
        return may_be_starvation(self.judgement.outcome, self.supply, is_negative=self.variant != "plain")


@dataclass(frozen=True)
class Draw:
    """Oracle files for one execution, and which of their tests are wrong."""

    files: tuple[SuiteFile, ...]
    twins: tuple[Twin, ...] = ()
    wrong: frozenset[str] = frozenset()
    """Ids of an author's tests; empty where all of them are."""


@dataclass(kw_only=True)
class Executor:
    """Executes checks on one subject's tree.

    Each execution starts from the untouched base and the patch: what one check's programs did to the tree is
    gone for the next, but for the outputs that the contract declares.
    """

    run: BoundRun
    subject: JudgedTree
    patch: bytes
    tree_digest: Digest
    outputs: dict[str, Path] = field(default_factory=dict)
    """By check: where its outputs are kept."""
    drawn: dict[str, Draw] = field(default_factory=dict)
    """By check: what was drawn for its wrong expectations."""
    prepared: Prepared | None = None
    """The patched tree and nothing else: the first execution that it fits takes it."""
    _stack: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def _seed(self) -> int:
        """One draw for all executions: what is the same in two different ones would be right.

        Of the study's secret, the version of the contract and the change: equal changes meet equal wrong
        expectations (C15), and without the key they cannot be known.
        """
        study = os.fsencode(self.run.settings.runs.resolve())
        bound = (self.run.plan.lock.version_id, self.subject, digest_bytes(self.patch))
        secret = self.run.settings.key.derive_secret(study, *(part.encode() for part in bound))
        return int.from_bytes(secret[:8], "big") >> 1

    def execute(self, check: Check, *, attempt: int, variant: Variant) -> CheckExecution | None:
        """Run every command of a check, and judge what they left; None where no twin can be made.

        Raises:
            CANDIDATE_LOST: the machine is not reliable.
        """
        started_us = SystemClock().now_us()
        with ExitStack() as stack:
            chosen = self._choose_files(check, variant)
            if variant == "twins" and not chosen.twins:
                return None
            if variant != "plain":
                self.drawn[check.id] = chosen
            prepared = self._open_patched(check, stack, has_files=bool(chosen.files))
            self._prepare(check, variant, prepared.workspace)
            files: tuple[Bind, ...] = ()
            if chosen.files:
                scratch = stack.enter_context(self.run.installation.open_scratch())
                files = place_files(chosen.files, scratch)
            ended, left = self._run_all(check, prepared, files)
            if variant == "plain" and check.outputs and not self._can_take(check, prepared):
                # As if the sandbox had ended it: on the reference the same command keeps within the limit.
                runner, timed = ended[-1]
                result = msgspec.structs.replace(timed.result, cause="disk")
                ended[-1] = (runner, timed._replace(result=result))
            elif variant == "plain" and check.outputs:
                kept = self._stack.enter_context(self.run.installation.open_scratch())
                take_outputs(prepared.workspace, check.outputs, kept.path)
                self.outputs[check.id] = kept.path
        records = tuple(_build_record(runner, each.result, left) for runner, each in ended)
        return CheckExecution(
            check=check,
            subject=self.subject,
            variant=variant,
            attempt=attempt,
            records=records,
            results=tuple(each for _, each in ended),
            judgement=self._judge(check, variant, chosen, records),
            started_us=started_us,
            ended_us=SystemClock().now_us(),
            tree_digest=self.tree_digest,
        )

    def _can_take(self, check: Check, prepared: Prepared) -> bool:
        limit = self.run.plan.loaded.contract.limits.disk_mb.kill
        return are_outputs_bounded(prepared.workspace, check.outputs, size_mb=limit)

    def close(self) -> None:
        """Forget what was kept between checks. Idempotent."""
        self._stack.close()

    def _choose_files(self, check: Check, variant: Variant) -> Draw:
        loaded = self.run.plan.loaded
        files = list_oracle_files(loaded, _list_overlays(check, variant))
        match variant:
            case "plain":
                return Draw(files)
            case "twins":
                return Draw(*mix_in_twins(files, self._seed))
            case "negative":
                mixed = self._mix(check, files)
                return Draw(files) if mixed is None else Draw(mixed.files, wrong=mixed.wrong)

    def _mix(self, check: Check, wrong: tuple[SuiteFile, ...]) -> MixedSuite | None:
        """A suite that is wrong as a whole could be told from the right one, also by what a judge starts."""
        loaded = self.run.plan.loaded
        inventory = loaded.inventories.get(check.id)
        if inventory is None:
            return None
        right = list_oracle_files(loaded, check.files)
        return mix_in_negatives(right, wrong, inventory, random.Random(self._seed))  # noqa: S311 - drawn once

    def _open_patched(self, check: Check, stack: ExitStack, *, has_files: bool) -> Prepared:
        if self.prepared is not None and self.prepared.fits(check, has_files=has_files):
            prepared, self.prepared = self.prepared, None
            return stack.enter_context(prepared)
        prepared = stack.enter_context(Prepared(self.run.installation))
        if not is_applied(apply_patch_inside(self.run.installation, prepared.workspace, self.patch)):
            raise CANDIDATE_LOST.error(
                f"check {check.id}: expected the change to apply again, found otherwise"
            )
        return prepared

    def _prepare(self, check: Check, variant: Variant, workspace: Workspace) -> None:
        removed = [path for overlay in _list_overlays(check, variant) for path in overlay.delete]
        remove_inside(self.run.installation, workspace, removed)
        declared = {other.id: other.outputs for other in self.run.plan.loaded.contract.checks}
        for needed in check.needs:
            if needed in self.outputs:
                carry_outputs(self.outputs[needed], declared[needed], workspace)

    def _run_all(
        self, check: Check, prepared: Prepared, files: tuple[Bind, ...]
    ) -> tuple[list[tuple[Runner, TimedResult]], dict[str, bytes]]:
        """How each command ended, and what lies in the results directory afterwards."""
        sandbox = prepared.open_sandbox(self.run, check, files)
        ended: list[tuple[Runner, TimedResult]] = []
        tree = ChangeWatch(prepared.workspace)
        for runner in check.all_runners:
            ended.append((runner, self._run_one(check, runner, sandbox, tree)))
            if ended[-1][1].result.cause == "sandbox-lost":
                break  # the candidate's doing, as like as not: it must not become a fault of the harness
        self.run.check_servers()
        prepared.close_sandbox()
        # Only now: nothing that the candidate started is alive to rewrite what is read.
        return ended, read_leftovers(prepared.results.path)

    def _run_one(self, check: Check, runner: Runner, sandbox: Sandbox, tree: ChangeWatch) -> TimedResult:
        seconds = check.timeout_seconds or CHECK_SECONDS
        started_us = SystemClock().now_us()
        result = sandbox.run(
            CommandSpec(
                argv=("/bin/sh", "-c", runner.run),
                cwd=WORKSPACE if runner.cwd == "." else f"{WORKSPACE}/{runner.cwd}",
                variables=runner.variables,
                timeout_seconds=seconds,
                prefix_bytes=RESULT_BYTES if prints_results(runner) else _LOG_BYTES,
                output_bytes=self.run.plan.loaded.contract.limits.output_mb * 2**20,
            )
        )
        self.run.note_watched(("/bin/sh", "-c", runner.run), result.exit, cwd=runner.cwd)
        return TimedResult(result, started_us, seconds * 10**6, tree.take())

    def _judge(
        self, check: Check, variant: Variant, chosen: Draw, records: tuple[RunnerRecord, ...]
    ) -> Judgement:
        inventory = self.run.plan.loaded.inventories.get(check.id)
        match variant:
            case "plain":
                return judge_plain(check, inventory, records)
            case "negative" if chosen.wrong and inventory is not None:
                return judge_mixed(check, inventory, chosen.wrong, records)
            case "negative":
                return judge_negatives(records)
            case "twins":
                return judge_twinned(check, inventory, chosen.twins, records)


def prints_results(runner: Runner) -> bool:
    """Whether what it prints is what it is judged by."""
    return any(result.path is None and result.format != "exit-code" for result in runner.results)


def _build_record(runner: Runner, result: CommandResult, files: dict[str, bytes]) -> RunnerRecord:
    return RunnerRecord(
        runner=runner,
        exit=result.exit,
        cause=result.cause,
        wall_us=result.usage.wall_us,
        stdout=result.stdout.prefix,
        stdout_bytes=result.stdout.length_bytes,
        stderr=result.stderr.prefix,
        files=files,
    )


def _list_overlays(check: Check, variant: Variant) -> tuple[Overlay, ...]:
    return (*check.files, *check.negative) if variant == "negative" else check.files


def list_twins(loaded: LoadedContract, check: Check) -> tuple[Twin, ...]:
    """Twins as an execution of the check would mix them in; their names are others each time."""
    return mix_in_twins(list_oracle_files(loaded, check.files), secrets.randbits(63))[1]


def list_mixable(loaded: LoadedContract, check: Check) -> tuple[str, ...]:
    """Tests whose expectation an execution may make wrong by the author's copy, beside right ones."""
    inventory = loaded.inventories.get(check.id)
    if inventory is None:
        return ()
    right = list_oracle_files(loaded, check.files)
    wrong = list_oracle_files(loaded, _list_overlays(check, "negative"))
    return list_changeable(right, wrong, inventory)


def mix_in_twins(files: Iterable[SuiteFile], seed: int) -> tuple[tuple[SuiteFile, ...], tuple[Twin, ...]]:
    """Python test files with wrong-expectation copies among their tests; other files as they are.

    Args:
        files: Of a check.
        seed: Of a secret: a candidate that knows the plan must not know it.
    """
    mixed: list[SuiteFile] = []
    twins: list[Twin] = []
    every = tuple(files)
    sources = [file.content for file in every if file.target.endswith(".py")]
    taken = frozenset().union(*map(list_imported, sources))
    for file in every:
        if not file.target.endswith(".py"):
            mixed.append(file)
            continue
        twinned = build_python_twins(file.content, path=file.target, seed=seed, taken=taken)
        twins += twinned.twins
        mixed.append(msgspec.structs.replace(file, content=twinned.source))
    return tuple(mixed), tuple(twins)
