"""Blobs: stored once, verified when read, never reached through a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repotrial.trace import BlobRef, BlobStore
from support.errors import raises_code


def test_bytes_come_back(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    ref = store.put(b"\x00\xff" * 5000)
    store.sync()
    assert BlobStore(tmp_path).read(ref) == b"\x00\xff" * 5000


def test_the_address_is_the_digest_of_the_content(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    ref = store.put(b"abc")
    name = ref.digest.removeprefix("sha256:")
    assert (tmp_path / name[:2] / name[2:]).read_bytes() == b"abc"


def test_the_same_content_is_stored_once_and_leaves_nothing_aside(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    assert store.put(b"abc") == store.put(b"abc")
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_a_damaged_leftover_is_replaced(tmp_path: Path) -> None:
    ref = BlobStore(tmp_path).put(b"abc")
    BlobStore(tmp_path).path_of(ref.digest).write_bytes(b"xyz")
    again = BlobStore(tmp_path)
    again.put(b"abc")
    assert again.read(ref) == b"abc"


def test_a_missing_blob_is_named(tmp_path: Path) -> None:
    with raises_code("blob-missing", match="expected a blob of 3 bytes"):
        BlobStore(tmp_path).read(BlobRef(digest="sha256:" + "0" * 64, size_bytes=3))


@pytest.mark.parametrize("changed", [b"abd", b"ab", b"abcd", b""])
def test_a_changed_blob_is_not_read(tmp_path: Path, changed: bytes) -> None:
    store = BlobStore(tmp_path)
    ref = store.put(b"abc")
    store.path_of(ref.digest).write_bytes(changed)
    with raises_code("blob-corrupt"):
        store.read(ref)


def test_a_link_in_the_place_of_a_blob_is_not_followed(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    ref = store.put(b"abc")
    (tmp_path / "secret").write_bytes(b"abc")
    store.path_of(ref.digest).unlink()
    store.path_of(ref.digest).symlink_to(tmp_path / "secret")
    with raises_code("blob-missing"):
        store.read(ref)


def test_a_fifo_in_the_place_of_a_blob_is_not_waited_for(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    ref = store.put(b"abc")
    store.path_of(ref.digest).unlink()
    os.mkfifo(store.path_of(ref.digest))
    with raises_code("blob-missing"):
        store.read(ref)


def test_an_address_cannot_leave_the_store(tmp_path: Path) -> None:
    ref = BlobRef(digest="sha256:" + "../" * 21 + "x", size_bytes=3)
    with raises_code("blob-corrupt", match="expected a digest"):
        BlobStore(tmp_path).read(ref)
