"""What a store does for us, whatever it is made of; errors that all of them share."""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, EvidenceError, MachineError, UsageError

_KEY: Final = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*")
"""No part begins with a dot: neither `..`, nor what a directory store writes aside."""
MAX_SMALL_BYTES: Final = 64 * 1024**2
"""Most that is read into memory at once; what is larger is downloaded to a file."""

STORE_KEY = ErrorCode(
    "store-key",
    UsageError,
    "A name in a store has characters that not every store takes.",
    hint="use letters, digits, '-', '_', '=', '.' and '/'; no part may begin with a dot",
)
STORE_URL = ErrorCode(
    "store-url",
    UsageError,
    "The address of a store is not one.",
    hint="name file:DIR or s3://BUCKET/PREFIX",
)
STORE_EXTRA = ErrorCode(
    "store-extra",
    MachineError,
    "Object stores need a library that is not installed.",
    hint="pip install 'repotrial[store]'; file:DIR needs nothing",
)
STORE_REFUSED = ErrorCode(
    "store-refused",
    MachineError,
    "The store does not accept these credentials, or does not let them do this.",
    hint="look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and the bucket's policy",
)
STORE_UNREACHABLE = ErrorCode(
    "store-unreachable",
    MachineError,
    "The store did not answer, or answered that it cannot.",
    hint="look at the network, AWS_ENDPOINT_URL and the disk; the same command goes on where it was",
)
STORE_MISSING = ErrorCode(
    "store-missing",
    EvidenceError,
    "The store does not have an object that should be there.",
    hint="look at the address: is it the one that the plan was written to?",
)
STORE_DIGEST = ErrorCode(
    "store-digest",
    EvidenceError,
    "An object of the store does not have the content that was written.",
    hint="upload it again from where it was made; the store may be damaged",
)


class StoredObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object, as a listing shows it."""

    key: str
    size_bytes: int
    modified_us: int
    """By the store's clock, which is the only one that machines share."""


class Store(ABC):
    """Objects by key. Safe from every thread; every request is counted."""

    clock_us: ClassVar[int]
    """How coarse the store's times are: two of them can be off by so much against each other."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._requests = itertools.count()

    @property
    def requests(self) -> int:
        """How many there were so far; a listing is one for each page."""
        return int(self._requests.__reduce__()[1][0])

    @abstractmethod
    def create(self, key: str, data: bytes) -> bool:
        """Write it where nothing is yet; of all who try at once, one gets it. False: another did.

        A client that repeats a request whose answer was lost finds its own object. So equal content is taken
        for one's own: put something into it that is nowhere else.
        """

    @abstractmethod
    def replace(self, key: str, data: bytes) -> None:
        """Write it, whatever was there."""

    @abstractmethod
    def update(self, key: str, data: bytes, *, tag: str) -> bool | None:
        """Write it if the object is still the one of that tag; None: this store does not offer that."""

    @abstractmethod
    def read(self, key: str) -> bytes:
        """A small object.

        Raises:
            STORE_MISSING: there is none.
        """

    @abstractmethod
    def find(self, key: str) -> StoredObject | None:
        """What a listing would show of it; None: there is none."""

    @abstractmethod
    def find_tag(self, key: str) -> str | None:
        """What tells this content from another, for `update`."""

    @abstractmethod
    def iter_objects(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """All objects below a prefix (whole parts of keys), in order of keys; only those after one."""

    @abstractmethod
    def upload(self, key: str, path: Path) -> Digest:
        """Write a file as it is read; its digest. It appears whole or not at all.

        Raises:
            STORE_DIGEST: what arrived is something else.
        """

    @abstractmethod
    def download(self, key: str, path: Path) -> Digest:
        """Read it into a new file, as it arrives; its digest.

        Raises:
            STORE_MISSING: there is none.
        """

    def verify_download(self, key: str, path: Path, expected: Digest) -> None:
        """Download what is known by its digest.

        Raises:
            STORE_MISSING: there is none.
            STORE_DIGEST: it is something else.
        """
        found = self.download(key, path)
        if found != expected:
            path.unlink()
            raise STORE_DIGEST.error(f"{self.url}/{key}: expected {expected}, found {found}")

    def read_clock_us(self, key: str) -> int:
        """What time it is for the store: when it takes an object that is written now."""
        self.replace(key, b"")
        found = self.find(key)
        if found is None:
            raise STORE_UNREACHABLE.error(f"{self.url}/{key}: expected what was just written, found nothing")
        return found.modified_us

    def _count(self, key: str) -> str:
        """One request, for a key that every store takes."""
        if not _KEY.fullmatch(key):
            raise STORE_KEY.error(f"expected a key, found {key[:200]!r}")
        next(self._requests)
        return key
