"""A conducted pilot as one file for an outsider: plan, registrations, journal, labels, runs, analysis."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from repotrial._core.digest import digest_file
from repotrial._core.errors import ErrorCode, EvidenceError, MachineError
from repotrial.analysis import ConductedPilot, LoadedPlan, Pilot, Registration
from repotrial.conduct._head import HEAD_FILE
from repotrial.conduct._journal import JOURNAL_FILE
from repotrial.conduct._people import LEDGER_FILE
from repotrial.conduct._review import LABELS_FILE

SUMS_FILE: Final = "SHA256SUMS"
_SINGLE: Final = (Pilot.FILE, JOURNAL_FILE, HEAD_FILE, LABELS_FILE, LEDGER_FILE)
_FOLDERS: Final = (LoadedPlan.FOLDER, Registration.FOLDER, LoadedPlan.RUNS)

BUNDLE_WRITE = ErrorCode(
    "bundle-write",
    MachineError,
    "A bundle cannot be written.",
    hint="name another file with --out, make room or fix the permissions",
)
BUNDLE_SOURCE = ErrorCode(
    "bundle-source",
    EvidenceError,
    "A pilot's directory has a file that cannot be bundled: a link, a device or a pipe.",
    hint="nothing in a pilot's directory is a link: fetch it again from where it was conducted",
)


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """What was packed."""

    path: str
    """The archive."""
    folder: str
    """The one directory in it."""
    files: int
    """Files in it."""
    digest: str
    """Of its list of digests, SHA256SUMS."""


def write_bundle(pilot: ConductedPilot, results: Mapping[str, str], out: Path) -> Bundle:
    """Write a plain tar: equal pilots give equal bytes.

    Args:
        pilot: As it was analyzed; documents and seals were held against the registration.
        results: The analysis, by file name.
        out: The archive; must not exist.

    Raises:
        BUNDLE_SOURCE: something in the pilot's directory is not a plain file.
        BUNDLE_WRITE: the machine does not let us write.
    """
    folder, sums = pilot.id, []
    try:
        with (
            out.open("xb") as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for name, path in _iter_files(pilot):
                sums.append(f"{digest_file(path).removeprefix('sha256:')}  {name}\n")
                with path.open("rb") as source:
                    _add(tar, f"{folder}/{name}", source, path.stat().st_size)
            for name, text in sorted(results.items()):
                data = text.encode()
                sums.append(f"{hashlib.sha256(data).hexdigest()}  analysis/{name}\n")
                _add(tar, f"{folder}/analysis/{name}", io.BytesIO(data), len(data))
            listing = "".join(sums).encode()
            _add(tar, f"{folder}/{SUMS_FILE}", io.BytesIO(listing), len(listing))
    except OSError as error:
        raise BUNDLE_WRITE.error(f"{out}: expected to write the bundle, found: {error}") from error
    return Bundle(
        path=str(out),
        folder=folder,
        files=len(sums) + 1,
        digest=f"sha256:{hashlib.sha256(listing).hexdigest()}",
    )


def _iter_files(pilot: ConductedPilot) -> Iterator[tuple[str, Path]]:
    """All that an analysis reads, sorted: no key, no cache, no lock file."""
    root = pilot.directory
    names = [name for name in (*_SINGLE, pilot.prices) if name is not None and (root / name).exists()]
    for folder in _FOLDERS:
        names += [path.relative_to(root).as_posix() for path in (root / folder).rglob("*")]
    for name in sorted(set(names)):
        path = root / name
        if path.is_dir() and not path.is_symlink():
            continue
        if path.is_symlink() or not path.is_file():
            raise BUNDLE_SOURCE.error(f"{path}: expected a plain file, found something else")
        yield name, path


def _add(tar: tarfile.TarFile, name: str, source: BinaryIO, size: int) -> None:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o644
    tar.addfile(info, source)
