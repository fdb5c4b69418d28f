"""A file's first bytes tell its format."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial.transcripts import IMPORTERS, load_transcript
from support.errors import raises_code

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
def test_the_format_is_found_with_and_without_the_name(tmp_path: Path, path: Path, hint: str) -> None:
    key = str(path.relative_to(SAMPLES))
    expected = FILES.get(key) or (path.stem if path.stem in IMPORTERS else "openhands-events")
    assert _detect(tmp_path, path.read_bytes(), path.name if hint == "own" else "file") == expected


def _detect(directory: Path, data: bytes, name: str) -> str:
    path = directory / name
    path.write_bytes(data)
    return load_transcript(path).format


def test_a_name_helps_where_the_bytes_do_not(tmp_path: Path) -> None:
    assert _detect(tmp_path, b"{}", "trajectory.json") == "atif"
    assert _detect(tmp_path, b"", "x.traj") == "swe-agent"
    tail = b'{"type":"result","subtype":"success","session_id":"s"}'
    assert _detect(tmp_path, tail, "claude-code.txt") == "claude-code-stream"
    assert _detect(tmp_path, tail, "qwen-code.txt") == "qwen-stream"


@pytest.mark.parametrize("head", [b"", b"Dear diary", b"[1]", b"null", b'{"a": 1}', b"\xff\x00", b"{" * 5000])
def test_what_is_no_transcript_has_no_format(tmp_path: Path, head: bytes) -> None:
    with raises_code("unknown-transcript-format"):
        _detect(tmp_path, head, "file")
