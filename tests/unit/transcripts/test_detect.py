"""A file's first bytes tell its format."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial.transcripts import IMPORTERS
from repotrial.transcripts._detect import HEAD_BYTES, detect_format

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "transcripts"
FILES = {
    "aider.chat.md": "aider-chat",
    "atif-trimmed.json": "atif",
    "cline.messages.json": "cline-messages",
    "gemini-session.json": "gemini-session",
    "mini-swe-agent-v1.traj.json": "mini-swe-agent",
    "mini-swe-agent.traj.json": "mini-swe-agent",
    "openhands-conversation/base_state.json": "openhands-events",
    "openhands-conversation/events/event-00001-e1.json": "openhands-events",
    "swe-agent.traj": "swe-agent",
}


@pytest.mark.parametrize(
    "path", sorted(path for path in SAMPLES.rglob("*") if path.is_file()), ids=lambda p: p.name
)
@pytest.mark.parametrize("hint", ["own", "none"])
def test_the_format_is_found_with_and_without_the_name(path: Path, hint: str) -> None:
    key = str(path.relative_to(SAMPLES))
    expected = FILES.get(key) or (path.stem if path.stem in IMPORTERS else "openhands-events")
    head = path.read_bytes()[:HEAD_BYTES]
    assert detect_format(head, path.name if hint == "own" else "") == expected


def test_a_name_helps_where_the_bytes_do_not() -> None:
    assert detect_format(b"{}", "trajectory.json") == "atif"
    assert detect_format(b"", "x.traj") == "swe-agent"
    tail = b'{"type":"result","subtype":"success","session_id":"s"}'
    assert detect_format(tail, "claude-code.txt") == "claude-code-stream"
    assert detect_format(tail, "qwen-code.txt") == "qwen-stream"


@pytest.mark.parametrize("head", [b"", b"Dear diary", b"[1]", b"null", b'{"a": 1}', b"\xff\x00", b"{" * 5000])
def test_what_is_no_transcript_has_no_format(head: bytes) -> None:
    assert detect_format(head, "file") is None
