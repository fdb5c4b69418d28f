"""What a store promises, found out by trying: a promise that is not kept costs a pilot its figures."""

from __future__ import annotations

import os
from typing import Final, Literal

import msgspec

from repotrial._core.errors import ErrorCode, MachineError
from repotrial.store._open import is_tested
from repotrial.store._store import Store

_FOLDER: Final = "probe"

STORE_CONDITIONS = ErrorCode(
    "store-conditions",
    MachineError,
    "The store does not keep what claims need: to create an object only where there is none.",
    hint="use a store that does (a directory, S3, MinIO, R2); this one may still hold archives",
)


class Promises(msgspec.Struct, frozen=True, kw_only=True):
    """What a store was seen to keep."""

    create: Literal["kept", "broken"]
    """The second of two who create an object is refused, and the first one's content stays."""
    update: Literal["kept", "broken", "not offered"]
    """An object is not updated by a tag that is not its own any more."""
    is_tested: bool
    """Whether stores of this kind are in the tests of this release."""

    @property
    def sentence(self) -> str:
        """In words."""
        words = f"conditional create {self.create}, conditional update {self.update}"
        return words if self.is_tested else f"{words}; this kind of store is not tested by this release"


def probe_store(store: Store) -> Promises:
    """Try both conditions on an object of our own.

    Raises:
        RepoTrialError: the store cannot be used at all.
    """
    key, first, second = f"{_FOLDER}/{os.urandom(8).hex()}", os.urandom(16), os.urandom(16)
    is_created = store.create(key, first)
    is_refused = not store.create(key, second)
    stays = store.read(key) == first
    return Promises(
        create="kept" if is_created and is_refused and stays else "broken",
        update=_probe_update(store, key),
        is_tested=is_tested(store.url),
    )


def _probe_update(store: Store, key: str) -> Literal["kept", "broken", "not offered"]:
    tag = store.find_tag(key)
    if tag is None:
        return "not offered"
    taken = store.update(key, b"new", tag=tag)
    if taken is None:
        return "not offered"
    is_refused = store.update(key, b"late", tag=tag) is False
    return "kept" if taken and is_refused and store.read(key) == b"new" else "broken"


def verify_claims_hold(store: Store) -> Promises:
    """Refuse a store in which two workers could claim one run.

    Raises:
        STORE_CONDITIONS: it does not keep conditional create.
        RepoTrialError: it cannot be used at all.
    """
    promises = probe_store(store)
    if promises.create == "broken":
        raise STORE_CONDITIONS.error(
            f"{store.url}: expected the second of two who create an object to be refused, found it accepted"
        )
    return promises
