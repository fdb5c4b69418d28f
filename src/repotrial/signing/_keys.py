"""The Ed25519 key that signs seals: made on first use, readable by its owner only."""
# The cryptographic libraries are imported where they are used: reading a trace needs none of them.

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from repotrial._core.errors import ErrorCode, MachineError, UsageError
from repotrial._core.files import describe_refusal, sync_directory
from repotrial._core.private_file import read_private_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from securesystemslib.signer import CryptoSigner, SSlibKey

_MAX_KEY_BYTES = 16 * 1024


BAD_SIGNING_KEY = ErrorCode(
    "bad-signing-key",
    MachineError,
    "The signing key file does not hold an unencrypted Ed25519 private key in PEM form.",
    hint="move the file away; a new key is made at the next use (old seals stay valid under the old one)",
)
SIGNING_KEY_NOT_WRITABLE = ErrorCode(
    "signing-key-not-writable",
    MachineError,
    "No signing key could be created in its place.",
    hint="name a directory that you can write to",
)
BAD_PUBLIC_KEY = ErrorCode(
    "bad-public-key",
    UsageError,
    "A public key to verify with is not an Ed25519 public key in PEM form.",
    hint="give the text that the signer's machine prints as its public key",
)


class PublicKey(msgspec.Struct, frozen=True):
    """What verifies a seal, in the form that people exchange."""

    pem: str
    """SubjectPublicKeyInfo in PEM, one spelling per key."""
    key_id: str
    """The key's id in signatures: sha256 over its canonical description, 64 hex digits."""

    @staticmethod
    def load(path: Path) -> PublicKey:
        """Read a public key from a PEM file.

        Raises:
            BAD_PUBLIC_KEY: the file cannot be read or holds something else.
        """
        try:
            with path.open("rb") as stream:
                data = stream.read(_MAX_KEY_BYTES)
        except (OSError, ValueError) as error:
            raise BAD_PUBLIC_KEY.error(
                f"{path}: expected a readable file, found: {describe_refusal(error)}"
            ) from error
        return parse_public_key(data.decode("ascii", "replace"), name=str(path))


_SECRET_PURPOSE = b"repotrial/secret@1"
"""What is signed for a seal begins otherwise."""


class SigningKey:
    """A private key; it signs, shows its public half, derives secrets, and gives nothing else away."""

    def __init__(self, private_key: Ed25519PrivateKey) -> None:
        from securesystemslib.signer import CryptoSigner

        self.signer: CryptoSigner = CryptoSigner(private_key)
        self.public_key = _public_key(private_key.public_key())

    @property
    def key_id(self) -> str:
        return self.public_key.key_id

    def derive_secret(self, *parts: bytes) -> bytes:
        """Bytes that the same key makes of the same parts again, and no other key does."""
        told = b"".join(len(part).to_bytes(8, "big") + part for part in (_SECRET_PURPOSE, *parts))
        return hashlib.sha256(bytes.fromhex(self.signer.sign(told).signature)).digest()

    def __repr__(self) -> str:
        return f"SigningKey(key_id={self.key_id!r})"

    @classmethod
    def load(cls, path: Path) -> Self:
        """The key at `path`; made there if there is none.

        Raises:
            PRIVATE_FILE: the file is open to other users, or not a plain file.
            BAD_SIGNING_KEY: the file holds something else.
            SIGNING_KEY_NOT_WRITABLE: there is none, and none can be made.
        """
        if not os.path.lexists(path):
            _create_key(path)
        return cls(_parse_private_key(read_private_file(path, max_bytes=_MAX_KEY_BYTES), path))


def parse_public_key(pem: str, *, name: str = "public key") -> PublicKey:
    """Check that the text is an Ed25519 public key, and bring it into its one spelling.

    Raises:
        BAD_PUBLIC_KEY: it is something else; a private key is refused too, with a warning.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if "PRIVATE KEY" in pem:
        raise BAD_PUBLIC_KEY.error(
            f"{name}: expected a public key, found a private one",
            hint="never pass a private key on; show its public half instead",
        )
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BAD_PUBLIC_KEY.error(
            f"{name}: expected an Ed25519 public key in PEM form, found other text"
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise BAD_PUBLIC_KEY.error(f"{name}: expected an Ed25519 key, found {type(key).__name__.lstrip('_')}")
    return _public_key(key)


def build_verifier(key: PublicKey) -> SSlibKey:
    """The key as the envelope library wants it."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey

    return SSlibKey.from_crypto(load_pem_public_key(key.pem.encode()))


def _public_key(key: Ed25519PublicKey) -> PublicKey:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from securesystemslib.signer import SSlibKey

    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")
    return PublicKey(pem=pem, key_id=SSlibKey.from_crypto(key).keyid)


def _create_key(path: Path) -> None:
    """Write aside with mode 0600 from the first moment, then link: a second process finds a whole key."""
    from securesystemslib.signer import CryptoSigner

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp: O_EXCL and mode 0600, whatever the umask.
        handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(CryptoSigner.generate_ed25519().private_bytes)
                stream.flush()
                os.fsync(stream.fileno())
            # A link never replaces: if another process was faster, its key is the key.
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
        finally:
            Path(aside).unlink()
        sync_directory(path.parent)
    except OSError as error:
        raise SIGNING_KEY_NOT_WRITABLE.error(
            f"{path}: expected to create a signing key, found: {error}"
        ) from error


def _parse_private_key(data: bytes, path: Path) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: the key is encrypted
        raise BAD_SIGNING_KEY.error(
            f"{path}: expected an unencrypted Ed25519 key in PEM form, found other content"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BAD_SIGNING_KEY.error(
            f"{path}: expected an Ed25519 key, found {type(key).__name__.lstrip('_')}"
        )
    return key
