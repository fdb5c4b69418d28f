"""Files mined from the words of real shell commands, against labels made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial.retrieval._extract import _recover_arguments
from repotrial.retrieval._merge import merge_traces
from repotrial.retrieval._places import build_names
from repotrial.retrieval._shell import mine_shell
from repotrial.shell import parse_shell
from repotrial.transcripts import load_transcript

LABELS = Path(__file__).parents[2] / "data" / "retrieval" / "labels" / "shell.json"
TRACES = Path(__file__).parents[3].parent / "shared" / "data" / "traces"
_WORDS = {"file_read": "read", "code_search": "search", "file_search": "list", "file_write": "write"}


def _iter_cases() -> Iterator[tuple[str, set[str], set[str]]]:
    """Each command with what was mined and what is right."""
    for name, labels in json.loads(LABELS.read_text())["labels"].items():
        merged = merge_traces([load_transcript(TRACES / name)])
        root = merged.directory or "/workspace"
        names = build_names(roots=(root,), truth=())
        for number, right in labels.items():
            arguments = merged.calls[int(number)].arguments
            known = arguments if isinstance(arguments, dict) else _recover_arguments(arguments)
            assert isinstance(known, dict)
            command = known.get("command") or known["keystrokes"]
            mined = {
                f"{_WORDS[kind]} {names.name(place)}"
                for kind, place in mine_shell([command], None, root, names)
            }
            yield command, mined, set(right)


def test_precision_and_recall_of_mined_files() -> None:
    if not TRACES.is_dir():
        pytest.skip("the real traces are not beside the project (../shared/data/traces)")
    cases = list(_iter_cases())
    commands = {
        (number, command.start, command.end)
        for number, (text, _, _) in enumerate(cases)
        for command in parse_shell(text).commands
    }
    assert len(commands) >= 200
    hits = sum(len(mined & right) for _, mined, right in cases)
    mined_files = sum(len(mined) for _, mined, _ in cases)
    right_files = sum(len(right) for _, _, right in cases)
    assert (hits, mined_files, right_files) == (78, 78, 81), "the figures of docs/explanation/retrieval.md"
