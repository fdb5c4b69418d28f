"""The access log of a vault: who asked for originals, why, and what came of it (P27).

Each line of `access.jsonl` is signed by the key that asked and names the digest of the line before, the first
that of the vault's header. It is on the disk before anything is handed out.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial import __version__
from repotrial._core.canonical import Count
from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial._core.files import describe_refusal, write_atomic
from repotrial.archive._plan import ARCHIVE_WRITE
from repotrial.redaction import Vault
from repotrial.signing import NoSigner, PublicKey, SigningKey, StatementKind, TrustedSigner
from repotrial.trace import KeptFile

_NAME: Final = "access.jsonl"
_MAX_BYTES: Final = 256 * 1024**2
AccessWord: TypeAlias = Literal["opened", "refused", "shredding", "shredded"]

ACCESS_LOG_INVALID = ErrorCode(
    "access-log-invalid",
    EvidenceError,
    "The access log of a vault does not hold: a line is none, is not signed, or does not follow the others.",
    hint="nothing is opened beside it; take access.jsonl from a copy and find out who changed it",
)


class AccessEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request; `number` is that of the line, from 0."""

    run: str
    """The name of the run directory."""
    number: Count
    previous: Digest
    """Of the line before it; of `vault.json` for the first."""
    action: AccessWord
    """What it is about to do; `shredded` stands behind what was done."""
    by: str
    """The recipient whose identity was shown; for a shredding, who ordered it."""
    reason: str
    originals: tuple[KeptFile, ...]
    """The ones that are handed out or taken away; sizes are those of the encrypted files."""
    at_us: Count
    harness_version: str
    public_key: str
    """The signer's, in PEM: to check the signature, not to trust it."""


_KIND: Final = StatementKind(
    predicate=AccessEntry,
    predicate_type="urn:repotrial:access:1",
    invalid=ACCESS_LOG_INVALID,
    unknown=ACCESS_LOG_INVALID,
)


class AccessReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the log of a vault says."""

    run: str
    recipients: tuple[str, ...]
    """Who can open what is there."""
    entries: tuple[AccessEntry, ...]
    key_ids: tuple[str, ...]
    """Of those who signed."""
    originals: int
    """How many are there now."""


class AccessLog:
    """The log of one vault; use it within `held`."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._path = vault.root / _NAME

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other commands from appending at the same time."""
        self._vault.read_header()
        handle = os.open(self._vault.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def verify(self, trusted_keys: Collection[PublicKey] | None = None) -> AccessReport:
        """Read the whole log.

        Args:
            trusted_keys: Whose requests are believed; None: every key, each is named.

        Raises:
            VAULT_MISSING: there is no vault.
            ACCESS_LOG_INVALID: the log does not hold.
        """
        header, previous = self._vault.read_header()
        entries, key_ids = [], set()
        for number, line in enumerate(self._read_lines()):
            name = f"{_NAME}: line {number + 1}"
            signed = _KIND.parse(line, name=name)
            entry = signed.predicate
            signer = signed.find_signer(entry.public_key, trusted_keys)
            if isinstance(signer, NoSigner):
                raise ACCESS_LOG_INVALID.error(f"{name}: expected a valid signature, found none")
            if trusted_keys is not None and not isinstance(signer, TrustedSigner):
                raise ACCESS_LOG_INVALID.error(
                    f"{name}: expected a trusted key, found a signature by the unknown key {signed.key_id}"
                )
            if (entry.run, entry.number, entry.previous) != (header.run, number, previous):
                raise ACCESS_LOG_INVALID.error(
                    f"{name}: expected number {number} of {header.run} behind {previous}, found "
                    f"{entry.number} of {entry.run} behind {entry.previous}"
                )
            entries.append(entry)
            key_ids.add(signed.key_id)
            previous = digest_bytes(line)
        return AccessReport(
            run=header.run,
            recipients=header.recipients,
            entries=tuple(entries),
            key_ids=tuple(sorted(key_ids)),
            originals=len([*self._vault.iter_originals()]),
        )

    def append(
        self, action: AccessWord, *, by: str, reason: str, originals: tuple[KeptFile, ...], key: SigningKey
    ) -> None:
        """Add a line; on the disk when this returns.

        Raises:
            ACCESS_LOG_INVALID: the lines before it do not hold.
            ARCHIVE_WRITE: the machine does not let us.
        """
        self.verify()
        header, previous = self._vault.read_header()
        lines = self._read_lines()
        entry = AccessEntry(
            run=header.run,
            number=len(lines),
            previous=digest_bytes(lines[-1]) if lines else previous,
            action=action,
            by=by,
            reason=reason,
            originals=originals,
            at_us=SystemClock().now_us(),
            harness_version=__version__,
            public_key=key.public_key.pem,
        )
        line = _KIND.sign(entry, subjects={"vault.json": previous}, key=key)
        try:
            # The whole file anew: a cut leaves the old lines or all of them, never half of one.
            write_atomic(self._path, b"".join(each + b"\n" for each in [*lines, line]), mode=0o600)
        except OSError as error:
            raise ARCHIVE_WRITE.error(f"{self._path}: {describe_refusal(error)}") from error

    def _read_lines(self) -> list[bytes]:
        try:
            data = _read(self._path)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ACCESS_LOG_INVALID.error(f"{self._path}: {describe_refusal(error)}") from error
        if len(data) > _MAX_BYTES or not data.endswith(b"\n"):
            raise ACCESS_LOG_INVALID.error(f"{_NAME}: expected whole lines, found a torn one, or too many")
        return data.removesuffix(b"\n").split(b"\n")


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_MAX_BYTES + 1)
