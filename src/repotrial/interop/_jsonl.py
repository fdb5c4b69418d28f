"""Runs as JSON lines: a header, then each run's flat row and whole score card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from repotrial import __version__
from repotrial.analysis import build_run_row
from repotrial.interop._model import Exported, Loss, list_words
from repotrial.score import JudgedRun

_LOSSES: Final = (
    Loss(
        what="the conversation and all events", why="a row is about the verdict; `run export atif` has them"
    ),
    Loss(what="the change", why="its digest stands in the score card"),
    Loss(what="the seal", why="the head's hash stands in the row; nothing in this file is signed"),
)


def build_jsonl(runs: Sequence[JudgedRun]) -> Exported:
    """One line for each run, behind a header."""
    header = {
        "kind": "header",
        "schema": "repotrial/export@1",
        "repotrial": __version__,
        "runs": len(runs),
        "lost": list_words(_LOSSES),
    }
    lines = [header, *({"kind": "run", "row": build_run_row(run), "card": run.card} for run in runs)]
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    return Exported(name="repotrial.jsonl", data=data, runs=len(runs), losses=_LOSSES)
