"""Tables: whole in files and pipes, folded where a terminal is too narrow for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.cli._output import _fold, print_table
from repotrial.cli._run_compare import _shorten_sides
from support.command_line import Ended, call, converse, without_our_styles
from support.score_runs import write_run

WIDTHS = st.lists(st.integers(0, 60), min_size=1, max_size=12)


class Page:
    """A screen that keeps its lines."""

    def __init__(self, width: int | None) -> None:
        self.lines: list[str] = []
        self.is_terminal = width is not None
        self.width = width or 0

    def line(self, *parts: str | tuple[str, str]) -> None:
        self.lines.append("".join(part if isinstance(part, str) else part[0] for part in parts))


def draw(width: int | None, header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    page = Page(width)
    print_table(page, header, rows)  # type: ignore[arg-type]  # all that a table needs of a screen
    return page.lines


@given(WIDTHS, st.integers(1, 200))
def test_folding_loses_no_column_and_fits_where_it_can(widths: list[int], room: int) -> None:
    lines = _fold(widths, room)
    assert [place for line in lines for place in line] == list(range(len(widths)))
    for number, line in enumerate(lines):
        used = (4 if number else 0) + sum(widths[place] for place in line) + 2 * (len(line) - 1)
        assert used <= room or len(line) == 1


def test_a_pipe_gets_every_row_on_one_line() -> None:
    assert draw(None, ("a", "b"), [["x" * 90, "y" * 90]]) == [
        f"a{' ' * 91}b",
        f"{'x' * 90}  {'y' * 90}",
    ]


def test_a_narrow_terminal_gets_the_last_columns_below() -> None:
    assert draw(20, ("contract", "agent", "directory"), [["one", "pi", "runs/one-pi-r0"]]) == [
        "contract  agent",
        "    directory",
        "one       pi",
        "    runs/one-pi-r0",
    ]


def test_long_values_are_shown_from_where_they_differ() -> None:
    shared = "the same words over and over again, " * 5
    one, other = _shorten_sides(shared + "left", shared + "right")
    assert one.endswith("left")
    assert other.endswith("right")
    assert one.startswith("…")
    assert max(len(one), len(other)) <= 62
    assert _shorten_sides("short", "null") == ("short", "null")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        write_run(tmp_path / "runs" / name, run_id=name)
    (tmp_path / "runs" / "ledger.jsonl").write_text("")
    return tmp_path / "runs"


def _call_all(capsys: pytest.CaptureFixture[str], verb: str, *words: str | Path) -> Ended:
    return call(capsys, "run", verb, *words)


@pytest.mark.parametrize("verb", ["score", "cost", "recompute"])
def test_a_directory_of_runs_stands_for_its_runs(
    verb: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = _call_all(capsys, verb, runs, "--json")
    single = _call_all(capsys, verb, runs / "one", runs / "two", "--json")
    assert (whole.status, whole.out) == (single.status, single.out)


def test_what_lies_beside_runs_is_no_error_of_a_glob(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = sorted(runs.iterdir())
    assert runs / "ledger.jsonl" in named
    assert call(capsys, "run", "verify", *named, "--integrity-only").err == ""
    assert call(capsys, "run", "verify", runs / "ledger.jsonl").status == 2, "named alone, it is a mistake"


def test_costs_of_several_runs_are_one_table_with_a_sum_and_a_way_on(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "run", "cost", runs)
    header, *rows, total, fix = ended.out.splitlines()
    assert header.replace("answered by", "who").split() == [
        "run",
        "who",
        "exchanges",
        "models",
        "execution",
        "people",
        "overhead",
        "total",
        "notes",
    ]
    assert [row.split()[0] for row in rows] == ["one", "two"]
    assert total.startswith("in all")
    assert fix.startswith("fix: ")
    assert "--prices" in fix


def test_a_summary_says_what_it_took_and_what_went_wrong(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "run", "summary", runs)
    assert ended.status == 0
    assert "bar, 0 to 100 %" in ended.out
    lines = ended.out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("what it took"))
    assert lines[place + 1].split("  ")[0] == "agent"
    assert lines[place + 2].split()[1:5] == ["-", "-", "-", "-"], "nothing is stated, and nothing made up"


def test_long_paths_do_not_fold_a_comparison(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / ("a" * 60) / name) for name in ("one", "other")]
    said = without_our_styles(converse("run", "compare", *runs, columns=80).out)
    assert ["status", "success", "success"] in [line.split() for line in said.splitlines()]
    assert f"one    {runs[0]}" in said
