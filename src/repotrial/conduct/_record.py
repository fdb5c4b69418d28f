"""The record of a pilot held against its registration: what does not fit, each by name (B5, P29)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError, RepoTrialError, UsageError
from repotrial.analysis import LoadedPlan, Registration
from repotrial.conduct._freeze import LoadedRegistration, compute_code_digest, load_registrations
from repotrial.conduct._head import check_head
from repotrial.conduct._journal import Journal, JournalEntry
from repotrial.conduct._stamp import describe_stamp, find_stamp
from repotrial.conduct._study import Study, digest_files
from repotrial.signing import NoSigner, SigningKey
from repotrial.trace import RunPaths, load_manifest

PILOT_BROKEN = ErrorCode(
    "pilot-broken",
    EvidenceError,
    "A pilot is not as it was frozen, or its record does not hold. Everything that was found is listed.",
    hint="take back what was edited, or amend the registration with `repotrial pilot freeze --reason`",
)
PILOT_NOT_FROZEN = ErrorCode(
    "pilot-not-frozen",
    EvidenceError,
    "A pilot is to be frozen before it is conducted.",
    hint="run `repotrial pilot plan`, then `repotrial pilot freeze`",
)
KEY_NOT_REGISTERED = ErrorCode(
    "key-not-registered",
    UsageError,
    "This machine's key is not among those that may conduct the pilot.",
    hint="freeze with --conducting-key and this machine's public key (`repotrial trace key show`)",
)
_WORDS: Final = {
    "pilot.toml": "the pilot was edited after freezing",
    "prices.csv": "a price was edited after freezing",
    "thresholds.toml": "the thresholds were edited after freezing",
    "suite.lock.json": "the suite is another one than at freezing",
    "plan/randomization-plan.csv": "the frozen plan was edited: an arm, a task or the order",
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that does not fit."""

    code: str
    """Stable kebab-case name."""
    message: str
    """What was expected and what was found."""

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


class PilotRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Registration, plan and journal of a frozen pilot."""

    registrations: tuple[LoadedRegistration, ...]
    loaded: LoadedPlan
    findings: tuple[Finding, ...]
    deviations: tuple[str, ...]
    """What departs from the protocol without breaking the record."""

    @property
    def registration(self) -> Registration:
        """The version in force."""
        return self.registrations[-1].signed.predicate

    @property
    def first_counted(self) -> int:
        """Runs under this version and later ones count; earlier ones are shown apart (C11)."""
        restarts = [item.signed.predicate for item in self.registrations if item.signed.predicate.restarts]
        return restarts[-1].version if restarts else 1

    def list_counted(self, journal: Journal) -> dict[str, JournalEntry]:
        """Conducted runs that count, by their planned id."""
        return {
            run_id: entry
            for run_id, entry in journal.conducted.items()
            if entry.registration >= self.first_counted
        }

    def describe_stamps(self, directory: Path) -> dict[int, str]:
        """By version what an outside authority says of its time; empty if it has no stamp."""
        return {
            (version := one.signed.predicate.version): " ".join(
                describe_stamp(directory, version, one.path.read_bytes())
            )
            for one in self.registrations
        }

    def verify(self) -> None:
        """Refuse to go on with a record that does not hold.

        Raises:
            PILOT_BROKEN: something was found; all of it is listed.
        """
        if self.findings:
            lines = "\n".join(f"  {finding}" for finding in self.findings)
            noun = "finding" if len(self.findings) == 1 else "findings"
            raise PILOT_BROKEN.error(
                f"expected the pilot as it was frozen, found {len(self.findings)} {noun}:\n{lines}",
                details=self.findings,
            )


def verify_key(registration: Registration, key: SigningKey) -> None:
    """Refuse to write the journal with a key that the study did not name.

    Raises:
        KEY_NOT_REGISTERED: it did not.
    """
    if key.public_key.pem not in registration.conducting_keys:
        raise KEY_NOT_REGISTERED.error(f"expected a registered key, found {key.key_id}")


def load_record(study: Study, journal: Journal | None = None) -> PilotRecord:
    """Read and check everything that a pilot has left behind.

    Raises:
        PILOT_NOT_FROZEN: there is no registration.
        JOURNAL_BROKEN: the journal does not hold.
    """
    registrations = load_registrations(study.directory)
    if not registrations:
        raise PILOT_NOT_FROZEN.error(f"{study.directory}: expected a registration, found none")
    loaded = LoadedPlan.load(study.directory)
    found = [*check_registrations(registrations), *_check_files(study, registrations[-1])]
    version = registrations[-1].signed.predicate.version
    journal = journal or Journal(study.directory, registration=version)
    found += [*check_end(study.directory, journal, registrations), *_check_runs(study, loaded, journal)]
    return PilotRecord(
        registrations=registrations,
        loaded=loaded,
        findings=tuple(found),
        deviations=tuple(_list_deviations(study, loaded, registrations[-1].signed.predicate, journal)),
    )


def _list_deviations(
    study: Study, loaded: LoadedPlan, registration: Registration, journal: Journal
) -> Iterator[str]:
    yield from loaded.plan.deviations
    if registration.code_digest != compute_code_digest():
        yield "the code that analyzes is not the one that was registered"
    yield from (f"task removed: {task}: {why}" for task, why in registration.removed_tasks.items())
    yield from (f"stage 3 relaxes {each.field}: {each.justification}" for each in study.pilot.relaxations)
    yield from (entry.data.get("message", "") for entry in journal.entries if entry.kind == "deviation")


def check_end(
    directory: Path, journal: Journal, registrations: tuple[LoadedRegistration, ...]
) -> Iterator[Finding]:
    """Whether the journal is as long as a registered key signed it to be."""
    keys = [pem for item in registrations for pem in item.signed.predicate.conducting_keys]
    for code, message in check_head(directory, journal.digests, keys):
        yield Finding(code=code, message=message)


def check_registrations(registrations: tuple[LoadedRegistration, ...]) -> Iterator[Finding]:
    """Whether each version is signed by the study's key and follows the one before."""
    previous = None
    for number, item in enumerate(registrations, start=1):
        predicate = item.signed.predicate
        signer = item.signed.find_signer(predicate.public_key, None)
        if isinstance(signer, NoSigner):
            yield Finding(
                code="registration-forged",
                message=f"{item.path.name}: expected a signature over this content, found none that holds",
            )
        if predicate.version != number or predicate.previous != previous:
            yield Finding(
                code="registration-replaced",
                message=f"{item.path.name}: expected version {number} after the one before, found another",
            )
        if predicate.public_key != registrations[0].signed.predicate.public_key:
            yield Finding(
                code="registration-key",
                message=f"{item.path.name}: expected the study's key, found another one",
            )
        previous = item.digest
        yield from _check_stamp(item)


def _check_stamp(item: LoadedRegistration) -> Iterator[Finding]:
    """A stamp beside a registration is of this registration; without one, nothing is said."""
    try:
        find_stamp(item.path.parents[1], item.signed.predicate.version, item.path.read_bytes())
    except EvidenceError as error:
        yield Finding(code="time-stamp-forged", message=error.message)
    except UsageError:  # the library is missing here: the status says that it was not verified
        return


def _check_files(study: Study, last: LoadedRegistration) -> Iterator[Finding]:
    present, frozen = digest_files(study), last.signed.subjects
    for name in sorted({*present, *frozen}):
        if present.get(name) == frozen.get(name):
            continue
        words = _WORDS.get(name, "it is part of the plan")
        if name.startswith("arm/"):
            words = "a file of an arm was edited after freezing"
        what = "missing" if name not in present else "new" if name not in frozen else "edited"
        message = f"{name}: expected it as frozen, found it {what}: {words}"
        yield Finding(code=f"frozen-file-{what}", message=message)
    for entry in study.suite.contracts:
        lock = study.contracts[entry.id].lock
        if lock is None or lock.version_id != entry.version_id:
            yield Finding(
                code="contract-swapped",
                message=f"{entry.id}: expected contract version {entry.version_id}, found another",
            )


def _check_runs(study: Study, loaded: LoadedPlan, journal: Journal) -> Iterator[Finding]:
    planned = {row.run_id for row in loaded.rows}
    known: set[str] = set()
    for entry in journal.entries:
        if entry.directory is None:
            continue
        known.add(entry.directory)
        if entry.is_sealed:
            yield from _check_run(study, entry, planned)
    open_runs = set(journal.open_starts)
    for path in _list_runs(study.runs):
        if path.name not in known and not any(path.name.startswith(run_id) for run_id in open_runs):
            if not RunPaths(path).seal.is_file():
                continue  # an attempt that was cut off counts for nothing
            yield Finding(
                code="run-from-elsewhere",
                message=f"{path.name}: expected runs that this pilot conducted, found one that it did not",
            )


def _check_run(study: Study, entry: JournalEntry, planned: Collection[str]) -> Iterator[Finding]:
    name = str(entry.directory)
    paths = RunPaths(study.runs / name)
    if not paths.seal.is_file():
        yield Finding(code="run-dropped", message=f"{name}: expected the record of a run, found none")
        return
    if digest_bytes(paths.seal.read_bytes()) != entry.seal_digest:
        yield Finding(
            code="run-replaced", message=f"{name}: expected the seal that was journaled, found another"
        )
    if entry.kind == "conducted" and entry.run_id not in planned:
        yield Finding(code="run-unplanned", message=f"{name}: expected a planned run, found none of this id")
    try:
        manifest = load_manifest(paths.manifest)
    except RepoTrialError as error:
        yield Finding(code="run-unreadable", message=f"{name}: {error.message}")
        return
    if not manifest.run_id.startswith(str(entry.run_id)):
        yield Finding(
            code="run-relabeled", message=f"{name}: expected {entry.run_id}, found {manifest.run_id}"
        )


def _list_runs(runs: Path) -> list[Path]:
    if not runs.is_dir():
        return []
    return sorted(path for path in runs.iterdir() if path.is_dir() and not path.name.startswith("."))
