r"""Bodies: what models, tools and transcripts said, kept as bytes and never as structure.

JSON from elsewhere may hold NaN, integers beyond 2^53, lone surrogates or the same key twice; none of these
has a canonical form, so such text is stored as it came: inline when short, as a blob when long.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import DIGEST_PATTERN, digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial.redaction import NO_REDACTION, RedactedSpan, Redactor
from repotrial.trace._blobs import BlobRef, BlobStore

_MAX_SPANS = 1000
_MAX_CHARACTER_BYTES = 4

BodyDigest = Annotated[
    str,
    msgspec.Meta(
        min_length=71,
        max_length=71,
        description="sha256:<64 hex digits>",
        extra_json_schema={"pattern": DIGEST_PATTERN},
    ),
]
"""Digest of recorded bytes. Events check its length only: a regular expression per field would make appending
half as slow again, and says nothing about truth. `load` compares it with the bytes, which does.
"""


BODY_OMITTED = ErrorCode(
    "body-omitted",
    EvidenceError,
    "The trace kept only a body's digest and length, because the run's byte budget was spent.",
    hint="the digest can still confirm a copy kept elsewhere",
)
BODY_WITHDRAWN = ErrorCode(
    "body-withdrawn",
    EvidenceError,
    "A body was taken out of the trace after the run; its digest and length are still there.",
    hint="ask the custodian of the run for the original; the digest can confirm it",
)
BODY_CORRUPT = ErrorCode(
    "body-corrupt",
    EvidenceError,
    "A body's bytes do not have the digest that stands beside them.",
    hint="verify the trace; the body is not what was recorded",
)


class _Recorded(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="stored", gc=False
):
    digest: BodyDigest
    """Digest of the original bytes, before redaction (P27)."""
    length_bytes: Count
    """Length of the original bytes."""
    spans: tuple[RedactedSpan, ...] = ()
    """Where placeholders stand, in characters of what is stored (undecodable bytes count as one each); at
    most 1000, the last of which then covers all that follow and the text between them."""

    def load(self, blobs: BlobStore) -> bytes:
        """The bytes that were stored: exactly the original ones where nothing was redacted.

        Raises:
            BODY_OMITTED: only the digest was kept.
            BODY_WITHDRAWN: it was taken out later.
            BODY_CORRUPT: the bytes do not have the recorded digest.
            BLOB_MISSING: the blob is not there.
            BLOB_CORRUPT: the blob's bytes are not the recorded ones.
        """
        data = _load_stored(self, blobs)
        if not self.spans and (len(data) != self.length_bytes or digest_bytes(data) != self.digest):
            raise BODY_CORRUPT.error(f"expected {self.length_bytes} bytes with {self.digest}, found others")
        return data


class TextBody(_Recorded, frozen=True, kw_only=True, tag="text"):
    """A short body that is valid UTF-8."""

    text: str
    """The text, placeholders in the place of secrets."""


class BinaryBody(_Recorded, frozen=True, kw_only=True, tag="base64"):
    """A short body that is not valid UTF-8."""

    base64: str
    """The bytes in standard base64."""


class BlobBody(_Recorded, frozen=True, kw_only=True, tag="blob"):
    """A body too long for a line."""

    blob: BlobRef
    """Where the (redacted) bytes are."""


class OmittedBody(_Recorded, frozen=True, kw_only=True, tag="omitted"):
    """A body that the byte budget did not allow to keep; a trace-truncated event counts it."""


class WithdrawnBody(_Recorded, frozen=True, kw_only=True, tag="withdrawn"):
    """A body that was taken out after the run; the chain is over this form of every body (P27)."""

    stored_digest: BodyDigest
    """Digest of the (redacted) bytes that stood here."""


Body: TypeAlias = TextBody | BinaryBody | BlobBody | OmittedBody | WithdrawnBody
"""Bytes as the trace keeps them; always with the digest and the length of the original."""


def build_body(
    data: bytes,
    *,
    redactor: Redactor = NO_REDACTION,
    store: Callable[[bytes], BlobRef | None],
    inline_bytes: int,
    prefix_bytes: int | None = None,
) -> Body:
    """Redact `data` and choose how to keep it.

    Args:
        data: The original bytes.
        redactor: Applied before anything is stored or hashed into the chain.
        store: Keeps long bodies; answers None if the budget forbids it.
        inline_bytes: Longer bodies become blobs.
        prefix_bytes: Where only the beginning is to be kept: the body is then one of that beginning.
    """
    stored, spans = redact_bytes(data, redactor)
    if prefix_bytes is not None and len(stored) > prefix_bytes:
        data, stored, spans = _cut(data, stored, spans, prefix_bytes)
    digest = digest_bytes(data)
    length = len(data)
    if len(stored) > inline_bytes:
        blob = store(stored)
        if blob is None:
            return OmittedBody(digest=digest, length_bytes=length, spans=spans)
        return BlobBody(digest=digest, length_bytes=length, spans=spans, blob=blob)
    try:
        text = stored.decode()
    except UnicodeDecodeError:
        encoded = base64.b64encode(stored).decode("ascii")
        return BinaryBody(digest=digest, length_bytes=length, spans=spans, base64=encoded)
    return TextBody(digest=digest, length_bytes=length, spans=spans, text=text)


_Spans: TypeAlias = tuple[RedactedSpan, ...]


def redact_bytes(data: bytes, redactor: Redactor) -> tuple[bytes, _Spans]:
    """Bytes with placeholders in the place of secrets, and where those stand."""
    if redactor is NO_REDACTION:
        return data, ()
    # surrogateescape carries undecodable bytes through unchanged, so that a secret between them is found too.
    redacted = redactor.redact(data.decode("utf-8", "surrogateescape"))
    if not redacted.spans:
        return data, ()
    return redacted.text.encode("utf-8", "surrogateescape"), _bound_spans(redacted.spans)


def _bound_spans(spans: _Spans) -> _Spans:
    """A secret that is printed a million times must not make the event too large to record."""
    if len(spans) <= _MAX_SPANS:
        return spans
    kept, rest = spans[: _MAX_SPANS - 1], spans[_MAX_SPANS - 1 :]
    start = rest[0].start
    length = rest[-1].start + rest[-1].length - start
    original = length + sum(span.original_length - span.length for span in rest)
    return (*kept, RedactedSpan(start=start, length=length, rule="several", original_length=original))


def _cut(data: bytes, stored: bytes, spans: _Spans, limit: int) -> tuple[bytes, bytes, _Spans]:
    """The beginning that fits, cut neither in a character nor in a placeholder, and the original of it."""
    end = limit
    while end and limit - end < _MAX_CHARACTER_BYTES and stored[end] & 0xC0 == 0x80:  # noqa: PLR2004 -- UTF-8: not the first byte of a character
        end -= 1
    if not spans:
        return data[:end], stored[:end], ()
    text = stored[:end].decode("utf-8", "surrogateescape")
    kept = tuple(span for span in spans if span.start + span.length <= len(text))
    following = spans[len(kept)].start if len(kept) < len(spans) else len(text)
    text = text[:following]
    hidden = sum(span.original_length - span.length for span in kept)
    original = data.decode("utf-8", "surrogateescape")[: len(text) + hidden]
    return original.encode("utf-8", "surrogateescape"), text.encode("utf-8", "surrogateescape"), kept


def _load_stored(body: _Recorded, blobs: BlobStore) -> bytes:
    match body:
        case TextBody():
            return body.text.encode()
        case BinaryBody():
            try:
                return base64.b64decode(body.base64, validate=True)
            except (binascii.Error, ValueError) as error:
                raise BODY_CORRUPT.error(f"expected base64, found: {error}") from error
        case BlobBody():
            return blobs.read(body.blob)
        case WithdrawnBody():
            raise BODY_WITHDRAWN.error(
                f"expected {body.length_bytes} bytes, found that they were taken out; digest {body.digest}"
            )
        case _:
            raise BODY_OMITTED.error(
                f"expected {body.length_bytes} bytes, found only their digest {body.digest}"
            )


def omit_bodies(tree: object) -> tuple[object, int, int]:
    """Replace every stored body in a payload's builtins by its digest.

    Returns:
        The new tree, how many bodies were taken out, and how many original bytes they had.
    """
    match tree:
        case {
            "stored": "text" | "base64" | "blob",
            "digest": digest,
            "length_bytes": int(length),
            "spans": spans,
        }:
            kept = {"stored": "omitted", "digest": digest, "length_bytes": length, "spans": spans}
            return kept, 1, length
        case dict():
            parts = {key: omit_bodies(item) for key, item in tree.items()}
            new: object = {key: part[0] for key, part in parts.items()}
            found = list(parts.values())
        case list() | tuple():
            found = [omit_bodies(item) for item in tree]
            new = [part[0] for part in found]
        case _:
            return tree, 0, 0
    return new, sum(part[1] for part in found), sum(part[2] for part in found)


BODY_MARK: Final = b'"stored":"'
"""Stands in every line that has a body."""
_RECORDED: Final = {"digest", "length_bytes", "spans", "stored"}
_STORED: Final = {kind: _RECORDED | {kind} for kind in ("text", "base64", "blob")}
"""Members of a body, by how it is stored."""


def withdraw_bodies(tree: Any) -> Any:
    """The same builtins with every body as it is after it was taken out.

    What has not exactly the form of a body is no body, and stays.
    """
    match tree:
        case {"stored": str(kind)} if _STORED.get(kind) == tree.keys():
            stored_digest = _digest_stored(kind, tree[kind])
            if stored_digest is None:
                return tree
            kept = {name: tree[name] for name in ("digest", "length_bytes", "spans")}
            return {**kept, "stored": "withdrawn", "stored_digest": stored_digest}
        case dict():
            return {key: withdraw_bodies(item) for key, item in tree.items()}
        case list() | tuple():
            return [withdraw_bodies(item) for item in tree]
        case _:
            return tree


def _digest_stored(kind: str, stored: object) -> object:
    match kind, stored:
        case "text", str():
            return digest_bytes(stored.encode())
        case "base64", str():
            return _digest_base64(stored)
        case "blob", {"digest": digest, "size_bytes": _, **others} if not others:
            return digest
        case _:
            return None


def _digest_base64(text: str) -> str | None:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    is_ours = base64.b64encode(data).decode("ascii") == text  # another spelling of the same bytes is not
    return digest_bytes(data) if is_ours else None


def iter_withdrawn(tree: object) -> Iterator[str]:
    """Digests of what was taken out of an event."""
    match tree:
        case {"stored": "withdrawn", "stored_digest": str(digest)}:
            yield digest
        case dict():
            for item in tree.values():
                yield from iter_withdrawn(item)
        case list():
            for item in tree:
                yield from iter_withdrawn(item)
        case _:
            return
