"""Contents that marks keep: a little in memory, the rest in files, nothing beyond the bound."""

from __future__ import annotations

from pathlib import Path

from repotrial._core.digest import digest_bytes
from repotrial.workspace._mark import ContentStore


def test_a_little_stays_in_memory_and_more_becomes_files(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "contents", memory_bytes=10)
    texts = [b"small", b"tiny", b"does not fit any more", b"x"]
    for text in (*texts, *texts):  # twice is once
        store.keep(digest_bytes(text), text)
    assert [store.load(digest_bytes(text)) for text in texts] == texts
    assert [path.read_bytes() for path in (tmp_path / "contents").iterdir()] == [b"does not fit any more"]


def test_nothing_is_kept_beyond_the_bound(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "contents", total_bytes=8, memory_bytes=0)
    for text in (b"12345", b"123456", b"678"):
        store.keep(digest_bytes(text), text)
    assert [store.load(digest_bytes(text)) for text in (b"12345", b"123456", b"678")] == [
        b"12345",
        None,
        b"678",
    ]


def test_a_file_that_was_changed_is_not_believed(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "contents", memory_bytes=0)
    store.keep(digest_bytes(b"true"), b"true")
    (kept,) = (tmp_path / "contents").iterdir()
    kept.write_bytes(b"false")
    assert store.load(digest_bytes(b"true")) is None
