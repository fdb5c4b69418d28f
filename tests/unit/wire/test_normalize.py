"""Requests without what differs between two runs of the same agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from repotrial.wire import Dialect
from repotrial.wire._normalize import (
    IDENTIFIER_MEMBERS,
    VOLATILE_MEMBERS,
    VOLATILE_TEXTS,
    normalize_request,
)
from support.errors import raises_code
from support.wire import DIALECTS, build_body

ROOT = Path(__file__).resolve().parents[3]


def _normalize(dialect: Dialect, body: dict[str, Any]) -> bytes:
    return normalize_request(dialect, json.dumps(body).encode())


def _normalize_text(text: str) -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    content = json.loads(_normalize("openai-chat", body))["messages"][0]["content"]
    assert isinstance(content, str)
    return content


@pytest.mark.parametrize("dialect", DIALECTS)
def test_spelling_does_not_matter_and_meaning_does(dialect: Dialect) -> None:
    body = build_body(dialect, calls=2)
    turned = dict(reversed(body.items()))
    assert normalize_request(dialect, json.dumps(turned, indent=3).encode()) == _normalize(dialect, body)
    assert _normalize(dialect, build_body(dialect, calls=2, prompt="mend it")) != _normalize(dialect, body)
    assert _normalize(dialect, build_body(dialect, calls=1)) != _normalize(dialect, body)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_names_the_session_is_left_out(dialect: Dialect) -> None:
    body = build_body(dialect)
    marked = {**body, **dict.fromkeys(VOLATILE_MEMBERS[dialect], "something else")}
    assert _normalize(dialect, marked) == _normalize(dialect, body)


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic-messages"])
def test_ids_only_tie_things_together(dialect: Dialect) -> None:
    body = json.dumps(build_body(dialect, calls=2))
    other = body.replace("call_0", "toolu_x9").replace("call_1", "toolu_a3")
    crossed = body.replace("call_0", "call_1")
    assert normalize_request(dialect, other.encode()) == normalize_request(dialect, body.encode())
    assert normalize_request(dialect, crossed.encode()) != normalize_request(dialect, body.encode())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("session 0b9f5a3e-7d0f-4c11-9a55-1f2e3d4c5b6a", "session <uuid>"),
        ("Today's date: 2026-11-16", "Today's date: <date>"),
        ("at 2026-11-16T04:05:06.789Z it", "at <time> it"),
        ("It is Monday, November 16, 2026.", "It is <date_long>."),
        ("-rw-r--r-- 1 a a 40 Nov 16 04:05 calc.py", "-rw-r--r-- 1 a a 40 <date_long> calc.py"),
        ("1 passed in 0.03s", "1 passed in <duration>"),
        ("wrote /tmp/tmpab12/x.py now", "wrote <temporary> now"),
        ("<Foo object at 0x7f80f8e8f4f0>", "<Foo object at <address>>"),
        ("on http://127.0.0.1:40213/", "on http://127.0.0.1:<port>/"),
        ("Chunk ID: 3fa9c1\nWall time: 0.05 seconds", "Chunk ID: <chunk>\nWall time: <duration>"),
        ("Process Group PGID: 15044", "Process Group PGID: <process>"),
        ("version 1.2.3 of 12 files, 3 s/x", "version 1.2.3 of 12 files, <duration>/x"),
    ],
)
def test_when_and_where_are_replaced_by_a_name(text: str, expected: str) -> None:
    assert _normalize_text(text) == expected


def test_the_model_keeps_its_date() -> None:
    assert b"gpt-4o-2024-08-06" in _normalize("openai-chat", {"model": "gpt-4o-2024-08-06", "messages": []})


def test_every_rule_says_why_it_is_there() -> None:
    assert all(text.name and text.pattern and text.why for text in VOLATILE_TEXTS)
    assert len({text.name for text in VOLATILE_TEXTS}) == len(VOLATILE_TEXTS)


def test_the_page_lists_what_is_taken_out() -> None:
    page = (ROOT / "docs" / "explanation" / "wire-formats.md").read_text(encoding="utf-8")
    members = frozenset[str]().union(*VOLATILE_MEMBERS.values()) | IDENTIFIER_MEMBERS
    for name in (*members, *(text.name for text in VOLATILE_TEXTS)):
        assert f"`{name}`" in page


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"a":' * 100_000])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with raises_code("malformed-model-request"):
        normalize_request("openai-chat", body)
