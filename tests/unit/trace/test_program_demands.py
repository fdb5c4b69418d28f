"""What a record must hold of programs, and of a change that was handed in (P15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial._core.digest import digest_bytes
from repotrial.trace import (
    ChangeTaken,
    EndCommand,
    ExitUnknown,
    FoldedPrograms,
    Holds,
    Intervention,
    OnAlert,
    ProgramEnd,
    ProgramsFolded,
    ProgramStart,
    TestIds,
    TimedOut,
    ToolInvocation,
    WitnessCounts,
    WitnessReport,
    check_run,
)
from support.run_directories import RunBuilder

_LEFT_OUT = frozenset({"program-start", "program-end", "programs-folded", "witness-start"})


def _list_findings(builder: RunBuilder) -> str:
    builder.writer.close()
    verdict = check_run(builder.paths, trusted_keys=None).completeness
    return "" if isinstance(verdict, Holds) else "\n".join(finding.text for finding in verdict.findings)


def _write(root: Path, *, without: str = "", rules: int = 3) -> str:
    """A witness with one program that is told and two that are counted."""
    builder = RunBuilder(root, completeness_rules=rules)
    builder.enter("act")
    witness = builder.writer.last_seq
    if without != "witness-start":
        witness = builder.add(WitnessReport(moment="start", phase="act", sees=(), blind=())).seq
    if without != "program-start":
        builder.writer.append(_build_start(witness), actor="agent")
    if without != "program-end":
        builder.writer.append(_build_end(witness, ExitUnknown(reason="unseen")), actor="agent")
    if without != "programs-folded":
        group = FoldedPrograms(
            exe="/bin/true", command=1, started=2, ended=2, failed=0, wall_us=1, cpu_us=1, from_us=1, to_us=2
        )
        builder.writer.append(ProgramsFolded(witness=witness, groups=(group,)), actor="agent")
    counts = WitnessCounts(started=3, ended=3, folded=2, told=1, told_ends=1)
    builder.add(WitnessReport(moment="end", phase="act", witness=witness, sees=(), blind=(), counts=counts))
    return _list_findings(builder)


def _build_start(witness: int) -> ProgramStart:
    return ProgramStart(
        witness=witness, phase="act", number=1, parent=None, command=1, argv=("sleep", "25"), path="sleep",
        exe="/bin/sleep", cwd="/", pid=7, started_at_us=1, confirmed=True,
    )  # fmt: skip


def _build_end(witness: int, ending: ExitUnknown | TimedOut) -> ProgramEnd:
    return ProgramEnd(witness=witness, number=1, exit=ending, ended_at_us=9, wall_us=8)


@pytest.mark.parametrize("left_out", sorted(_LEFT_OUT))
def test_a_kind_of_event_that_the_witness_counted_is_missed_by_name(left_out: str, tmp_path: Path) -> None:
    words = {
        "program-start": "expected program-start of 1 program(s), as the witness counted, found 0",
        "program-end": "expected program-end of 1 program(s), as the witness counted, found 0",
        "programs-folded": "expected programs-folded of 2 program(s), as the witness counted, found 0",
        "witness-start": "expected witness-report at the start of what a witness reports the end of",
    }
    assert words[left_out] in _write(tmp_path / "run", without=left_out)


def test_all_that_was_counted_is_enough(tmp_path: Path) -> None:
    assert "witness" not in _write(tmp_path / "run")


@pytest.mark.parametrize("left_out", sorted(_LEFT_OUT))
def test_runs_of_earlier_rules_undertook_no_such_thing(left_out: str, tmp_path: Path) -> None:
    assert "witness" not in _write(tmp_path / "run", without=left_out, rules=2)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_command_that_ended_at_its_ceiling_was_ended_by_somebody(is_told: bool, tmp_path: Path) -> None:  # noqa: FBT001 -- a table
    builder = RunBuilder(tmp_path / "run", completeness_rules=3)
    builder.enter("act")
    witness = builder.add(WitnessReport(moment="start", phase="act", sees=(), blind=())).seq
    builder.writer.append(_build_start(witness), actor="agent")
    builder.writer.append(_build_end(witness, TimedOut(ceiling_us=5)), actor="agent")
    if is_told:
        alert = builder.alert().seq
        builder.add(Intervention(action=EndCommand(command=1), basis=OnAlert(alert=alert), effective=True))
    found = _list_findings(builder)
    assert ("an intervention that ended command 1 at its ceiling" not in found) is is_told


@pytest.mark.parametrize(
    ("taken", "restated_from", "holds"),
    [(b"patch", None, True), (b"another", None, False), (b"as git wrote it", b"patch", True)],
)
def test_a_change_that_was_handed_in_is_the_one_that_is_judged(
    taken: bytes,
    restated_from: bytes | None,
    holds: bool,  # noqa: FBT001 -- a table
    tmp_path: Path,
) -> None:
    builder = RunBuilder(tmp_path / "run", completeness_rules=3)
    builder.enter("act")
    call = ToolInvocation(
        tool="hand-in",
        source="sandbox",
        arguments=builder.writer.body(b"patch"),
        exit=ExitUnknown(reason="no program ran"),
        started_at_us=1,
        wall_us=0,
    )
    builder.writer.append(call, actor="agent")
    seq = builder.writer.last_seq
    builder.add(
        ChangeTaken(
            patch_digest=digest_bytes(taken),
            patch_bytes=len(taken),
            handed_in=seq,
            restated_from=None if restated_from is None else digest_bytes(restated_from),
            left_out=TestIds.build([]),
        )
    )
    builder.enter("accept")
    builder.paths.change.write_bytes(taken)
    text = "expected the change that was taken to be what was handed in, found another"
    assert (text not in _list_findings(builder)) is holds
