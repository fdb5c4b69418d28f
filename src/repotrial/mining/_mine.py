"""`contract mine`: the history of a repository, candidate by candidate, into proved and certified drafts."""

from __future__ import annotations

import datetime as dt
import re
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.errors import RepoTrialError
from repotrial._core.files import write_atomic
from repotrial.authoring import (
    Certificate,
    CertificationSettings,
    CommitContract,
    CreatedContract,
    KnownTestPaths,
    Proof,
    ProofSettings,
    Unproved,
    certify_contract,
    create_contract_from_commit,
    lock_contract,
    write_certificate,
)
from repotrial.contract import STATEMENT_FILE, load_contract
from repotrial.mining._candidates import MineCandidate, find_candidates, order_candidates
from repotrial.mining._flags import find_flags, find_weakness
from repotrial.mining._origin import MinedOrigin
from repotrial.mining._rows import MineRow, append_row, load_rows
from repotrial.mining._statements import Issues
from repotrial.signing import SigningKey
from repotrial.source import open_history

CONTRACTS: Final = "contracts"
_TRY_SECONDS: Final = 45.0
_CERTIFY_SECONDS: Final = 120.0
_CERTIFIED_SHARE: Final = 0.5
_SHORT: Final = 10
_UNLOCKED: Final = "draft-packages-unlocked"
_LEAK: Final = "briefing-leak"
"""Code of a run that was refused because what the agent is told holds part of the reference."""


@dataclass(frozen=True, kw_only=True)
class MineSettings:
    """What is mined, and how much of it."""

    source: str
    directory: Path
    proving: ProofSettings
    key: SigningKey
    """Seals the runs of certifications, and signs the certificates."""
    runs: Path
    """Where the runs of certifications are made; they are not kept."""
    limit: int
    """How many candidates are tried, those of earlier calls included."""
    revision: str = "HEAD"
    history: int = 500
    """How many commits are looked at, newest first."""
    jobs: int = 1
    seconds_per_candidate: int = 900
    is_certified: bool = True
    """Whether what is proved is certified, too (`certify --quick`)."""
    is_embedded: bool = False
    test_globs: tuple[str, ...] = ()
    issues: Issues = field(default_factory=Issues)
    cutoff: dt.date | None = None
    """What the models were trained up to, where it is stated."""
    on_row: Callable[[MineRow, int], None] = lambda row, left: None  # noqa: ARG005
    """Told of every row, and how many candidates are left."""


class MinePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a call will do, before it does it."""

    commits: int
    """Of the history, along first parents."""
    candidates: int
    """That change code and tests."""
    left_out: int
    todo: tuple[MineCandidate, ...]
    """To be tried by this call."""
    to_certify: tuple[str, ...]
    """Proved by an earlier call: their commits."""
    seconds: float
    """How long it is likely to take, by what earlier candidates took."""


def plan_mine(settings: MineSettings) -> MinePlan:
    """Walk the history, and decide what to try; candidates that are left out get their rows.

    Raises:
        RepoTrialError: the repository cannot be read.
    """
    settings.directory.mkdir(parents=True, exist_ok=True)
    rows = load_rows(settings.directory)
    tests = KnownTestPaths(settings.test_globs)
    with open_history(settings.source, base=Path.cwd()) as history:
        head = history.resolve_commit(settings.revision)
        commits = history.list_first_parents(head, most=settings.history)
    candidates = find_candidates(commits, tests)
    left_out = [candidate for candidate in candidates if candidate.left_out is not None]
    for candidate in left_out:
        if candidate.commit not in rows:
            append_row(
                settings.directory, build_row(candidate, state="left-out", reason=candidate.left_out or "")
            )
    tried = {commit for commit, row in rows.items() if row.state != "left-out"}
    ordered = order_candidates(each for each in candidates if each.left_out is None)
    chosen = ordered[: settings.limit]
    todo = tuple(each for each in chosen if each.commit not in tried)
    known = {each.commit for each in candidates}
    proved = [row for row in rows.values() if row.state == "proved" and row.commit in known]
    to_certify = tuple(row.commit for row in proved) if settings.is_certified else ()
    return MinePlan(
        commits=len(commits),
        candidates=len(candidates),
        left_out=len(left_out),
        todo=todo,
        to_certify=to_certify,
        seconds=_estimate(
            settings, [row for row in rows.values() if row.seconds], len(todo), len(to_certify)
        ),
    )


def _estimate(settings: MineSettings, timed: Sequence[MineRow], todo: int, to_certify: int) -> float:
    per_candidate = sum(row.seconds for row in timed) / len(timed) if timed else _TRY_SECONDS
    if settings.is_certified and not timed:
        per_candidate += _CERTIFIED_SHARE * _CERTIFY_SECONDS
    return (todo * per_candidate + to_certify * _CERTIFY_SECONDS) / settings.jobs


def build_row(candidate: MineCandidate, **fields: object) -> MineRow:
    """A row of a candidate."""
    about = {
        name: getattr(candidate, name)
        for name in ("commit", "subject", "month", "path", "kind", "size", "lines")
    }
    return msgspec.convert({**about, **fields}, MineRow)


def mine_history(plan: MinePlan, settings: MineSettings) -> None:
    """Try every candidate of a plan, several at a time; each leaves its row, and what is proved its contract.

    A call that is ended can be repeated: what has a row is not tried again.
    """
    miner = _Miner(settings, len(plan.todo) + len(plan.to_certify))
    rows = load_rows(settings.directory)
    with ThreadPoolExecutor(max_workers=settings.jobs) as pool:
        certified = [pool.submit(miner.certify_row, rows[commit]) for commit in plan.to_certify]
        tried = [pool.submit(miner.try_candidate, candidate) for candidate in plan.todo]
        try:
            for future in as_completed([*certified, *tried]):
                future.result()
        except BaseException:
            for future in (*certified, *tried):
                future.cancel()
            raise


class _Miner:
    def __init__(self, settings: MineSettings, left: int) -> None:
        self._settings = settings
        self._left = left
        self._lock = threading.Lock()

    def try_candidate(self, candidate: MineCandidate) -> None:
        started = time.monotonic()
        directory = self._settings.directory / CONTRACTS / _build_name(candidate)
        # Without a row it is from a call that was ended.
        shutil.rmtree(directory, ignore_errors=True)
        try:
            row = self._make(candidate, directory)
        except RepoTrialError as error:
            row = build_row(candidate, state="refused", reason=error.code, message=error.message)
        if row.state == "proved" and self._settings.is_certified:
            row = self._certify(row, directory)
        if row.state in {"unproved", "refused"}:
            shutil.rmtree(directory, ignore_errors=True)
        self._put(msgspec.structs.replace(row, seconds=round(time.monotonic() - started, 1)))

    def certify_row(self, row: MineRow) -> None:
        started = time.monotonic()
        certified = self._certify(row, self._settings.directory / (row.contract or ""))
        spent = round(row.seconds + time.monotonic() - started, 1)
        self._put(msgspec.structs.replace(certified, seconds=spent))

    def _make(self, candidate: MineCandidate, directory: Path) -> MineRow:
        settings = self._settings
        proving = replace(settings.proving, budget_seconds=settings.seconds_per_candidate)
        options = CommitContract(
            source=settings.source,
            directory=directory,
            revision=candidate.commit,
            id=directory.name,
            is_embedded=settings.is_embedded,
            test_globs=settings.test_globs,
        )
        created = create_contract_from_commit(options, proving)
        match created.proof:
            case Proof() as proof:
                return self._keep(candidate, created, proof, directory)
            case Unproved(failure=failure, message=message, executions=executions):
                # What is missing may be missing because no packages could be locked.
                unlocked = [each.message for each in created.problems if each.code == _UNLOCKED]
                why = "; ".join((message, *unlocked))
                return build_row(
                    candidate, state="unproved", reason=failure, message=why, executions=executions
                )
            case None:
                return build_row(candidate, state="unproved", reason="not-tried", message="nothing was run")

    def _keep(
        self, candidate: MineCandidate, created: CreatedContract, proof: Proof, directory: Path
    ) -> MineRow:
        with open_history(self._settings.source, base=Path.cwd()) as history:
            message = history.read_commit(candidate.commit).message
        reference = load_contract(directory).reference or b""
        statement = self._settings.issues.find_statement(message, reference, title=created.title)
        write_atomic(directory / STATEMENT_FILE, statement.text.encode())
        MinedOrigin(commit=candidate.commit, statement_source=statement.source).write(directory)
        # Lint is for the reviewer: a statement that is still a form must not keep the tests from a trial.
        lock_contract(directory)
        loaded = load_contract(directory)
        return build_row(
            candidate,
            state="proved",
            contract=directory.relative_to(self._settings.directory).as_posix(),
            turning=len(proof.inventory.fail_to_pass),
            staying=len(proof.inventory.pass_to_pass),
            left_out_tests={group.reason: len(group.tests) for group in proof.left_out},
            flags=find_flags(loaded, candidate, cutoff=self._settings.cutoff),
            statement=statement.source,
            executions=proof.executions,
        )

    def _certify(self, row: MineRow, directory: Path) -> MineRow:
        try:
            return self._certify_once(row, directory)
        except RepoTrialError as error:
            if _LEAK not in error.message:
                return msgspec.structs.replace(
                    row, state="not-certified", reason=error.code, message=error.message
                )
        # The words give something away, which says nothing about the tests: a person writes other words.
        form = Issues().find_statement("", b"", title=load_contract(directory).contract.title)
        write_atomic(directory / STATEMENT_FILE, form.text.encode())
        lock_contract(directory)
        flagged = msgspec.structs.replace(
            row, statement="person", flags=(*row.flags, f"{_LEAK}: the draft of the statement was dropped")
        )
        try:
            return self._certify_once(flagged, directory)
        except RepoTrialError as error:
            return msgspec.structs.replace(
                flagged, state="not-certified", reason=error.code, message=error.message
            )

    def _certify_once(self, row: MineRow, directory: Path) -> MineRow:
        settings = self._settings
        try:
            loaded = load_contract(directory)
            certificate = certify_contract(
                loaded,
                CertificationSettings(
                    installation=settings.proving.installation,
                    runs=settings.runs / directory.name,
                    key=settings.key,
                    grade="quick",
                    repeats=2,
                ),
            )
            write_certificate(loaded, certificate, settings.key)
        finally:
            shutil.rmtree(settings.runs / directory.name, ignore_errors=True)
        return _judge(row, certificate)

    def _put(self, row: MineRow) -> None:
        with self._lock:
            append_row(self._settings.directory, row)
            self._left -= 1
            self._settings.on_row(row, self._left)


def _judge(row: MineRow, certificate: Certificate) -> MineRow:
    flags = (*row.flags, *find_weakness(certificate))
    failing = [item for item in certificate.items if item.outcome == "fails"]
    if certificate.is_certified:
        return msgspec.structs.replace(row, state="certified", flags=flags)
    first = failing[0]
    why = first.findings[0] if first.findings else first.message
    return msgspec.structs.replace(row, state="not-certified", reason=first.id, message=why, flags=flags)


def _build_name(candidate: MineCandidate) -> str:
    """A directory and an id: the words of the subject say what it is, the hash that there is one of it."""
    words = re.findall(r"[a-z0-9]+", candidate.subject.lower())
    slug = "-".join(words)[:40].strip("-")
    return f"{slug or 'change'}-{candidate.commit[:_SHORT]}"
