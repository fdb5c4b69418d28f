"""Working out document types before threads share them."""

from __future__ import annotations

import contextlib

import msgspec


def resolve_documents() -> None:
    """Let msgspec work out every document type of ours that is loaded by now.

    It does so when a type is first decoded. When two threads do that at one time, one of them reads what the
    other has half made, and the interpreter crashes (msgspec 0.22).
    """
    pending: list[type[msgspec.Struct]] = [msgspec.Struct]
    seen: set[type[msgspec.Struct]] = set()
    while pending:
        kind = pending.pop()
        if kind in seen:
            continue
        seen.add(kind)
        pending += kind.__subclasses__()
        if kind.__module__.startswith("repotrial."):
            # What cannot be resolved is decoded by nobody: its annotations serve type checkers alone.
            with contextlib.suppress(NameError, TypeError):
                msgspec.json.Decoder(kind)
