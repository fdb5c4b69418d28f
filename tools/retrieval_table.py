"""Writes the table of real traces into docs/explanation/retrieval.md: calls seen, tracked, mined, skipped.

The traces are not part of the project: give their directory, or have them beside it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from repotrial.retrieval import (
    NormalizationOptions,
    NormalizedTask,
    build_task_index,
    load_retrieval_tools,
    normalize_run,
)

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "retrieval.md"
TRACES = ROOT.parent / "shared" / "data" / "traces"
BEGIN, END = "<!-- traces: begin -->", "<!-- traces: end -->"


def build_table(traces: Path) -> str:
    """A row for each trace, and their sum."""
    rows = [
        "| trace | calls | made an event | from a shell command | no event: other tools | not read |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    sums = [0, 0, 0]
    for trace in sorted(traces.rglob("*.json*")):
        task = _normalize(trace)
        assert task.problem is None
        figures = [task.calls_seen, task.calls_tracked, task.calls_mined]
        sums = [one + other for one, other in zip(sums, figures, strict=True)]
        rows.append(_row(f"`{trace.stem}`", figures, _count(task.calls_by_tool), _count(_skipped(task))))
    rows.append(_row("**all**", sums, "", ""))
    return "\n".join(rows) + "\n"


def _row(name: str, figures: list[int], others: str, skipped: str) -> str:
    return f"| {name} | {' | '.join(map(str, figures))} | {others} | {skipped} |"


def _count(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _skipped(task: NormalizedTask) -> dict[str, int]:
    entries = task.coverage.skipped_entries if task.coverage is not None else None
    return entries if isinstance(entries, dict) else {}


def _normalize(trace: Path) -> NormalizedTask:
    with tempfile.TemporaryDirectory() as directory:
        trial = Path(directory) / "run" / "real" / "job" / "t__1"
        (trial / "agent").mkdir(parents=True)
        name = "trajectory.json" if trace.parent.name == "atif" else "transcript.txt"
        (trial / "agent" / name).write_bytes(trace.read_bytes())
        (trial / "result.json").write_text('{"task_name": "t"}')
        options = NormalizationOptions(
            tools=load_retrieval_tools(), tasks=build_task_index(None), generated_at="", is_rehearsal=True
        )
        (task,) = normalize_run(Path(directory) / "run", None, options)
        return task


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    table = build_table(Path(sys.argv[1]) if len(sys.argv) > 1 else TRACES)
    PAGE.write_text(f"{before}{BEGIN}\n{table}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
