"""Keys of workers: each seals with its own, and the study's key vouches for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, EvidenceError, RepoTrialError
from repotrial.signing import NoSigner, PublicKey, SigningKey, StatementKind

WORKER_KEYS: Final = ".worker-keys"
"""The folder beside run directories with a statement for each worker."""
_MAX_BYTES: Final = 64 * 1024

WORKER_KEY_INVALID = ErrorCode(
    "worker-key-invalid",
    EvidenceError,
    "A statement about a worker's key does not have the form of one.",
    hint="bring the runs from their store again: `repotrial fleet pull`",
)
WORKER_KEY_VERSION = ErrorCode(
    "worker-key-version",
    EvidenceError,
    "A statement about a worker's key is of a version that this release does not know.",
    hint="use the release that wrote it, or a newer one",
)


class WorkerKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the study's key says about the key of a worker."""

    worker: str
    worker_key: str
    """Its public half, in PEM form."""
    worker_key_id: str
    """The fingerprint of it."""
    public_key: str
    """The study's, in PEM form: to check the signature, not to trust it."""


_KIND: Final = StatementKind(
    predicate=WorkerKey,
    predicate_type="urn:repotrial:worker-key:1",
    invalid=WORKER_KEY_INVALID,
    unknown=WORKER_KEY_VERSION,
)


def sign_worker_key(key: PublicKey, *, study: SigningKey, worker: str, plan: Digest) -> bytes:
    """The study's word that seals of this key are a worker's of this plan."""
    predicate = WorkerKey(
        worker=worker, worker_key=key.pem, worker_key_id=key.key_id, public_key=study.public_key.pem
    )
    return _KIND.sign(predicate, subjects={"plan": plan}, key=study)


def iter_vouched(runs: Path) -> Iterator[tuple[PublicKey, PublicKey]]:
    """Keys of workers whose runs are in a directory, each with the key that vouches for it.

    Statements whose signature does not hold vouch for nothing and are left out.
    """
    folder = runs / WORKER_KEYS
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            with path.open("rb") as file:
                signed = _KIND.parse(file.read(_MAX_BYTES), name=path.name)
        except (RepoTrialError, OSError):
            continue
        said = signed.predicate
        signer = signed.find_signer(said.public_key, None)
        if not isinstance(signer, NoSigner):
            worker = PublicKey(pem=said.worker_key, key_id=said.worker_key_id)
            yield worker, PublicKey(pem=said.public_key, key_id=signer.key_id)
