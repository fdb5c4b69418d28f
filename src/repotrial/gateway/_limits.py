"""Bounds of one run's gateway: what is inside a sandbox can send anything, at any pace, for ever."""

from __future__ import annotations

from typing import Final

import msgspec

_MEBIBYTE: Final = 1024 * 1024


class GatewayLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much, how many, how long. Never part of a document."""

    line_bytes: int = 8190
    """Of the request line, and of one header line."""
    header_lines: int = 128
    """Of one request."""
    request_bytes: int = 64 * _MEBIBYTE
    """Of one request's body: a long conversation with images."""
    request_messages: int = 20_000
    """In one request: each is looked at, put on record and referred to by itself."""
    held_bytes: int = 256 * _MEBIBYTE
    """Of all requests together that are under way; whoever comes with more waits."""
    answer_bytes: int = 64 * _MEBIBYTE
    """Of one answer: it is recorded whole."""
    connections: int = 128
    """At the same time; what comes beyond is closed unread."""
    idle_seconds: float = 120.0
    """Without a whole request head: longer than clients keep a connection to use it again."""
    body_seconds: float = 120.0
    """From a request's head to the end of its body."""
    lingering_seconds: float = 2.0
    """That the rest of a body is read which nobody wants, so that its sender can read why."""
    closing_seconds: float = 10.0
    """That the end of a run waits for exchanges to be closed."""
