"""Recorded runs judged again: by a corrected contract without executing, or replayed without their agent."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from repotrial import __version__
from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.display import list_some
from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.words import Level
from repotrial.api._contracts import load_contract
from repotrial.api._machine import MachineSettings, build_installation_settings
from repotrial.contract import (
    Check,
    ContractRecord,
    Inventory,
    LoadedContract,
    build_invalid_error,
    check_lock,
)
from repotrial.environment import open_installation
from repotrial.judging import RecordedCheck, apply_judgement, judge_recorded
from repotrial.redaction import SecretRedactor
from repotrial.run import Replay, RunSettings
from repotrial.run import replay_run as replay
from repotrial.score import (
    RECORD_BROKEN,
    RejudgedExecution,
    RejudgedVerdict,
    RunStatusWord,
    build_run_paths,
    build_score_card,
    find_breach,
    find_status,
    load_evidence,
    verify_record,
    write_rejudged,
)
from repotrial.signing import SigningKey
from repotrial.trace import (
    AcceptanceExecution,
    BlobStore,
    BuildCheck,
    DrawRevealed,
    Event,
    RunPaths,
    StaticCheck,
    iter_events,
    load_manifest,
)

NOTHING_TO_REPLAY = ErrorCode(
    "nothing-to-replay",
    UsageError,
    "The run ended before a change was taken from its workspace, so there is nothing to judge again.",
    hint="name a run that was judged: `repotrial run list` shows which were",
)


def replay_run(
    run_directory: Path, contract: Path, *, runs: Path, key_file: Path, machine: MachineSettings
) -> Replay:
    """Rebuild a final tree from its trace, judge it again under the same isolation, and compare (P28).

    Raises:
        NOTHING_TO_REPLAY: the run ended before a change was taken.
        RECORD_BROKEN: the record is not whole.
    """
    paths = build_run_paths(run_directory)
    _verify_change(paths)
    loaded = load_contract(contract)
    recorded = load_manifest(paths.manifest).configuration.sandbox_level
    level = recorded if isinstance(recorded, Level) else None
    settings = build_installation_settings(machine)
    shared = RunSettings(runs=runs, key=SigningKey.load(key_file), redactor=SecretRedactor(machine.secrets))
    with open_installation(loaded, settings, level=level) as installation:
        return replay(paths, loaded, installation=installation, settings=shared)


def _verify_change(paths: RunPaths) -> None:
    """Before anything is set up: that there is a change, and that the trace can be believed about it."""
    evidence = load_evidence(paths.root)
    verify_record(evidence, paths.root, action="be replayed")
    if isinstance(evidence.change, Unknown):
        raise NOTHING_TO_REPLAY.error(
            f"{paths.root}: expected a run with a change, found that it ended before one was taken "
            f"({evidence.change.reason})"
        )


OTHER_CONTRACT = ErrorCode(
    "other-contract",
    UsageError,
    "A run is to be judged by a contract that is not a version of its own.",
    hint="name the directory of a version of the contract that the run was conducted on",
)


class RejudgedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What `run rejudge` found in one directory."""

    directory: str
    document: str
    """Where the verdict was written."""
    recorded: RunStatusWord
    """The verdict on record; it stands."""
    rejudged: RunStatusWord
    """The verdict that was derived."""
    verdict: RejudgedVerdict
    """The whole document."""

    @property
    def is_changed(self) -> bool:
        """Whether an execution came out otherwise."""
        return any(execution.is_changed for execution in self.verdict.executions)


def load_judge(directory: Path) -> LoadedContract:
    """A contract whose inventories are to judge; it must be as it was locked, so that its version is known.

    Raises:
        CONTRACT_INVALID: it cannot be loaded, or differs from its lock.
    """
    loaded = load_contract(directory)
    problems = check_lock(loaded)
    if any(problem.severity == "error" for problem in problems):
        raise build_invalid_error(problems, where=directory)
    return loaded


def rejudge_run(directory: Path, judge: LoadedContract | None) -> RejudgedRun:
    """Derive every outcome again from recorded results, and put a labelled verdict beside the old one.

    Args:
        directory: The run directory; its own verdict and record stay as they are.
        judge: A version of the run's contract, from `load_judge`; None: what the run itself recorded.

    Raises:
        RECORD_BROKEN: the record is not whole.
        OTHER_CONTRACT: the contract is another one.
    """
    paths = build_run_paths(directory)
    evidence = load_evidence(paths.root)
    verify_record(evidence, paths.root, action="be judged again")
    record = evidence.record
    if isinstance(record, Unknown):
        raise RECORD_BROKEN.error(f"{directory}: could not be judged again: {record.reason}")
    if judge is not None and judge.contract.id != record.contract.id:
        raise OTHER_CONTRACT.error(
            f"{directory}: expected the contract {record.contract.id}, found {judge.contract.id}"
        )
    lock = record.lock if judge is None else judge.lock
    assert lock is not None, "load_judge refuses a contract without a lock"
    reviser = _Reviser(paths, record, judge)
    revised = load_evidence(paths.root, revise=reviser.revise)
    if (breach := find_breach(revised)) is not None:  # a file of results is not the recorded one
        raise RECORD_BROKEN.error(f"{directory}: could not be judged again: {breach}")
    card = build_score_card(revised)
    verdict = RejudgedVerdict(
        recorded_version_id=record.lock.version_id,
        rejudged_version_id=lock.version_id,
        release=__version__,
        executions=tuple(reviser.executions),
        score=card,
    )
    return RejudgedRun(
        directory=str(directory),
        document=str(write_rejudged(paths.root, verdict)),
        recorded=find_status(build_score_card(evidence)),
        rejudged=find_status(card),
        verdict=verdict,
    )


class _CheckPair(NamedTuple):
    recorded: Check
    current: Check


class _Reviser:
    """Puts derived outcomes in the place of recorded ones, and notes what came of each."""

    def __init__(self, paths: RunPaths, record: ContractRecord, judge: LoadedContract | None) -> None:
        self._blobs = BlobStore(paths.blobs)
        self._record = record
        self._files = record.lock.files if judge is None else judge.files
        draws = [event.payload for event in iter_events(paths.trace)]
        self._draws = {
            (draw.check_id, draw.subject): draw for draw in draws if isinstance(draw, DrawRevealed)
        }
        self._inventories = None if judge is None else judge.inventories
        contract = record.contract if judge is None else judge.contract
        current = {check.id: check for check in contract.checks}
        self._pairs = {
            check.id: _CheckPair(check, current[check.id])
            for check in record.contract.checks
            if check.id in current
        }
        self.executions: list[RejudgedExecution] = []

    def revise(self, event: Event) -> Event:
        """The event with what its execution comes to now."""
        payload = event.payload
        if not isinstance(payload, AcceptanceExecution | BuildCheck | StaticCheck):
            return event
        derived = self._derive(payload)
        if derived is payload:
            return event
        self.executions.append(
            RejudgedExecution(
                seq=event.seq,
                check=payload.check_id,
                subject=payload.subject,
                variant=payload.variant if isinstance(payload, AcceptanceExecution) else "plain",
                attempt=payload.attempt,
                recorded=payload.outcome,
                derived=derived if isinstance(derived, NotComputable) else derived.outcome,
            )
        )
        if isinstance(derived, NotComputable):
            return event
        return msgspec.structs.replace(event, payload=derived)

    def _derive(self, payload: RecordedCheck) -> RecordedCheck | NotComputable:
        pair = self._pairs.get(payload.check_id)
        if pair is None:
            return NotComputable(reason="the contract has no such check")
        if changed := self._list_changed_files(pair):
            names = list_some(changed, most=3)
            return NotComputable(reason=f"files of the check are others than the run's: {names}")
        draw = self._draws.get((payload.check_id, payload.subject))
        if self._inventories is not None:
            inventory = self._inventories.get(payload.check_id)
        elif draw is not None:
            told = draw.inventory
            inventory = None if told is None else msgspec.json.decode(told.load(self._blobs), type=Inventory)
        elif pair.recorded.inventory is None:
            inventory = None
        else:
            return NotComputable(reason="its inventory is not on record: name the contract with --contract")
        judgement = judge_recorded(
            payload,
            self._blobs,
            recorded=pair.recorded,
            check=pair.current,
            inventory=inventory,
            draw=draw,
        )
        return judgement if isinstance(judgement, NotComputable) else apply_judgement(payload, judgement)

    def _list_changed_files(self, pair: _CheckPair) -> list[str]:
        then, now = (
            {
                pin
                for overlay in (*check.files, *check.negative)
                for pin in pins
                if pin.path == overlay.source or pin.path.startswith(f"{overlay.source.rstrip('/')}/")
            }
            for check, pins in ((pair.recorded, self._record.lock.files), (pair.current, self._files))
        )
        return sorted({pin.path for pin in then ^ now})
