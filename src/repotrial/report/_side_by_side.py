"""Runs of one contract side by side: verdicts, changes, files read, and where they part ways."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.display import list_some, neutralize, shorten_digests
from repotrial._core.errors import EvidenceError
from repotrial.analysis import RunRow
from repotrial.change import scan_headers
from repotrial.policy import read_tool_use
from repotrial.report._document import Section, Table
from repotrial.report.figures.canvas import Cell
from repotrial.score import JudgedRun
from repotrial.shell import find_file_accesses, parse_shell
from repotrial.trace import BlobStore, Body, ProgramStart, RunPaths, ToolInvocation, iter_events

_Numbered: TypeAlias = Mapping[str, Sequence[tuple[str, JudgedRun, RunRow]]]
_MOST_RUNS: Final = 6
"""Columns of one table."""
_MOST_CONTRACTS: Final = 40
_MOST_STEPS: Final = 2_000
_MOST_NAMES: Final = 12
_MOST_CHARACTERS: Final = 160
_SEVERAL: Final = 2


class _Trail(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent did, step by step."""

    steps: tuple[str, ...]
    read: tuple[str, ...]
    """Files that its calls name, in the order of their first use."""
    is_cut: bool


def build_side_by_side(numbered: _Numbered, *, is_shared: bool, prefix: str = "") -> Iterator[Section]:
    """One table for each contract with several runs; nothing if there is no such contract."""
    by_contract: dict[str, list[tuple[str, str, JudgedRun, RunRow]]] = {}
    for name, runs in numbered.items():
        for anchor, run, row in runs:
            by_contract.setdefault(row.contract_version_id or row.contract or "?", []).append(
                (name, anchor, run, row)
            )
    several = [runs for runs in by_contract.values() if len(runs) >= _SEVERAL]
    if not several:
        return
    words = [
        "Runs of one version of a contract. A step is a call of a tool, or a program that a script starts."
    ]
    if len(several) > _MOST_CONTRACTS:
        words.append(f"{len(several) - _MOST_CONTRACTS} more contracts are left out: name fewer runs.")
    tables = tuple(
        _build_table(f"{prefix}beside{number}", runs, is_shared=is_shared)
        for number, runs in enumerate(sorted(several, key=lambda runs: runs[0][3].contract or ""), start=1)
        if number <= _MOST_CONTRACTS
    )
    yield Section(name=f"{prefix}side-by-side", title="Side by side", words=tuple(words), tables=tables)


def _build_table(name: str, runs: Sequence[tuple[str, str, JudgedRun, RunRow]], *, is_shared: bool) -> Table:
    shown = runs[:_MOST_RUNS]
    trails = [_read_trail(run) for _, _, run, _ in shown]
    checks = list(dict.fromkeys(check.check for _, _, run, _ in shown for check in run.card.checks))
    rows: list[tuple[Cell, ...]] = [
        ("verdict", *(row.status for *_, row in shown)),
        *(
            (f"gate {gate}", *(getattr(row, field) for *_, row in shown))
            for gate, field in (("G1", "patch"), ("G2", "build"), ("G3", "acceptance"), ("G4", "safety"))
        ),
        *((f"check {check}", *(_find_check(run, check) for _, _, run, _ in shown)) for check in checks),
        ("ended", *(row.ended for *_, row in shown)),
        ("files changed", *(_list_files(run) for _, _, run, _ in shown)),
        ("files read", *(_describe_read(trail) for trail in trails)),
        ("steps", *(_describe_steps(trail) for trail in trails)),
        ("first step that differs", *_iter_partings(trails, is_shared=is_shared)),
    ]
    contract = runs[0][3].contract or "?"
    left_out = len(runs) - len(shown)
    return Table(
        title=f"{contract}: {len(shown)} runs",
        name=name,
        columns=("", *_label(shown)),
        rows=tuple(rows),
        column_sources=("", *(anchor for _, anchor, _, _ in shown)),
        note=f"{left_out} more runs of this contract are left out: name fewer runs." if left_out else "",
        is_folded=True,
    )


def _label(runs: Sequence[tuple[str, str, JudgedRun, RunRow]]) -> Iterator[str]:
    for name, _, _, row in runs:
        repeat = "?" if row.replicate is None else row.replicate
        yield f"{shorten_digests(name)}, repeat {repeat}"


def _find_check(run: JudgedRun, check: str) -> str:
    return next((found.verdict for found in run.card.checks if found.check == check), "not there")


def _list_files(run: JudgedRun) -> Cell:
    change = run.evidence.change
    if isinstance(change, Unknown):
        return change
    names = [file.new_name or file.old_name or "?" for file in scan_headers(change)]
    return list_some(names, most=_MOST_NAMES) or "none"


def _describe_read(trail: _Trail | Unknown) -> Cell:
    return trail if isinstance(trail, Unknown) else list_some(trail.read, most=_MOST_NAMES) or "none named"


def _describe_steps(trail: _Trail | Unknown) -> Cell:
    if isinstance(trail, Unknown):
        return trail
    return f"more than {len(trail.steps)}" if trail.is_cut else len(trail.steps)


def _iter_partings(trails: Sequence[_Trail | Unknown], *, is_shared: bool) -> Iterator[Cell]:
    first = trails[0]
    yield "compared with this one"
    for trail in trails[1:]:
        if isinstance(trail, Unknown) or isinstance(first, Unknown):
            yield trail if isinstance(trail, Unknown) else first  # type: ignore[misc]  # one of them is
            continue
        place = next(
            (n for n, (one, other) in enumerate(zip(first.steps, trail.steps, strict=False)) if one != other),
            min(len(first.steps), len(trail.steps)),
        )
        if place == len(first.steps) == len(trail.steps):
            yield "none: the same steps"
        elif is_shared:
            yield f"step {place + 1}"
        else:
            yield f"step {place + 1}: {_step(trail, place)} (there: {_step(first, place)})"


def _step(trail: _Trail, place: int) -> str:
    return trail.steps[place] if place < len(trail.steps) else "no further step"


def _read_trail(run: JudgedRun) -> _Trail | Unknown:
    paths = RunPaths(run.directory)
    blobs = BlobStore(paths.blobs)
    calls: list[str] = []
    programs: list[str] = []
    read: dict[str, None] = {}
    try:
        for event in iter_events(paths.trace, allow_torn_tail=True):
            match event.payload:
                case ToolInvocation(source="gateway") as call:
                    calls.append(_read_call(call, blobs, read))
                case ProgramStart(phase="act") as start:
                    programs.append(_cut(shlex.join(start.argv) or start.path))
                case _:
                    pass
            if len(calls) > _MOST_STEPS:
                break
    except EvidenceError as error:
        return Unknown(reason=f"the trace cannot be read: {error.code}")
    steps = calls or programs
    return _Trail(steps=tuple(steps[:_MOST_STEPS]), read=tuple(read), is_cut=len(steps) > _MOST_STEPS)


def _read_call(call: ToolInvocation, blobs: BlobStore, read: dict[str, None]) -> str:
    use = read_tool_use(call.tool, _load(call.arguments, blobs))
    if use.family == "read":
        read.update(dict.fromkeys(use.paths))
    for text in use.commands:
        accesses = find_file_accesses(parse_shell(text))
        read.update(dict.fromkeys(access.path for access in accesses if access.kind == "read"))
    return _cut(" ".join((call.tool, *use.commands, *use.paths)))


def _load(body: Body, blobs: BlobStore) -> bytes:
    try:
        return body.load(blobs)
    except EvidenceError:
        return b""


def _cut(text: str) -> str:
    return neutralize(" ".join(text.split()), max_characters=_MOST_CHARACTERS)
