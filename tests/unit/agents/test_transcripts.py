"""What an agent wrote about itself, taken from a home that the agent could fill with anything."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from repotrial.agents import FileTranscript, StdoutTranscript
from repotrial.run import _transcripts
from repotrial.run._transcripts import collect_transcripts

WANTED = (
    StdoutTranscript(importer="codex-exec"),
    FileTranscript(pattern="logs/**/*.jsonl", importer="codex-rollout"),
    FileTranscript(pattern="state.db*"),
)


def test_files_that_the_adapter_names_are_taken_and_no_others(tmp_path: Path) -> None:
    for name in ("logs/a.jsonl", "logs/2026/11/b.jsonl", "logs/c.txt", "state.db-wal", "other/logs/d.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    taken, skipped = collect_transcripts(tmp_path, WANTED)
    assert [(item.path, item.importer, item.data.decode()) for item in taken] == [
        ("logs/2026/11/b.jsonl", "codex-rollout", "logs/2026/11/b.jsonl"),
        ("logs/a.jsonl", "codex-rollout", "logs/a.jsonl"),
        ("state.db-wal", None, "state.db-wal"),
    ]
    assert skipped == []


def test_links_lead_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.jsonl").write_text("the host's own")
    home = tmp_path / "home"
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "file.jsonl").symlink_to(secret / "key.jsonl")
    (home / "logs" / "directory").symlink_to(secret)
    (home / "state.db").symlink_to("/etc/passwd")
    assert collect_transcripts(home, WANTED) == ([], [])


def test_a_home_that_became_a_link_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "home").symlink_to("/etc")
    with pytest.raises(OSError, match="home"):
        collect_transcripts(tmp_path / "home", WANTED)


def test_what_is_no_file_does_not_block(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    os.mkfifo(logs / "pipe.jsonl")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(logs / "s.jsonl"))
        taken, skipped = collect_transcripts(tmp_path, WANTED)
    assert taken == []
    assert {item.path for item in skipped} == {"logs/pipe.jsonl", "logs/s.jsonl"}


def test_what_is_too_large_is_left_with_the_reason(tmp_path: Path) -> None:
    with (tmp_path / "state.db").open("wb") as stream:
        stream.truncate(_transcripts._MOST_FILE_BYTES + 1)
    taken, (item,) = collect_transcripts(tmp_path, WANTED)
    assert taken == []
    assert item.reason.startswith("larger than")


def test_a_tree_without_a_floor_is_not_followed_to_its_end(tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d", dir_fd=handle)
        deeper = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = deeper
    os.close(handle)
    taken, (item,) = collect_transcripts(tmp_path, WANTED)
    assert taken == []
    assert item.reason == "too deep"


def test_a_crowd_of_files_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transcripts, "_MOST_ENTRIES", 50)
    for number in range(60):
        (tmp_path / str(number)).touch()
    assert [item.reason for item in collect_transcripts(tmp_path, WANTED)[1]] == ["more than 50 entries"]


def test_names_that_are_no_text_are_no_obstacle(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    Path(os.fsdecode(os.fsencode(logs) + b"/\xff\n.jsonl")).write_text("x")
    (item,), _ = collect_transcripts(tmp_path, WANTED)
    assert os.fsencode(item.path) == b"logs/\xff\n.jsonl"


def test_files_of_one_directory_can_be_one_transcript(tmp_path: Path) -> None:
    for name, text in {"a/0.json": '{\n "n": 0\n}', "a/1.json": "no JSON\n", "b/0.json": "[1, 2]"}.items():
        path = tmp_path / "talks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    wanted = (FileTranscript(pattern="talks/**/*.json", importer="openhands-events", is_joined=True),)
    taken, skipped = collect_transcripts(tmp_path, wanted)
    assert [(item.path, item.data) for item in taken] == [
        ("talks/a/", b'{"n":0}\nno JSON \n'),
        ("talks/b/", b"[1,2]\n"),
    ]
    assert skipped == []
