"""Vaults: the originals of redacted texts, encrypted before they are written (P27).

A run has one vault, a directory outside of its run directory: what is there or is gone changes nothing of the
record. Each original is a file in the age format, named by its digest, which stands in the trace. The
holder of a recipient's identity can open it with any program that knows age; the holder of the files alone
cannot.
"""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import msgspec

from repotrial._core.canonical import canonical_bytes
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError, MachineError, UsageError
from repotrial._core.files import describe_refusal, sync_directory, write_atomic
from repotrial.redaction._redaction import Redacted, Redactor, SecretRedactor, verify_canary

if TYPE_CHECKING:
    from pyrage.x25519 import Recipient

_SUFFIX: Final = ".age"
_HEADER: Final = "vault.json"
_MAX_BYTES: Final = 1024**2

CUSTODY_POLICY = ErrorCode(
    "custody-policy",
    UsageError,
    "The file that says who may open originals is not one, or names a recipient that is none.",
    hint='it has recipients = ["age1…"], as `age-keygen` prints them; see docs/explanation/custody.md',
)
CUSTODY_EXTRA = ErrorCode(
    "custody-extra",
    MachineError,
    "The library that encrypts and opens originals is not installed.",
    hint="pip install 'repotrial[custody]'",
)
VAULT_WRITE = ErrorCode(
    "vault-write",
    MachineError,
    "A vault cannot be written to, so that an original would be lost.",
    hint="make room or fix the permissions of the directory that the custody policy names",
)
VAULT_MISSING = ErrorCode(
    "vault-missing",
    EvidenceError,
    "A run has no vault here: nothing was redacted in it, no policy was in force, or it lies elsewhere.",
    hint="name the directory of originals with --originals, as the custody policy does",
)
VAULT_CORRUPT = ErrorCode(
    "vault-corrupt",
    EvidenceError,
    "An original does not open, or is not the text of the digest that it goes by.",
    hint="take the vault from a copy; the digest stands in the trace",
)


class CustodyPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may open originals, and where they are kept; a file of the operator, hashed nowhere."""

    recipients: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """Public keys in the age format; each of them alone opens everything."""
    originals: str = "originals"
    """The directory of vaults, from the directory of this file."""

    @staticmethod
    def load(path: Path) -> CustodyPolicy:
        """Read a policy; its directory comes back absolute.

        Raises:
            CUSTODY_POLICY: it is not one; the message names the field.
            CUSTODY_EXTRA: the library is missing, so that nothing could be kept.
        """
        try:
            found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), CustodyPolicy)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise CUSTODY_POLICY.error(f"{path}: expected a custody policy, found: {error}") from error
        for number, text in enumerate(found.recipients):
            _parse_recipient(text, where=f"{path}: recipients[{number}]")
        return msgspec.structs.replace(found, originals=str(path.parent.absolute() / found.originals))

    def open_redactor(self, scanner: SecretRedactor, *, run: str) -> Redactor:
        """The same scanner, which keeps the original of every text in which it finds something.

        Args:
            scanner: What finds secrets.
            run: The name of the run directory; its vault is made here.

        Raises:
            VAULT_WRITE: the machine does not let us, or there is a vault of that name.
            SCANNER_BROKEN: the scanner lets a canary through.
        """
        vault = Vault(Path(self.originals) / run)
        vault.begin(VaultHeader(run=run, recipients=self.recipients))
        return _KeepingRedactor(scanner, vault)


class VaultHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose originals these are, and for whom."""

    run: str
    """The name of the run directory."""
    recipients: tuple[str, ...]
    """Who can open them."""


class Identity(Protocol):
    """What opens originals; only its holder has it."""

    @property
    def recipient(self) -> str:
        """The public key that belongs to it."""
        ...

    def decrypt(self, data: bytes) -> bytes: ...


class AgeIdentity:
    """An identity as `age-keygen` writes it."""

    def __init__(self, text: str, *, name: str) -> None:
        """Take the first key of the text of an identity file.

        Raises:
            CUSTODY_POLICY: there is none in it.
            CUSTODY_EXTRA: the library is missing.
        """
        try:
            from pyrage import IdentityError
            from pyrage.x25519 import Identity as Key
        except ImportError as error:
            raise CUSTODY_EXTRA.error(f"expected the library pyrage, found: {error}") from error
        lines = [line.strip() for line in text.splitlines()]
        try:
            self._key = Key.from_str(next(line for line in lines if line and not line.startswith("#")))
        except (StopIteration, IdentityError) as error:
            raise CUSTODY_POLICY.error(
                f"{name}: expected an identity (AGE-SECRET-KEY-1…), found other text",
                hint="name the file that `age-keygen -o FILE` wrote",
            ) from error

    @property
    def recipient(self) -> str:
        return str(self._key.to_public())

    def decrypt(self, data: bytes) -> bytes:
        from pyrage import DecryptError, decrypt

        try:
            return bytes(decrypt(data, [self._key]))
        except DecryptError as error:
            raise VAULT_CORRUPT.error(f"expected an original for {self.recipient}, found: {error}") from error


class Vault:
    """The originals of one run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: set[Digest] = set()
        self._recipients: list[Recipient] = []
        self._lock = threading.Lock()

    def begin(self, header: VaultHeader) -> None:
        """Make it, for these recipients.

        Raises:
            VAULT_WRITE: the machine does not let us, or there is one for others.
        """
        self._recipients = [_parse_recipient(text, where=_HEADER) for text in header.recipients]
        data = canonical_bytes(msgspec.to_builtins(header))
        path = self.root / _HEADER
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(path, data, mode=0o600, may_replace=False)
        except FileExistsError as error:
            raise VAULT_WRITE.error(f"{path}: expected no vault, found one of another run") from error
        except OSError as error:
            raise VAULT_WRITE.error(
                f"{self.root}: expected to make a vault, found: {describe_refusal(error)}"
            ) from error

    def read_header(self) -> tuple[VaultHeader, Digest]:
        """Whose it is, and the digest that its access log begins from.

        Raises:
            VAULT_MISSING: there is none.
        """
        path = self.root / _HEADER
        try:
            data = path.read_bytes()[:_MAX_BYTES]
            return msgspec.json.decode(data, type=VaultHeader), digest_bytes(data)
        except (OSError, msgspec.DecodeError) as error:
            raise VAULT_MISSING.error(f"{path}: expected a vault, found: {error}") from error

    def keep(self, original: bytes) -> None:
        """Encrypt an original and write it; on the disk when this returns.

        Raises:
            VAULT_WRITE: the machine does not let us.
        """
        from pyrage import encrypt

        digest = digest_bytes(original)
        with self._lock:
            if digest in self._known:
                return
            try:
                write_atomic(self._place(digest), encrypt(original, self._recipients), mode=0o600)
            except OSError as error:
                raise VAULT_WRITE.error(
                    f"{self.root}: expected to keep an original, found: {describe_refusal(error)}"
                ) from error
            self._known.add(digest)

    def iter_originals(self) -> Iterator[tuple[Digest, int]]:
        """Digests of originals with the sizes of their files, in order."""
        for path in sorted(self.root.glob(f"*{_SUFFIX}")):
            yield f"sha256:{path.name.removesuffix(_SUFFIX)}", path.stat().st_size

    def open_original(self, digest: Digest, identity: Identity) -> bytes:
        """The text as it was before redaction.

        Raises:
            VAULT_CORRUPT: it does not open, or is another text.
        """
        try:
            found = identity.decrypt(self._place(digest).read_bytes())
        except OSError as error:
            raise VAULT_CORRUPT.error(
                f"{digest}: expected an original, found: {describe_refusal(error)}"
            ) from error
        if digest_bytes(found) != digest:
            raise VAULT_CORRUPT.error(f"expected {digest}, found {digest_bytes(found)}")
        return found

    def remove_originals(self) -> None:
        """Take every original away; gone from the disk when this returns.

        Raises:
            VAULT_WRITE: the machine does not let us.
        """
        try:
            for path in self.root.glob(f"*{_SUFFIX}"):
                path.unlink()
            sync_directory(self.root)
        except OSError as error:
            raise VAULT_WRITE.error(
                f"{self.root}: expected to take originals away, found: {describe_refusal(error)}"
            ) from error

    def _place(self, digest: Digest) -> Path:
        return self.root / f"{digest.removeprefix('sha256:')}{_SUFFIX}"


class _KeepingRedactor:
    def __init__(self, scanner: SecretRedactor, vault: Vault) -> None:
        verify_canary(scanner)
        self._scanner = scanner
        self._vault = vault

    @property
    def rules_id(self) -> str:
        return self._scanner.rules_id

    def redact(self, text: str) -> Redacted:
        redacted = self._scanner.redact(text)
        if redacted.spans:
            self._vault.keep(text.encode("utf-8", "surrogateescape"))
        return redacted


def _parse_recipient(text: str, *, where: str) -> Recipient:
    try:
        from pyrage import RecipientError
        from pyrage.x25519 import Recipient
    except ImportError as error:
        raise CUSTODY_EXTRA.error(f"expected the library pyrage, found: {error}") from error
    try:
        return Recipient.from_str(text)
    except RecipientError as error:
        raise CUSTODY_POLICY.error(
            f"{where}: expected a public key age1…, found {text!r}: {error}"
        ) from error
