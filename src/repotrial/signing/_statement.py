"""Signed statements: in-toto statements in DSSE envelopes with one Ed25519 signature, in canonical form.

The signer's public key stands inside the predicate: it shows that nothing changed since the signature.
Whether the signer is to be trusted is decided by a key that came another way.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
import orjson

from repotrial._core.canonical import canonical_bytes
from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, EvidenceError, UsageError
from repotrial.signing._keys import PublicKey, SigningKey, build_verifier, parse_public_key

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"

_Hex = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}(?!\n)$")]
P = TypeVar("P")


class TrustedSigner(msgspec.Struct, frozen=True, kw_only=True):
    """Signed with a key that the caller trusts."""

    key_id: str


class UnknownSigner(msgspec.Struct, frozen=True, kw_only=True):
    """A valid signature, by a key that is none of the trusted ones: anyone can sign anew."""

    key_id: str


class UncheckedSigner(msgspec.Struct, frozen=True, kw_only=True):
    """A valid signature, and no key was given to hold the signer against."""

    key_id: str


class NoSigner(msgspec.Struct, frozen=True, kw_only=True):
    """No valid signature."""


Signer: TypeAlias = TrustedSigner | UnknownSigner | UncheckedSigner | NoSigner


class StatementKind(msgspec.Struct, Generic[P], frozen=True, kw_only=True):
    """What a statement is about, and which errors say that it is none."""

    predicate: type[P]
    predicate_type: str
    """A URI whose last part, after the last colon, is the version."""
    invalid: ErrorCode[EvidenceError]
    """Raised where the form is wrong."""
    unknown: ErrorCode[EvidenceError]
    """Raised where the version is another."""

    @property
    def family(self) -> str:
        """The type without its version."""
        return self.predicate_type.rpartition(":")[0] + ":"

    def sign(self, predicate: P, *, subjects: Mapping[str, Digest], key: SigningKey) -> bytes:
        """The envelope as a file's bytes; `parse` reads it back."""
        from securesystemslib.dsse import Envelope

        payload = canonical_bytes(
            {
                "_type": _STATEMENT_TYPE,
                "predicate": msgspec.to_builtins(predicate),
                "predicateType": self.predicate_type,
                "subject": [
                    {"digest": {"sha256": digest.removeprefix("sha256:")}, "name": name}
                    for name, digest in sorted(subjects.items())
                ],
            }
        )
        envelope = Envelope(payload=payload, payload_type=PAYLOAD_TYPE, signatures={})
        envelope.sign(key.signer)
        data = canonical_bytes(envelope.to_dict())
        self.parse(data, name="statement")  # what we write, we can read
        return data

    def parse(self, data: bytes, *, name: str) -> SignedStatement[P]:
        """Read a statement without believing it; `name` is what messages call it.

        Raises:
            EvidenceError: the kind's own, for a wrong form and for another version.
        """
        envelope = _parse(data, _Envelope, name, self.invalid)
        (signature,) = envelope.signatures
        payload = _decode(envelope.payload, f"{name}: payload", self.invalid)
        raw = _check_version(payload, f"{name}: payload", self)
        statement = _parse_payload(payload, raw, self, f"{name}: payload")
        names = [subject.name for subject in statement.subject]
        if names != sorted(set(names)):
            raise self.invalid.error(
                f"{name}: payload: expected subjects in order and each once, found others"
            )
        return SignedStatement(
            predicate=_convert(statement.predicate, self, f"{name}: payload"),
            subjects={subject.name: f"sha256:{subject.digest.sha256}" for subject in statement.subject},
            payload=payload,
            key_id=signature.keyid,
            signature=_decode(signature.sig, f"{name}: signatures[0].sig", self.invalid),
        )


class SignedStatement(msgspec.Struct, Generic[P], frozen=True, kw_only=True):
    """A statement as read from its envelope; nothing in it is verified yet."""

    predicate: P
    subjects: dict[str, Digest]
    """Digest by name."""
    payload: bytes
    key_id: str
    signature: bytes

    def find_signer(self, public_key: str, trusted_keys: Collection[PublicKey] | None) -> Signer:
        """Who signed; `public_key` is the one that the predicate names."""
        from securesystemslib.dsse import Envelope
        from securesystemslib.exceptions import UnverifiedSignatureError
        from securesystemslib.signer import Signature

        try:
            key = parse_public_key(public_key)
        except UsageError:  # `bad-public-key`
            return NoSigner()
        signature = Signature(self.key_id, self.signature.hex())
        envelope = Envelope(self.payload, PAYLOAD_TYPE, {self.key_id: signature})
        try:
            envelope.verify([build_verifier(key)], threshold=1)
        except UnverifiedSignatureError:
            return NoSigner()
        if trusted_keys is None:
            return UncheckedSigner(key_id=key.key_id)
        # Both came through the parser, which brings a key into its one spelling.
        is_trusted = key in trusted_keys
        return TrustedSigner(key_id=key.key_id) if is_trusted else UnknownSigner(key_id=key.key_id)


class _DigestSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sha256: _Hex


class _Subject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    digest: _DigestSet
    name: Annotated[str, msgspec.Meta(min_length=1)]


class _Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type_: Literal["https://in-toto.io/Statement/v1"] = msgspec.field(name="_type")
    predicate: msgspec.Raw
    predicate_type: str = msgspec.field(name="predicateType")
    subject: tuple[_Subject, ...]


class _Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    keyid: _Hex
    sig: str


class _Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    payload: str
    payload_type: Literal["application/vnd.in-toto+json"] = msgspec.field(name="payloadType")
    signatures: Annotated[tuple[_Signature, ...], msgspec.Meta(min_length=1, max_length=1)]


def _parse(data: bytes, kind: type[Any], name: str, invalid: ErrorCode[EvidenceError]) -> Any:
    """Typed, and in canonical form: no doubled keys, no second spelling of the same content."""
    try:
        document = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid.error(f"{name}: {error}") from error
    if canonical_bytes(msgspec.to_builtins(document)) != data:
        raise invalid.error(f"{name}: expected canonical JSON, found the same content in another form")
    return document


def _parse_payload(payload: bytes, raw: Any, kind: StatementKind[P], name: str) -> _Statement:
    try:
        statement = msgspec.json.decode(payload, type=_Statement)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise kind.invalid.error(f"{name}: {error}") from error
    if statement.predicate_type != kind.predicate_type:
        raise kind.invalid.error(f"{name}: predicateType: expected {kind.predicate_type!r}, found another")
    try:
        is_canonical = canonical_bytes(raw) == payload
    except UsageError as error:  # `not-canonical`
        raise kind.invalid.error(f"{name}: {error.message}") from error
    if not is_canonical:
        raise kind.invalid.error(f"{name}: expected canonical JSON, found the same content in another form")
    return statement


def _convert(predicate: msgspec.Raw, kind: StatementKind[P], name: str) -> P:
    """Nothing that the type does not say may stand in it, defaults included."""
    found: P = _parse(bytes(predicate), kind.predicate, f"{name}: predicate", kind.invalid)
    return found


def _check_version(payload: bytes, name: str, kind: StatementKind[P]) -> Any:
    try:
        raw = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise kind.invalid.error(f"{name}: expected JSON, found: {error}") from error
    found = raw.get("predicateType") if isinstance(raw, dict) else None
    if isinstance(found, str) and found.startswith(kind.family) and found != kind.predicate_type:
        raise kind.unknown.error(
            f"{name}: predicateType: expected {kind.predicate_type!r}, found {found[:80]!r}"
        )
    return raw


def _decode(text: str, name: str, invalid: ErrorCode[EvidenceError]) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid.error(f"{name}: expected base64, found: {error}") from error
    if base64.b64encode(data).decode("ascii") != text:
        raise invalid.error(f"{name}: expected base64 in its one spelling, found another")
    return data
