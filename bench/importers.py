"""Foreign formats: transcripts against the standard `json` module, Harbor tasks against `tomllib`."""

from __future__ import annotations

import io
import json
import random
import tempfile
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

from bench.trace import Part, Ratio
from repotrial.interop import survey_harbor
from repotrial.transcripts import ImportedTranscript, import_transcript
from repotrial.transcripts._claude import LINES

__all__ = ["bench_harbor", "bench_importers", "bench_parsing"]

_ROUNDS = 25
_WORDS = (
    "def",
    "return",
    "self",
    "value",
    "index",
    "path",
    "open",
    "close",
    "read",
    "write",
    "assert",
    "class",
)


def bench_parsing(turns: int = 200) -> Ratio:
    """Every line of stream-json into a typed entry, results left as bytes, against `json.loads` of each line.

    Two shapes: keys in the order in which the agent writes them, and sorted; a reader that relies on the
    order would win the first alone.
    """
    return _compare("parsing of stream-json, per turn", 2.4, _parse_as_we_do, _parse_as_peer, turns)


def bench_importers(turns: int = 200) -> Ratio:
    """The whole import, against a walk with the `json` module that finds the same facts.

    The peer believes every field and stops at the first wrong one.
    """
    return _compare("import of stream-json, per turn", 1.8, _import_as_we_do, _import_as_peer, turns)


def bench_harbor(tasks: int = 400) -> Ratio:
    """Reading and grading task directories, five files each, against parsing their `task.toml` alone."""
    part = Part(name="small tasks", ours_us=[], peer_us=[], note=f"{tasks} directories")
    with tempfile.TemporaryDirectory() as folder:
        manifests = [_write_task(Path(folder) / f"task-{number}") for number in range(tasks)]
        for _ in range(_ROUNDS):
            part.ours_us.append(_measure(lambda _: survey_harbor(Path(folder)), b"") / tasks)
            part.peer_us.append(_measure(lambda _: _parse_manifests(manifests), b"") / tasks)
    return Ratio(name="reading of Harbor tasks, per directory", goal=0.2, parts=(part,))


def _write_task(home: Path) -> Path:
    files = {
        "task.toml": 'version = "1.0"\n\n[metadata]\ndifficulty = "medium"\ncategory = "system"\n'
        'tags = ["disk", "logs"]\n\n[verifier]\ntimeout_sec = 300.0\n\n[agent]\ntimeout_sec = 900.0\n\n'
        '[environment]\nbuild_timeout_sec = 600.0\ncpus = 1\nmemory = "2G"\nstorage = "10G"\n',
        "instruction.md": "Find out why the disk is full, and write the cause to /app/cause.txt.\n" * 12,
        "environment/Dockerfile": "FROM python:3.13-slim\nWORKDIR /app\nCOPY logs /app/logs\n",
        "tests/test.sh": "#!/bin/bash\npython -m pytest /tests/test_outputs.py\n",
        "tests/test_outputs.py": "def test_cause():\n    assert open('/app/cause.txt').read()\n" * 20,
    }
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    return home / "task.toml"


def _parse_manifests(paths: list[Path]) -> None:
    for path in paths:
        tomllib.loads(path.read_text(encoding="utf-8"))


def _compare(
    name: str, goal: float, ours: Callable[[bytes], object], peer: Callable[[bytes], object], turns: int
) -> Ratio:
    parts = []
    for shape, is_sorted in (("as written", False), ("keys sorted", True)):
        data = _build_transcript(turns, is_sorted=is_sorted)
        _check_agreement(data)
        note = f"{len(data) / 1e6:.1f} MB in {data.count(10)} lines"
        parts.append(Part(name=shape, ours_us=[], peer_us=[], note=note))
        for _ in range(_ROUNDS):
            parts[-1].ours_us.append(_measure(ours, data) / turns)
            parts[-1].peer_us.append(_measure(peer, data) / turns)
    return Ratio(name=name, goal=goal, parts=tuple(parts))


def _check_agreement(data: bytes) -> None:
    ours, peer = _import_as_we_do(data), _import_as_peer(data)
    assert [call.call_id for call in ours.calls] == list(peer.calls) == list(peer.results)
    assert [call.arguments for call in ours.calls] == [call["arguments"] for call in peer.calls.values()]
    assert len(ours.messages) == len(peer.messages)
    assert len(ours.usage) == len(peer.usage)


def _measure(work: Callable[[bytes], object], data: bytes) -> float:
    """CPU time of a call in microseconds."""
    start = time.process_time()
    work(data)
    return (time.process_time() - start) * 1e6


def _parse_as_we_do(data: bytes) -> None:
    for line in io.BytesIO(data):
        LINES.decode(line)


def _parse_as_peer(data: bytes) -> None:
    for line in io.BytesIO(data):
        json.loads(line)


def _import_as_we_do(data: bytes) -> ImportedTranscript:
    return import_transcript(io.BytesIO(data), "claude-code-stream")


class _Found:
    """What the peer finds; the same facts as ours, in plain containers."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.messages: dict[tuple[str, str], list[str]] = {}
        self.calls: dict[str, dict[str, object]] = {}
        self.results: dict[str, dict[str, object]] = {}
        self.usage: dict[str, dict[str, object]] = {}


def _import_as_peer(data: bytes) -> _Found:
    found = _Found()
    for line in io.BytesIO(data):
        entry = json.loads(line)
        found.sessions.add(entry.get("session_id"))
        if entry["type"] not in ("assistant", "user"):
            continue
        message, parent = entry["message"], entry.get("parent_tool_use_id")
        message_id, at = message.get("id"), entry.get("timestamp")
        if "usage" in message:
            found.usage[message_id] = message["usage"]
        for block in message["content"]:
            if block["type"] == "tool_use":
                found.calls[block["id"]] = {
                    "name": block["name"],
                    "arguments": block["input"],
                    "message_id": message_id,
                    "timestamp": at,
                    "parent": parent,
                }
            elif block["type"] == "tool_result":
                found.results[block["tool_use_id"]] = {
                    "content": block["content"],
                    "is_error": block.get("is_error"),
                    "finished": at,
                }
            else:
                found.messages.setdefault((message_id, message["role"]), []).append(block["text"])
    return found


def _build_transcript(turns: int, *, is_sorted: bool) -> bytes:
    """What an agent writes that reads, searches, edits and tests; outputs of some kilobytes."""
    rng = random.Random(20)
    entries: list[dict[str, object]] = [
        {"type": "system", "subtype": "init", "session_id": "s", "model": "example-large"}
    ]
    for turn in range(turns):
        entries.extend(_build_turn(turn, rng))
    entries.append(
        {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "num_turns": turns}
    )
    return b"".join(json.dumps(entry, sort_keys=is_sorted).encode() + b"\n" for entry in entries)


def _build_turn(turn: int, rng: random.Random) -> list[dict[str, object]]:
    name = rng.choice(["Read", "Grep", "Edit", "Bash"])
    output = _build_text(rng, rng.choice([20, 60, 200, 800]))
    usage = {
        "input_tokens": 4,
        "cache_creation_input_tokens": rng.randrange(4000),
        "cache_read_input_tokens": 20_000 + 300 * turn,
        "output_tokens": 8,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
    }
    blocks: list[dict[str, object]] = [
        {"type": "text", "text": _build_text(rng, 3)},
        {
            "type": "tool_use",
            "id": f"toolu_{turn:06}",
            "name": name,
            "input": {"file_path": f"/workspace/src/module_{turn % 90}.py", "note": _build_text(rng, 2)},
        },
    ]
    said: list[dict[str, object]] = [
        {
            "type": "assistant",
            "message": {
                "model": "example-large",
                "id": f"msg_{turn:06}",
                "type": "message",
                "role": "assistant",
                "content": [block],
                "stop_reason": None,
                "usage": usage,
            },
            "parent_tool_use_id": None,
            "session_id": "s",
            "uuid": f"a-{turn}-{number}",
        }
        for number, block in enumerate(blocks)
    ]
    result = {"tool_use_id": f"toolu_{turn:06}", "type": "tool_result", "content": output, "is_error": False}
    answered: dict[str, object] = {
        "type": "user",
        "message": {"role": "user", "content": [result]},
        "parent_tool_use_id": None,
        "session_id": "s",
        "uuid": f"u-{turn}",
        "timestamp": "2026-03-01T12:00:00.000Z",
        "tool_use_result": {"stdout": output, "stderr": "", "interrupted": False},
    }
    return [*said, answered]


def _build_text(rng: random.Random, lines: int) -> str:
    return "\n".join(" ".join(rng.choices(_WORDS, k=8)) for _ in range(lines))
