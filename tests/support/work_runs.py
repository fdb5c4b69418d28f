"""Runs whose agent works by calls of a shell, with the programs that ran for them."""

from __future__ import annotations

import json
from pathlib import Path

from repotrial.score import RunReport, build_run_report, build_score_card, load_evidence
from repotrial.trace import (
    ByTool,
    Enforced,
    ExitUnknown,
    FileAdded,
    FileEntry,
    Observed,
    PatchContent,
    StageTransition,
    ToolInvocation,
    UnrecordedContent,
    WorkspaceMutation,
)
from support.programs import ProgramEvent, Programs, build_witness
from support.score_runs import TREE, UNIT, ScoreRun, build_contract
from support.traces import ref_of

__all__ = ["Worker"]

_WIRE = ExitUnknown(reason="the wire does not carry exit statuses")


class Worker:
    """A run whose agent works by calls of a shell, one second for each thing."""

    def __init__(self, root: Path, *, sees: bool = True) -> None:
        self.run = ScoreRun(root / "run", build_contract((UNIT,)))
        self._writer = self.run.builder.writer
        self.now_us = 0
        self.run.builder.add(build_witness(sees=sees))
        self.programs = Programs(self._add, now=self.tick)

    def tick(self) -> int:
        """The time of an event that is put on record now."""
        self.now_us = ref_of(self._writer.append(_note(), actor="harness")).t
        return self.now_us

    def _add(self, event: ProgramEvent) -> int:
        return ref_of(self._writer.append(event, actor="agent")).seq

    def call(
        self, command: str, since_us: int, *, result: bytes = b"", tool: str = "bash", **others: str
    ) -> int:
        """A call of a tool as the wire shows it, under way since then."""
        keep = self._writer.body
        told = others or {"command": command}
        arguments = keep(json.dumps(told).encode())
        call = ToolInvocation(
            tool=tool,
            source="gateway",
            arguments=arguments,
            exit=_WIRE,
            started_at_us=since_us,
            wall_us=self.tick() - since_us,
            result=keep(result),
        )
        return ref_of(self._writer.append(call, actor="agent")).seq

    def shell(self, command: str, code: int) -> int:
        """A call whose only program ends with a code."""
        since_us = self.tick()
        shell = self.programs.start("bash", "-lc", command)
        test = self.programs.start(*command.split(), replaces=shell)
        self.programs.end(shell, by=test)
        self.programs.end(test, code)
        self.call(command, since_us)
        return self.programs.places[test]

    def change(self, lines: int, *, cause: int | None = None, is_kept: bool = True) -> None:
        """A file gets so many lines."""
        patch = "diff --git a/x b/x\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n" + "+x\n" * lines
        content = PatchContent(patch=self._writer.body(patch.encode()))
        entry = FileEntry(mode=0o644, digest=TREE, size_bytes=lines)
        added = FileAdded(
            path="x", after=entry, content=content if is_kept else UnrecordedContent(reason="the budget")
        )
        by = Observed(since=0) if cause is None else ByTool(invocation=cause)
        self.run.builder.add(WorkspaceMutation(cause=by, changes=(added,)))

    def judge(self) -> RunReport:
        self.run.end_acting()
        self.run.apply()
        self.run.check(UNIT)
        evidence = load_evidence(self.run.finish())
        return build_run_report(evidence, build_score_card(evidence))


def _note() -> StageTransition:
    return StageTransition(before="read", after="read", status=Enforced(mechanism="a test", took_us=0))
