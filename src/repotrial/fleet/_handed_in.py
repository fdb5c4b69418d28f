"""Records in a store: which one counts, and how it comes back as a run directory."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.tar import LIBRARY_ERRORS, iter_members
from repotrial.fleet._board import Board, SharedRunState
from repotrial.fleet._bundle import BUNDLE_INVALID, unpack
from repotrial.fleet._worker_key import iter_worker_keys
from repotrial.score import WORKER_KEYS
from repotrial.store import STORE_DIGEST, Store

_SUPERSEDED: Final = ".superseded"
"""Attempts that were carried through and do not count: kept out of every rate."""
_MAX_SEAL_BYTES: Final = 1024**2


class DoneMarker(msgspec.Struct, frozen=True, kw_only=True):
    """All of a `done` object."""

    epoch: int
    record: str
    """The key of the record that is the run."""
    digest: Digest
    """Of the packed record."""
    seal_digest: Digest
    worker: str = ""
    """Who wrote the marker."""


def read_seal_digest(packed: Path) -> Digest:
    """The digest of the seal in a packed run directory.

    Raises:
        BUNDLE_INVALID: it is none, or has no seal.
    """
    try:
        with tarfile.open(packed, "r:gz") as archive:
            for info in iter_members(archive):
                is_seal = info.name.count("/") == 1 and info.name.endswith("/seal.json")
                file = archive.extractfile(info) if is_seal else None
                if file is not None:
                    return digest_bytes(file.read(_MAX_SEAL_BYTES))
    except LIBRARY_ERRORS as error:
        raise BUNDLE_INVALID.error(f"{packed.name}: expected a packed record, found: {error}") from error
    raise BUNDLE_INVALID.error(f"{packed.name}: expected a sealed record, found no seal")


class Pulled(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="pulled"):
    """A record that was brought here."""

    run_id: str
    directory: str
    is_counted: bool
    """Whether it is the run, or only an attempt at it."""


def pull_records(board: Board, store: Store, target: Path, *, is_counted_only: bool) -> Iterator[Pulled]:
    """Bring records here as run directories; what is here already stays.

    Attempts of which another one counts lie apart; those that were cut off or excused lie beside the run, as
    on one machine.

    Raises:
        STORE_DIGEST: a record is not the one that was handed in.
    """
    target.mkdir(parents=True, exist_ok=True)
    for name, data in iter_worker_keys(store):
        (target / WORKER_KEYS).mkdir(exist_ok=True)
        (target / WORKER_KEYS / f"{name}.json").write_bytes(data)
    for state in board.states:
        marker = _read_marker(store, state) if state.is_done else None
        for attempt in state.attempts.values():
            is_counted = marker is not None and attempt.record == marker.record
            if attempt.record is None or (is_counted_only and not is_counted):
                continue
            is_apart = not is_counted and attempt.word in {"valid", "invalid"}
            place = target / _SUPERSEDED if is_apart else target
            expected = marker.digest if marker is not None and is_counted else None
            found = _pull(store, attempt.record, place, f"{state.run.run_id}-a{attempt.epoch}", expected)
            yield Pulled(run_id=state.run.run_id, directory=str(found), is_counted=is_counted)


def _read_marker(store: Store, state: SharedRunState) -> DoneMarker:
    key = f"{state.folder}/done"
    try:
        return msgspec.json.decode(store.read(key), type=DoneMarker)
    except msgspec.DecodeError as error:
        raise STORE_DIGEST.error(f"{store.url}/{key}: expected a marker, found: {error}") from error


def _pull(store: Store, key: str, place: Path, name: str, expected: Digest | None) -> Path:
    if (place / name).is_dir():
        return place / name
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place, prefix=".pull-") as folder:
        packed, opened = Path(folder) / "record.tar.gz", Path(folder) / "opened"
        found = store.download(key, packed)
        if expected is not None and found != expected:
            raise STORE_DIGEST.error(f"{store.url}/{key}: expected {expected}, found {found}")
        unpack(packed, opened)
        if not (opened / name).is_dir():
            raise BUNDLE_INVALID.error(f"{store.url}/{key}: expected the directory {name}, found another")
        shutil.move(opened / name, place / name)
    return place / name
