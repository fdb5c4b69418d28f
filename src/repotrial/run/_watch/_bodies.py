"""Texts of recorded bodies, as breakers read them, live and when a trace is judged again."""

from __future__ import annotations

from pathlib import Path

from repotrial._core.errors import EvidenceError
from repotrial.policy import BodyReader
from repotrial.trace import BlobStore, Body


def build_body_reader(blobs: Path) -> BodyReader:
    """Reads a body of a run whose blobs are in this directory; null where its bytes were not kept."""
    store = BlobStore(blobs)

    def read(body: Body) -> str | None:
        try:
            return body.load(store).decode("utf-8", "replace")
        except EvidenceError:
            return None

    return read
