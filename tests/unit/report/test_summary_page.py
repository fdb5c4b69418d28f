"""A summary as a page: complete, closed to whatever a run wrote, and the same each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial._core.absence import NotComputable
from repotrial.api import PageWriteError, write_summary_page
from repotrial.report import (
    SummaryAgent,
    SummaryCell,
    SummaryFailure,
    SummaryRate,
    SummaryView,
    build_summary_page,
)
from support.command_line import call
from support.score_runs import FAILED, write_run

HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"


def build_view(text: str = "pi") -> SummaryView:
    rate = SummaryRate(value=1.0, low=0.5, high=1.0, words="95 % interval 50% to 100%")
    agents = tuple(
        SummaryAgent(
            name=name,
            answered_by=text,
            attempted=2,
            success=1,
            failure=1,
            error=0,
            invalid=0,
            rate=found,
            effort=("1.00 USD", "0.50 USD", "1.00 USD", "9", "4.0", "2.4 s", text),
        )
        for name, found in ((text, rate), ("other", NotComputable("no runs")))
    )
    failure = SummaryFailure(
        contract=text, agent=text, replicate="0", status="failure", tags=text, why=text, directory=text
    )
    return SummaryView(
        directory=text,
        runs=4,
        agents=agents,
        columns=(text, "other"),
        matrix=((text, (SummaryCell(success=1, attempted=2), SummaryCell(success=0, attempted=0))),),
        difference=(f"{text} less other", "+50.0%"),
        failures=(failure,) * 501,
        remarks=(text,),
    )


def test_the_same_summary_gives_the_same_page_with_every_part() -> None:
    page = build_summary_page(build_view())
    assert page == build_summary_page(build_view())
    for part in ("rates", "effort", "difference", "contracts", "failures", "remarks"):
        assert f'<section id="{part}">' in page
    assert "1 of 2" in page
    assert "not tried" in page
    assert "not computable (no runs)" in page
    assert "and 1 more" in page, "what is cut is said"
    assert "<script" not in page


def test_names_of_runs_get_no_power_over_the_page() -> None:
    page = build_summary_page(build_view(HOSTILE))
    assert "<script" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("success", "attempted", "style"), [(2, 2, "good"), (1, 2, "open"), (0, 2, "bad"), (0, 0, "")]
)
def test_a_cell_is_colored_by_what_it_says(success: int, attempted: int, style: str) -> None:
    assert SummaryCell(success=success, attempted=attempted).style == style


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "runs" / "good", run_id="good")
    write_run(tmp_path / "runs" / "bad", {"unit": FAILED}, run_id="bad")
    return tmp_path / "runs"


def test_a_summary_is_printed_and_written_as_a_page(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "sub" / "page.html"
    ended = call(capsys, "run", "summary", runs, "--page", page)
    assert (ended.status, ended.out.splitlines()[-1]) == (0, f"page: {page}")
    text = page.read_text(encoding="utf-8")
    assert "Agents on trial: 2 runs on 1 contract<" in text
    assert "1 of 2 runs" in text
    assert call(capsys, "run", "summary", runs).out == ended.out.removesuffix(f"page: {page}\n")


def test_a_page_that_cannot_be_written_is_told(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(PageWriteError, match="taken"):
        write_summary_page(runs, tmp_path / "taken")
    ended = call(capsys, "run", "summary", runs, "--page", tmp_path / "taken")
    assert ended.status == 3
    assert "fix: name another file" in ended.err
