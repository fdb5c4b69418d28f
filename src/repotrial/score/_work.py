"""How the agent worked (B16, P23, P31): calls, test cycles, active time; by programs where they were seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from repotrial._core.absence import Unknown
from repotrial._core.errors import EvidenceError
from repotrial.policy import (
    BodyReader,
    CallFacts,
    Program,
    ProgramTree,
    join_calls,
    read_call,
    read_tool_use,
)
from repotrial.score._evidence import NO_TEST, ONE_STAGE, Work
from repotrial.shell import is_test_command
from repotrial.trace import (
    BlobStore,
    Body,
    ByTool,
    Enforced,
    Event,
    Exited,
    PatchContent,
    PhaseChanged,
    ProgramEnd,
    ProgramStart,
    Replaced,
    StageTransition,
    ToolInvocation,
    UnrecordedContent,
    WorkspaceMutation,
)

_MAX_CALLS = 10_000


class WorkFold:
    """Follows the events of a run, one at a time."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._tree = ProgramTree()
        self._old = _OldFigures()
        self._calls: list[CallFacts] = []
        self._call_count = 0
        self._cycles: dict[int, bool | None] = {}
        self._act_us: int | None = None
        self._end_us: int | None = None
        self._stages = _StageTimes()
        self._lines = _LinesBefore(self._read)
        self._green: int | None = None
        self._red: int | None = None

    @property
    def last_green(self) -> int | None:
        """The last test run so far that ended well."""
        return self._green if self._tree.reports else self._old.green

    def take(self, event: Event) -> None:
        program = self._tree.take(event)
        match event.payload:
            case PhaseChanged(phase=phase):
                self._take_phase(phase, event.t)
            case ProgramStart() if program is not None and program.purpose == "test" and program.is_key:
                self._cycles.setdefault(program.seq, None)
                self._lines.take_test(program.start.started_at_us)
            case ProgramEnd(exit=status) if program is not None and not isinstance(status, Replaced):
                self._take_end(program)
            case ToolInvocation() as tool:
                self._take_tool(tool, event)
            case StageTransition() as transition if isinstance(transition.status, Enforced):
                self._stages.take(transition, event.t)
            case WorkspaceMutation() as mutation if self._act_us is not None and self._end_us is None:
                self._lines.take_mutation(mutation)
            case _:
                pass

    def _take_phase(self, phase: str, at_us: int) -> None:
        if phase == "act":
            self._act_us = at_us
        elif self._act_us is not None and self._end_us is None:
            self._end_us = at_us

    def _take_end(self, program: Program) -> None:
        for each in program.iter_before():
            if each.seq in self._cycles:
                self._note(each.seq, has_failed=each.has_failed)

    def _note(self, seq: int, *, has_failed: bool | None) -> None:
        self._cycles[seq] = has_failed
        if has_failed is False:
            self._green, self._red = seq, None
        elif has_failed and self._red is None:
            self._red = seq

    def _take_tool(self, tool: ToolInvocation, event: Event) -> None:
        self._old.take(tool, event.seq)
        if tool.source != "gateway":
            return
        self._call_count += 1
        call = read_call(tool, seq=event.seq, at_us=event.t, read=self._read)
        self._lines.take_call(call.seq, call.started_at_us)
        if len(self._calls) < _MAX_CALLS:
            self._calls.append(call)
        if not self._tree.has_witness and call.result is not None:
            self._note(call.seq, has_failed={"failed": True, "passed": False}.get(call.result))
            self._lines.take_test(call.started_at_us)

    def _read(self, body: Body) -> str | None:
        try:
            return body.load(self._blobs).decode("utf-8", "replace")
        except EvidenceError:
            return None

    def build(self) -> Work:
        """What all of it comes to."""
        if not self._tree.reports:
            return self._old.build()
        outcomes = list(self._cycles.values())
        return Work(
            is_witnessed=True,
            tool_calls=self._call_count,
            tool_us=self._measure_tools(),
            test_cycles=len(outcomes),
            failed_test_cycles=outcomes.count(True),
            unknown_test_cycles=outcomes.count(None),
            stage_us=self._stages.build(self._act_us, self._end_us),
            lines_before_first_test=self._lines.build(),
            last_green=self._green,
            first_red_after_green=self._red,
        )

    def _measure_tools(self) -> int:
        """Time during which tools were at work; several at a time count once (P23)."""
        first, last = self._act_us or 0, self._end_us
        spans = [
            (call.started_at_us, call.started_at_us + call.wall_us)
            for call in join_calls(self._calls, self._tree)
        ]
        if not spans:  # no model asked for tools: what the agent's own program started
            commands = (each for each in self._tree.programs if each.start.command == each.start.number)
            spans = [(each.start.started_at_us, each.ended_at_us or 0) for each in commands]
        return _measure((max(first, start), end if last is None else min(last, end)) for start, end in spans)


def _measure(spans: Iterable[tuple[int, int]]) -> int:
    total = reached = 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


class _StageTimes:
    """How long each stage of privileges was in force."""

    def __init__(self) -> None:
        self._switches: list[tuple[int, str, str]] = []

    def take(self, transition: StageTransition, at_us: int) -> None:
        self._switches.append((at_us, transition.before, transition.after))

    def build(self, first_us: int | None, last_us: int | None) -> dict[str, int] | Unknown:
        if not self._switches or first_us is None or last_us is None:
            return ONE_STAGE
        times: dict[str, int] = {}
        reached = first_us
        for at_us, before, _ in self._switches:
            times[before] = times.get(before, 0) + max(0, at_us - reached)
            reached = max(reached, at_us)
        after = self._switches[-1][2]
        times[after] = times.get(after, 0) + max(0, last_us - reached)
        return dict(sorted(times.items()))


class _LinesBefore:
    """Lines that recorded changes added and removed before the first test run began."""

    def __init__(self, read: BodyReader) -> None:
        self._read = read
        self._lines: int | Unknown = 0
        self._test_us: int | None = None
        self._calls: dict[int, int] = {}
        self._is_settled = False

    def take_call(self, seq: int, started_at_us: int) -> None:
        self._calls[seq] = started_at_us

    def take_test(self, started_at_us: int) -> None:
        if self._test_us is None:
            self._test_us = started_at_us

    def take_mutation(self, mutation: WorkspaceMutation) -> None:
        if self._test_us is None:
            self._add(mutation)
        elif not self._is_settled:
            self._is_settled = True
            cause = mutation.cause
            began_us = self._calls.get(cause.invocation) if isinstance(cause, ByTool) else None
            if began_us is None or began_us <= self._test_us:
                # What is read after a test began may have been written before it.
                self._lines = Unknown(reason="files were changed in the step that ran the first test")

    def _add(self, mutation: WorkspaceMutation) -> None:
        for change in mutation.changes:
            content = getattr(change, "content", None)
            if isinstance(content, UnrecordedContent) and content.reason != "a deletion":
                self._lines = Unknown(reason=f"the content of {change.path} was not kept")
            elif isinstance(content, PatchContent) and not isinstance(self._lines, Unknown):
                text = self._read(content.patch)
                self._lines = (
                    Unknown(reason=f"the change of {change.path} was not kept")
                    if text is None
                    else self._lines + sum(1 for _ in _iter_changed(text))
                )

    def build(self) -> int | Unknown:
        return NO_TEST if self._test_us is None else self._lines


def _iter_changed(patch: str) -> Iterator[str]:
    is_inside = False
    for line in patch.splitlines():
        if line.startswith(("diff --git", "@@")):
            is_inside = line.startswith("@@")
        elif is_inside and line.startswith(("+", "-")):
            yield line


class _OldFigures:
    """As runs without a witness were counted: their reports stay what they were."""

    def __init__(self) -> None:
        self._calls = self._us = self._cycles = 0
        self.green: int | None = None
        self._red: int | None = None

    def take(self, tool: ToolInvocation, seq: int) -> None:
        self._calls += 1
        self._us += tool.wall_us
        if not isinstance(tool.exit, Exited) or not _runs_tests(tool):
            return
        self._cycles += 1
        if tool.exit.code == 0:
            self.green, self._red = seq, None
        elif self._red is None:
            self._red = seq

    def build(self) -> Work:
        return Work(
            tool_calls=self._calls,
            tool_us=self._us,
            test_cycles=self._cycles,
            last_green=self.green,
            first_red_after_green=self._red,
        )


def _runs_tests(tool: ToolInvocation) -> bool:
    if tool.command is not None:
        return is_test_command(tool.command.argv)
    return any(is_test_command(text) for text in read_tool_use(tool.tool, _text_of(tool.arguments)).commands)


def _text_of(body: Body) -> str:
    text = getattr(body, "text", "")
    return text if isinstance(text, str) else ""
