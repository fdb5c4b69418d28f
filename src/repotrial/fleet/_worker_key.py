"""A worker seals with a key of its own; the study's key vouches for it at launch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.fleet._shared_plan import SharedPlan
from repotrial.score import sign_worker_key
from repotrial.signing import SigningKey
from repotrial.store import Store

_PREFIX: Final = "worker"

STUDY_KEY = ErrorCode(
    "study-key",
    UsageError,
    "The key that is to vouch for this worker is none of the plan's.",
    hint="give the study's key with --key-file; the engine hands it out as a secret",
)


def admit_worker(store: Store, plan: SharedPlan, *, study: SigningKey, name: str, work: Path) -> SigningKey:
    """A new key for this worker, with the study's word for it in the store.

    Raises:
        STUDY_KEY: the plan does not list the key that is to give the word.
    """
    if study.public_key.pem not in plan.study_keys:
        raise STUDY_KEY.error(f"{store.url}: expected one of the plan's keys, found {study.key_id}")
    key = SigningKey.load(work / "seal-key.pem")
    data = sign_worker_key(key.public_key, study=study, worker=name, plan=plan.digest)
    store.replace(f"{_PREFIX}/{name}/key.json", data)
    return key


def iter_worker_keys(store: Store) -> Iterator[tuple[str, bytes]]:
    """The statements about all workers' keys, by worker."""
    for found in store.iter_objects(_PREFIX):
        _, name, part = found.key.split("/", 2)
        if part == "key.json":
            yield name, store.read(found.key)
