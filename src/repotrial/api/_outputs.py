"""What programs printed and which tests spoke, from the record of a run alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.display import escape_unprintable, list_some
from repotrial._core.errors import ErrorCode, EvidenceError, UsageError
from repotrial.contract import Check, ContractRecord
from repotrial.judging import RecordedTests, list_recorded_tests, read_recorded_tests
from repotrial.score import (
    EvidencePointer,
    JudgedRun,
    QuotedLines,
    StreamPointer,
    build_run_paths,
    load_evidence,
    read_lines,
)
from repotrial.trace import (
    AcceptanceExecution,
    BlobStore,
    KeptStream,
    PrintingProgram,
    RunPaths,
    iter_events,
    iter_with_moot,
)

_EVERYTHING = "all"
_MOST_NAMES = 40


OUTPUT_UNKNOWN = ErrorCode(
    "output-unknown",
    UsageError,
    "The record of the run has no execution of that name, so there is nothing to show of it.",
    hint="name a check of the contract that was executed, `agent`, `patch` or `all`",
)


class ProgramOutput(NamedTuple):
    """A program and what is left of what it printed."""

    program: PrintingProgram
    streams: dict[str, KeptStream]
    """`stdout` and `stderr`, as far as the program had them."""


class CheckTests(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a check without twins, and its tests."""

    program: PrintingProgram
    tests: RecordedTests


def iter_run_outputs(directory: Path, names: Collection[str]) -> Iterator[ProgramOutput]:
    """Every execution of the named checks (or of the `agent`, the `patch`, `all`), streamed, in order.

    A twin run follows its plain run, whichever was first: what people look for is in the plain one.
    Nothing is verified but the bytes that are shown: they are those that the trace refers to.

    Raises:
        RUN_DIRECTORY_MISSING: there is no run.
        OUTPUT_UNKNOWN: at the end, where some name has no execution.
    """
    paths = build_run_paths(directory)
    blobs = BlobStore(paths.blobs)
    seen = _Seen(directory, names)
    for program in _iter_programs(paths):
        if not seen.wants(program.name):
            continue
        outputs = {"stdout": program.stdout, "stderr": program.stderr}
        yield ProgramOutput(
            program, {name: kept.load(blobs) for name, kept in outputs.items() if kept is not None}
        )
    seen.verify("output")


def _iter_programs(paths: RunPaths) -> Iterator[PrintingProgram]:
    """Every program of the record, twin runs after their plain runs."""
    waiting: dict[tuple[str, str | None, int | None], PrintingProgram] = {}
    shown = set()
    try:
        for event, is_moot in iter_with_moot(iter_events(paths.trace, allow_torn_tail=True)):
            program = PrintingProgram.find(event, is_moot=is_moot)
            if program is None:
                continue
            key = (program.name, program.subject, program.attempt)
            if program.variant == "twins" and key not in shown:
                waiting[key] = program
                continue
            yield program
            if program.variant == "plain":
                shown.add(key)
                if (doubt := waiting.pop(key, None)) is not None:
                    yield doubt
    except EvidenceError:
        yield from waiting.values()
        raise
    yield from waiting.values()


def iter_run_tests(directory: Path, names: Collection[str]) -> Iterator[CheckTests]:
    """The tests of the named checks (or of `all`), one item for each execution without twins, in order.

    Raises:
        RUN_DIRECTORY_MISSING: there is no run.
        OUTPUT_UNKNOWN: at the end, where some name has no execution with tests.
    """
    paths = build_run_paths(directory)
    blobs = BlobStore(paths.blobs)
    record = load_evidence(paths.root).record
    seen = _Seen(directory, names)
    for event in iter_events(paths.trace, allow_torn_tail=True):
        execution, program = event.payload, PrintingProgram.find(event)
        if not isinstance(execution, AcceptanceExecution) or program is None:
            continue
        if not seen.wants(program.name) or execution.variant != "plain":
            continue
        check = _find_check(record, program.name)
        tests = (
            msgspec.structs.replace(list_recorded_tests(execution), remark=check.reason, is_lost=True)
            if isinstance(check, Unknown)
            else read_recorded_tests(check, execution, blobs)
        )
        yield CheckTests(program=program, tests=tests)
    seen.verify("tests")


def _find_check(record: ContractRecord | Unknown, name: str) -> Check | Unknown:
    if isinstance(record, Unknown):
        return record
    found = (check for check in record.contract.checks if check.id == name)
    return next(found, Unknown(reason="contract.json: expected the check, found none of that name"))


def open_lines(run: JudgedRun) -> dict[str, tuple[QuotedLines, ...]]:
    """The very lines that a verdict points at, by gate and tag; each where it is first pointed at (S5).

    Raises:
        EvidenceError: the trace cannot be read.
    """
    parts: dict[str, tuple[EvidencePointer, ...]] = {gate.gate: gate.evidence for gate in run.card.gates}
    for tag in run.card.tags:
        parts[tag.id] = (*parts.get(tag.id, ()), *tag.evidence)
    first: dict[StreamPointer, str] = {}
    for name, evidence in parts.items():
        for pointer in evidence:
            if isinstance(pointer, StreamPointer):
                first.setdefault(pointer, name)
    opened = read_lines(RunPaths(run.directory), first)
    return {
        name: found
        for name in parts
        if (found := tuple(lines for lines in opened if first[lines.pointer] == name))
    }


class _Seen:
    """Names that were asked for, held against those that there are."""

    def __init__(self, directory: Path, names: Collection[str]) -> None:
        self._directory = directory
        self._names = names
        self._found: dict[str, None] = {}

    def wants(self, name: str) -> bool:
        self._found[name] = None
        return name in self._names or _EVERYTHING in self._names

    def verify(self, what: str) -> None:
        missing = [name for name in self._names if name not in self._found and name != _EVERYTHING]
        if not missing and self._found:
            return
        there = [escape_unprintable(name) for name in sorted(self._found)]
        hint = (
            f"the record has {list_some(there, most=_MOST_NAMES)}; `{_EVERYTHING}` stands for each of them"
            if there
            else f"no check with {what} was executed; `repotrial run show --verdict` says how the run ended"
        )
        wanted = ", ".join(missing) or "some program"
        raise OUTPUT_UNKNOWN.error(
            f"{self._directory}: expected {what} of {wanted}, found none on record", hint=hint
        )
