"""A frozen pilot on any machine: documents and seals held against the registration, without contracts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from repotrial._core.digest import digest_bytes, digest_file
from repotrial.analysis import LoadedPlan, Pilot, check_pilot
from repotrial.conduct._freeze import LoadedRegistration, load_registrations
from repotrial.conduct._journal import Journal
from repotrial.conduct._record import PILOT_NOT_FROZEN, Finding, PilotRecord, check_end, check_registrations
from repotrial.trace import RunPaths


class FrozenDocuments(NamedTuple):
    """A frozen pilot as its directory has it, held against its registration."""

    pilot: Pilot
    record: PilotRecord
    journal: Journal


def load_documents(directory: Path) -> FrozenDocuments:
    """Read a frozen pilot on any machine: neither contracts nor agents are asked for.

    Raises:
        PILOT_NOT_FROZEN: there is no registration.
        PILOT_BROKEN: a document is not as it was frozen, or a run is not the one that was conducted.
        PILOT_INVALID: pilot.toml cannot be read.
        JOURNAL_BROKEN: the journal does not hold.
    """
    registrations = load_registrations(directory)
    if not registrations:
        raise PILOT_NOT_FROZEN.error(f"{directory}: expected a registration, found none")
    version = registrations[-1].signed.predicate.version
    journal = Journal(directory, registration=version)
    found = [
        *check_registrations(registrations),
        *_check_documents(directory, registrations[-1]),
        *check_end(directory, journal, registrations),
        *_check_seals(directory, journal),
    ]
    record = PilotRecord(
        registrations=registrations, loaded=LoadedPlan.load(directory), findings=tuple(found), deviations=()
    )
    record.verify()
    pilot, problems = check_pilot((directory / Pilot.FILE).read_bytes())
    if pilot is None:
        raise Pilot.build_error(problems, where=directory)
    return FrozenDocuments(pilot, record, journal)


def _check_documents(directory: Path, last: LoadedRegistration) -> Iterator[Finding]:
    for name, digest in last.signed.subjects.items():
        path = directory / name
        if name != Pilot.FILE and not name.startswith(f"{LoadedPlan.FOLDER}/"):
            continue
        if not path.is_file() or digest_bytes(path.read_bytes()) != digest:
            yield Finding(code="frozen-file-edited", message=f"{name}: expected it as frozen, found another")


def _check_seals(directory: Path, journal: Journal) -> Iterator[Finding]:
    for entry in journal.entries:
        if entry.directory is None or not entry.is_sealed:
            continue
        seal = RunPaths(directory / LoadedPlan.RUNS / entry.directory).seal
        if not seal.is_file():
            yield Finding(code="run-dropped", message=f"{entry.directory}: expected its record, found none")
        elif digest_file(seal) != entry.seal_digest:
            message = f"{entry.directory}: expected the seal that was journaled, found another"
            yield Finding(code="run-replaced", message=message)
