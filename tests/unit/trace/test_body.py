"""Bodies: whatever bytes come, the same bytes come back."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.digest import digest_bytes
from repotrial._core.escaping import escape_bytes, escape_text, unescape_text
from repotrial.redaction import NO_REDACTION, Redactor
from repotrial.redaction._redaction import Redacted, RedactedSpan
from repotrial.trace import BinaryBody, BlobRef, BlobStore, Body, TextBody
from repotrial.trace._body import BlobBody, OmittedBody, build_body, omit_bodies
from support.errors import raises_code


class _HideSecret:
    """Replaces the word `hunter2`."""

    rules_id = "none"

    def redact(self, text: str) -> Redacted:
        spans = []
        parts = text.split("hunter2")
        at = 0
        for part in parts[:-1]:
            at += len(part)
            spans.append(RedactedSpan(start=at, length=3, rule="word", original_length=7))
            at += 3
        return Redacted(text="[X]".join(parts), spans=tuple(spans))


def _build(
    data: bytes, store: BlobStore, *, inline_bytes: int = 64, redactor: Redactor = NO_REDACTION
) -> Body:
    return build_body(data, redactor=redactor, store=store.put, inline_bytes=inline_bytes)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", TextBody),
        ("žluťoučký 🐎\0".encode(), TextBody),
        (b"\xff\xfe", BinaryBody),
        (b"\xed\xa0\x80", BinaryBody),  # a lone surrogate
        (b"x" * 65, BlobBody),
        (b"\xff" * 65, BlobBody),
    ],
)
def test_how_bytes_are_kept_follows_from_the_bytes(tmp_path: Path, data: bytes, kind: type) -> None:
    store = BlobStore(tmp_path)
    body = _build(data, store)
    assert type(body) is kind
    assert body.load(store) == data
    assert (body.digest, body.length_bytes) == (digest_bytes(data), len(data))


@given(st.binary(max_size=100))
def test_every_body_survives_json(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    store = BlobStore(tmp_path_factory.getbasetemp() / "blobs")
    body = msgspec.json.decode(msgspec.json.encode(_build(data, store)), type=Body)
    assert body.load(store) == data


def test_a_redacted_body_keeps_the_digest_of_the_original(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    body = _build(b"password=hunter2;", store, redactor=_HideSecret())
    assert isinstance(body, TextBody)
    assert body.text == "password=[X];"
    assert (body.digest, body.length_bytes) == (digest_bytes(b"password=hunter2;"), 17)
    span = body.spans[0]
    assert body.text[span.start : span.start + span.length] == "[X]"
    assert body.load(store) == b"password=[X];"


def test_a_secret_between_undecodable_bytes_is_redacted(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    body = _build(b"\xff\xfehunter2\xff", store, redactor=_HideSecret())
    assert isinstance(body, BinaryBody)
    assert body.load(store) == b"\xff\xfe[X]\xff"


def test_a_blob_holds_no_secret(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    body = _build(b"hunter2 " * 100, store, redactor=_HideSecret())
    assert isinstance(body, BlobBody)
    assert all(b"hunter2" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_body_over_the_budget_keeps_its_digest() -> None:
    def refuse(_: bytes) -> BlobRef | None:
        return None

    body = build_body(b"x" * 100, store=refuse, inline_bytes=10)
    assert body == OmittedBody(digest=digest_bytes(b"x" * 100), length_bytes=100)


def test_an_omitted_body_cannot_be_loaded(tmp_path: Path) -> None:
    with raises_code("body-omitted"):
        OmittedBody(digest=digest_bytes(b"x"), length_bytes=1).load(BlobStore(tmp_path))


@pytest.mark.parametrize(
    "body",
    [
        TextBody(text="abd", digest=digest_bytes(b"abc"), length_bytes=3),
        BinaryBody(base64="/w==", digest=digest_bytes(b"abc"), length_bytes=3),
        BinaryBody(base64="no base64", digest=digest_bytes(b"abc"), length_bytes=3),
        BinaryBody(base64="é", digest=digest_bytes(b"abc"), length_bytes=3),
    ],
)
def test_a_body_that_is_not_what_its_digest_says_is_not_loaded(tmp_path: Path, body: Body) -> None:
    with raises_code("body-corrupt"):
        body.load(BlobStore(tmp_path))


def test_omitting_bodies_keeps_everything_else(tmp_path: Path) -> None:
    body = msgspec.to_builtins(_build(b"abc", BlobStore(tmp_path)))
    tree = {"a": [body, 1], "b": {"c": body}, "stored": "text"}
    reduced, count, length = omit_bodies(tree)
    assert (count, length) == (2, 6)
    kept = {"stored": "omitted", "digest": digest_bytes(b"abc"), "length_bytes": 3, "spans": body["spans"]}
    assert reduced == {"a": [kept, 1], "b": {"c": kept}, "stored": "text"}
    assert msgspec.convert(kept, Body) == OmittedBody(digest=digest_bytes(b"abc"), length_bytes=3)


@given(st.binary(max_size=40))
def test_names_of_any_bytes_become_text_and_return(raw: bytes) -> None:
    text = escape_bytes(raw)
    text.encode()
    assert unescape_text(text) == raw


@given(st.text(st.characters(), max_size=20))
def test_any_python_text_can_be_escaped(text: str) -> None:
    escape_text(text).encode()


@given(st.binary(max_size=8), st.binary(max_size=8))
def test_no_two_names_share_a_text(one: bytes, other: bytes) -> None:
    assert (one == other) == (escape_bytes(one) == escape_bytes(other))
