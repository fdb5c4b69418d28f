"""A summary as a page: complete, closed to whatever a run wrote, and the same each time."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from repotrial._core.absence import NotComputable
from repotrial.analysis import CollectedSummary, summarize_runs
from repotrial.api import write_summary_page
from repotrial.report import build_summary_page
from support.command_line import call
from support.errors import raises_code
from support.score_runs import FAILED, write_run

HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "runs" / "good", run_id="good")
    write_run(tmp_path / "runs" / "bad", {"unit": FAILED}, run_id="bad")
    return tmp_path / "runs"


def build_summary(runs: Path, text: str = "pi") -> CollectedSummary:
    """Two agents, one of them without a run, and 501 failures; everything that a run can name is `text`."""
    name = next(iter(summarize_runs(runs).entries))
    summary, entries = summarize_runs(runs, compare=(name, name))
    change = msgspec.structs.replace
    (agent,), (entry, *_) = summary.agents, entries[name]
    assert summary.paired is not None
    agents = (
        change(agent, agent=text, upstream=f"script {text}", effort=change(agent.effort, tags={text: 1})),
        change(agent, agent="other", rate=NotComputable("no runs")),
    )
    failure = change(entry, contract=text, status="failure", tags=(text,), why=text, directory=text)
    success = change(failure, status="success")
    paired = change(summary.paired, one=text, other="other")
    return CollectedSummary(
        change(summary, directory=text, agents=agents, paired=paired),
        {text: (success, *[failure] * 501), "other": ()},
    )


def test_the_same_summary_gives_the_same_page_with_every_part(runs: Path) -> None:
    page = build_summary_page(build_summary(runs))
    assert page == build_summary_page(build_summary(runs))
    for part in ("rates", "effort", "difference", "contracts", "failures", "remarks"):
        assert f'<section id="{part}">' in page
    assert "1 of 502" in page
    assert "not tried" in page
    assert "not computable (no runs)" in page
    assert "and 1 more" in page, "what is cut is said"
    assert "<script" not in page


def test_names_of_runs_get_no_power_over_the_page(runs: Path) -> None:
    page = build_summary_page(build_summary(runs, HOSTILE))
    assert "<script" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("success", "failed", "style"), [(2, 0, "good"), (1, 1, "open"), (0, 2, "bad"), (0, 0, None)]
)
def test_a_cell_is_colored_by_what_it_says(runs: Path, success: int, failed: int, style: str | None) -> None:
    collected = build_summary(runs)
    good, bad, *_ = collected.entries["pi"]
    page = build_summary_page(
        collected._replace(entries={"pi": (good,) * success + (bad,) * failed, "other": (good,)})
    )
    cell = f'<td><span class="tag {style}">{success} of {success + failed}</span></td>'
    assert (cell if style else '<td><span class="soft">not tried</span></td>') in page


def test_a_figure_has_one_heading_in_the_table_and_on_the_page(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    shown = call(capsys, "run", "summary", runs, "--page", page).out
    (header,) = (line for line in shown.splitlines() if line.startswith("agent") and "answered by" in line)
    section = page.read_text(encoding="utf-8").partition('<section id="effort">')[2].partition("</thead>")[0]
    headings = re.findall("<th>(.*?)</th>", section)
    assert len(headings) == 9
    assert header.split() == " ".join(headings).split()


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
    with raises_code("page-write", match="taken"):
        write_summary_page(summarize_runs(runs), tmp_path / "taken")
    ended = call(capsys, "run", "summary", runs, "--page", tmp_path / "taken")
    assert ended.status == 3
    assert "fix: name another file" in ended.err
