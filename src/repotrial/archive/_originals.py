"""Originals of redacted texts: opened by a recipient on record, or shredded (P27)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, EvidenceError, UsageError
from repotrial.archive._access_log import AccessLog, AccessReport
from repotrial.redaction import Identity, Vault
from repotrial.signing import PublicKey, SigningKey
from repotrial.trace import KeptFile, RunPaths, iter_events

ACCESS_REFUSED = ErrorCode(
    "access-refused",
    EvidenceError,
    "Originals are not for the holder of this identity; the try is in the access log.",
    hint="`repotrial archive log RUN_DIR` names the recipients; ask one of them",
)
ACCESS_REQUEST = ErrorCode(
    "access-request",
    UsageError,
    "A request for originals lacks a reason, or names what is not there.",
    hint="say why with --reason; without --digest all originals of the run are opened",
)


class OpenedOriginal(msgspec.Struct, frozen=True, kw_only=True):
    """A text as it was before redaction."""

    digest: Digest
    data: bytes
    events: tuple[int, ...]
    """Where its digest stands in the trace; none for a short text such as an argument or a path, of which an
    event has no digest."""


class OriginalsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for, and by whose word."""

    run: Path
    """The run directory."""
    vaults: Path
    """The directory that the custody policy names."""
    reason: str
    key: SigningKey
    """Signs the request."""
    digests: frozenset[Digest] = frozenset()
    """Of single originals; empty: all of them."""

    def _list_wanted(self, vault: Vault) -> tuple[KeptFile, ...]:
        if not self.reason.strip():
            raise ACCESS_REQUEST.error("expected a reason, found none")
        there = dict(vault.iter_originals())
        missing = sorted(self.digests - there.keys())
        if missing:
            raise ACCESS_REQUEST.error(f"expected an original of {missing[0]}, found none in {vault.root}")
        return tuple(
            KeptFile(name=f"{digest.removeprefix('sha256:')}.age", digest=digest, size_bytes=size)
            for digest, size in there.items()
            if not self.digests or digest in self.digests
        )

    def open(self, identity: Identity) -> list[OpenedOriginal]:
        """Put the request on record, then decrypt.

        Raises:
            VAULT_MISSING: the run has no vault there.
            ACCESS_REQUEST: there is no reason, or no such original.
            ACCESS_REFUSED: the identity is none of the recipients'.
            ACCESS_LOG_INVALID: the log does not hold, so nothing is opened.
            VAULT_CORRUPT: an original does not open, or is another text.
        """
        vault = _find_vault(self.run, self.vaults)
        log = AccessLog(vault)
        with log.held():
            wanted = self._list_wanted(vault)
            header, _ = vault.read_header()
            is_theirs = identity.recipient in header.recipients
            log.append(
                "opened" if is_theirs else "refused",
                by=identity.recipient,
                reason=self.reason,
                originals=wanted,
                key=self.key,
            )
        if not is_theirs:
            raise ACCESS_REFUSED.error(
                f"{self.run}: expected an identity of {', '.join(header.recipients)}, found one of "
                f"{identity.recipient}"
            )
        places = _find_places(self.run)
        return [
            OpenedOriginal(
                digest=file.digest,
                data=vault.open_original(file.digest, identity),
                events=tuple(places.get(file.digest, ())),
            )
            for file in wanted
        ]

    def shred(self, *, by: str) -> int:
        """Take all originals of a sealed run away, on record before and after; how many went.

        Where it is cut, the same again finishes it.

        Raises:
            ACCESS_REQUEST: there is no reason, or the run is not sealed.
            ACCESS_LOG_INVALID: the log does not hold, so nothing is taken away.
        """
        if not RunPaths(self.run).seal.is_file():
            raise ACCESS_REQUEST.error(f"{self.run}: expected a sealed run, found one that may go on")
        vault = _find_vault(self.run, self.vaults)
        log = AccessLog(vault)
        with log.held():
            gone = self._list_wanted(vault)
            entries = log.verify().entries
            is_cut = bool(entries) and entries[-1].action == "shredding"
            if gone:
                log.append("shredding", by=by, reason=self.reason, originals=gone, key=self.key)
                vault.remove_originals()
            if gone or is_cut:
                log.append("shredded", by=by, reason=self.reason, originals=gone, key=self.key)
        return len(gone)


def read_access_log(
    run: Path, vaults: Path, trusted_keys: Collection[PublicKey] | None = None
) -> AccessReport:
    """Who asked for originals of a run, and whether the log holds.

    Raises:
        VAULT_MISSING: the run has no vault there.
        ACCESS_LOG_INVALID: the log does not hold, or a key is not believed.
    """
    return AccessLog(_find_vault(run, vaults)).verify(trusted_keys)


def _find_vault(run: Path, vaults: Path) -> Vault:
    return Vault(vaults / run.resolve().name)


def _find_places(run: Path) -> dict[Digest, list[int]]:
    """Events by the digests that stand in them."""
    found: dict[Digest, list[int]] = {}
    for event in iter_events(RunPaths(run).trace):
        for digest in dict.fromkeys(_iter_digests(msgspec.to_builtins(event.payload))):
            found.setdefault(digest, []).append(event.seq)
    return found


def _iter_digests(tree: object) -> Iterator[Digest]:
    match tree:
        case dict():
            for key, item in tree.items():
                if key == "digest" and isinstance(item, str):
                    yield item
                else:
                    yield from _iter_digests(item)
        case list() | tuple():
            for item in tree:
                yield from _iter_digests(item)
        case _:
            return
