"""Every "why" points at event, stream and byte range, and those very lines can be opened (S5, Q11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial.score import ScoreCard, StreamPointer, build_score_card, load_evidence, read_lines
from repotrial.trace import Failed, LogPointer, RunPaths
from support.score_runs import BUILD, CHECKS, FAILED, PASSED, SAFETY, UNIT, ScoreRun, build_contract

PYTEST = b"""\
F.                                                             [100%]
=========== FAILURES ===========
____________ test_a ____________

    def test_a():
>       assert width("x") == 2
E       assert 1 == 2
E        +  where 1 = width('x')

test_it.py:3: AssertionError
=========== short test summary info ===========
FAILED test_it.py::test_a
1 failed, 1 passed in 0.01s
"""


def judge(root: Path, output: bytes, *, outcome: Failed | None = FAILED, rules: int = 3) -> ScoreCard:
    run = ScoreRun(root, build_contract(CHECKS), completeness_rules=rules)
    run.end_acting()
    run.apply()
    run.check(BUILD, PASSED, output=b"")
    run.check(UNIT, outcome or PASSED, output=output)
    run.check(SAFETY, PASSED, output=b"")
    return build_score_card(load_evidence(run.finish()))


def lines_of(card: ScoreCard, gate: int) -> list[StreamPointer]:
    return [pointer for pointer in card.gates[gate].evidence if isinstance(pointer, StreamPointer)]


def open_lines(root: Path, card: ScoreCard, gate: int) -> list[str]:
    return [quote.text for quote in read_lines(RunPaths(root), lines_of(card, gate))]


def test_a_failed_gate_points_at_the_bytes_that_tell_of_the_failure(tmp_path: Path) -> None:
    card = judge(tmp_path / "run", PYTEST)
    (pointer,) = lines_of(card, 2)
    start = PYTEST.index(b"E       assert")
    assert (pointer.stream, pointer.offset_bytes) == ("stdout", start)
    assert (
        PYTEST[start:][: pointer.length_bytes] == b"E       assert 1 == 2\nE        +  where 1 = width('x')\n"
    )
    assert pointer.command == ("sh", "-c", "run")
    (quote,) = read_lines(RunPaths(tmp_path / "run"), [pointer])
    assert (quote.text.encode(), quote.line) == (PYTEST[start:][: pointer.length_bytes], 7)


def test_a_tag_points_at_the_same_lines_as_its_gate(tmp_path: Path) -> None:
    card = judge(tmp_path / "run", PYTEST)
    (tag,) = [tag for tag in card.tags if tag.id == "acceptance-failure"]
    assert set(lines_of(card, 2)) <= set(tag.evidence)


def test_a_passed_gate_points_at_the_summary(tmp_path: Path) -> None:
    card = judge(tmp_path / "run", b"..\n2 passed in 0.01s\n", outcome=None)
    assert open_lines(tmp_path / "run", card, 2) == ["2 passed in 0.01s"]


def test_a_runner_without_words_about_tests_is_quoted_from_its_end(tmp_path: Path) -> None:
    card = judge(tmp_path / "run", b"".join(b"line %d\n" % n for n in range(100)))
    (text,) = open_lines(tmp_path / "run", card, 2)
    assert text.splitlines() == [f"line {n}" for n in range(92, 100)]


ENTRY = '<testcase name="test_a"><failure>1</failure></testcase>'


def judge_results(root: Path) -> ScoreCard:
    run = ScoreRun(root, build_contract((UNIT,)), completeness_rules=3)
    run.end_acting()
    run.apply()
    blob = run.builder.writer.blob(f'<testsuite><testcase name="test_0"/>{ENTRY}</testsuite>'.encode())
    assert blob is not None
    run.check(UNIT, FAILED, output=b"", logs=(LogPointer(name="junit.xml", blob=blob),))
    return build_score_card(load_evidence(run.finish()))


def test_results_in_one_long_line_are_quoted_by_their_entry(tmp_path: Path) -> None:
    card = judge_results(tmp_path / "run")
    assert open_lines(tmp_path / "run", card, 2) == [ENTRY]


def test_lines_that_are_lost_are_said_to_be(tmp_path: Path) -> None:
    root = tmp_path / "run"
    card = judge_results(root)
    for blob in [path for path in (root / "blobs").rglob("*") if path.is_file()]:
        blob.unlink()
    (quote,) = read_lines(RunPaths(root), lines_of(card, 2))
    assert not quote.text
    assert "expected a blob" in quote.lost


@pytest.mark.parametrize(
    ("line", "kind", "name"),
    [
        (b"ModuleNotFoundError: No module named 'lxml.etree'", "module", "lxml.etree"),
        (b"Error: Cannot find module '@babel/core'", "module", "@babel/core"),
        (b"error[E0432]: unresolved import `serde`", "module", "serde"),
        (b"wrap.c:1:10: fatal error: zlib.h: No such file or directory", "module", "zlib.h"),
        (b"ERROR: No matching distribution found for colour-magic", "package", "colour-magic"),
        (b"error: no matching package named `rand9` found", "package", "rand9"),
        (b"sh: 1: cmake: not found", "command", "cmake"),
        (b"bash: line 1: ninja: command not found", "command", "ninja"),
        (b"/usr/bin/env: 'node': No such file or directory", "command", "node"),
        (b"ERROR: Could not find a version that satisfies the requirement attrs>=99", "version", "attrs>=99"),
        (b"requires a different Python: 3.8.1 not in '>=3.11'", "version", "3.8.1 not in '>=3.11"),
        (b"libc.so.6: version `GLIBC_2.38' not found", "version", "GLIBC_2.38"),
    ],
)
def test_a_line_that_names_what_is_missing_is_a_fragment_of_gate_2(
    line: bytes, kind: str, name: str, tmp_path: Path
) -> None:
    card = judge(tmp_path / "run", b"before\n" + line + b"\nafter\n")
    (pointer,) = lines_of(card, 1)
    assert [(each.kind, each.name.rstrip("'")) for each in pointer.missing] == [(kind, name)]
    assert open_lines(tmp_path / "run", card, 1) == [line.decode()]
    assert card.gates[1].outcome == "passed"  # it decides nothing
    assert any(f"the {kind} {name}" in why for why in card.gates[1].why)


def test_what_a_passing_check_prints_names_nothing_missing(tmp_path: Path) -> None:
    card = judge(tmp_path / "run", b"sh: 1: cmake: not found\n2 passed\n", outcome=None)
    assert not lines_of(card, 1)


def test_a_crowd_of_lines_is_bounded(tmp_path: Path) -> None:
    output = b"".join(b"No module named 'm%d'\n" % n for n in range(5000)) + b"x" * 1_000_000
    card = judge(tmp_path / "run", output)
    assert len(lines_of(card, 1)) <= 10
    assert all(pointer.length_bytes <= 2000 for gate in range(4) for pointer in lines_of(card, gate))


def test_a_run_of_earlier_rules_keeps_its_documents(tmp_path: Path) -> None:
    card = judge(tmp_path / "run", PYTEST, rules=2)
    assert not any(lines_of(card, gate) for gate in range(4))
