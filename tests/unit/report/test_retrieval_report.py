from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import msgspec
import pytest

from repotrial._core.digest import digest_file
from repotrial.report import build_retrieval_page, render_retrieval_csv, render_retrieval_markdown
from repotrial.report._retrieval_figures import draw_figures
from repotrial.report.figures.canvas import Figure
from repotrial.retrieval import (
    ComparisonOptions,
    RetrievalReport,
    SupplementOptions,
    build_retrieval_report,
    load_study,
)
from support.pages import Page, read_report
from support.retrieval_studies import NOW, TrialPlan, plan_example, refuse_to_judge, write_runs

FULL = SupplementOptions(has_columns=True, least_recall=0.5, has_flags=True)
HOSTILE = '<script>alert(1)</script>|`x`[a](b)"$\\frac$&\u202e'


def build(run: Path, supplements: SupplementOptions | None = None) -> RetrievalReport:
    study = load_study([run], judge=refuse_to_judge, has_progress=True)
    plain = ComparisonOptions(generated_at=NOW)
    statistics = msgspec.structs.replace(plain.statistics, draws=200, rearrangements=400)
    options = msgspec.structs.replace(plain, statistics=statistics)
    return build_retrieval_report(study, options, supplements or SupplementOptions())


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> RetrievalReport:
    return build(write_runs(tmp_path_factory.mktemp("runs"), plan_example(tasks=8)), FULL)


def write_small(root: Path) -> Path:
    return write_runs(
        root,
        [
            TrialPlan(config="baseline", task="a", met=("x.py", "src/a.py", "src/b.py"), reward=1.0),
            TrialPlan(config="baseline", task="b", met=("src/a.py",), reward=0.0),
            TrialPlan(config="baseline", task="c", met=(), reward=0.5),
            TrialPlan(config="baseline", task="d", relevant=()),
        ],
    )


def test_the_text_begins_with_what_there_is(tmp_path: Path) -> None:
    text = render_retrieval_markdown(build(write_small(tmp_path)))
    assert text.startswith(
        """\
# Retrieval evaluation

Generated: 2026-03-01T13:00:00Z.

## Coverage

Ranking rule: reads: files that were only written do not count as retrieved.

Intervals are at 95%; tasks are the sampling units.

- **baseline**: trials 4; tasks 4; computable 2; degraded 1; without ground truth 1; with a reward
  4; without an outcome 0

Degraded: nothing was seen of the run. Only computable trials enter retrieval figures.

## What was found

### baseline

- **file_recall**: mean 0.7500; interval 0.5000 to 1.0000; median 0.7500; std 0.3536; trials 2;
  tasks 2; method cluster-bootstrap-bca
- **mrr**: mean 0.7500; interval 0.5000 to 1.0000; median 0.7500; std 0.3536; trials 2; tasks 2;
  method cluster-bootstrap-bca
"""
    )
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == [
        "Coverage",
        "What was found",
        "Whether it was used",
        "What went wrong",
        "What retrieval goes along with (association only)",
        "Matched comparisons",
        "Caveats",
        "Sources",
    ]
    assert "There is only one configuration: nothing to compare." in text
    assert "not computable (needs at least 5 tasks, found 2)" in text
    assert "never enter a verdict" in text


def test_every_source_stands_with_its_digest(tmp_path: Path) -> None:
    run = write_small(tmp_path)
    report = build(run)
    text = render_retrieval_markdown(report)
    for row in report.trials:
        digest = digest_file(run.parent / row.artefact.file)
        assert f"| {row.artefact.file} | {digest} |" in text


def test_long_form_has_one_row_for_each_figure(tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(render_retrieval_csv(build(write_small(tmp_path))))))
    trial = {row["quantity"]: row["value"] for row in rows if (row["section"], row["task"]) == ("trial", "a")}
    assert trial["reward"] == "1.0"
    assert trial["file_recall"] == "1.0"
    assert trial["mrr"] == "0.5"
    assert trial["precision@3"] == "0.6667"
    assert trial["ttfr_seconds"] == "20.0"
    (gap,) = [row for row in rows if (row["section"], row["task"], row["reason"]) > ("trial", "c", "")][:1]
    assert (gap["quantity"], gap["reason"]) == ("measures", "degraded: nothing was recorded")
    (mean,) = [row for row in rows if (row["section"], row["quantity"]) == ("mean", "file_recall")]
    assert (mean["value"], mean["n_tasks"], mean["method"]) == ("0.75", "2", "cluster-bootstrap-bca")


@pytest.fixture(scope="module")
def html(example: RetrievalReport) -> str:
    return build_retrieval_page(example)


@pytest.fixture(scope="module")
def pictures(example: RetrievalReport) -> tuple[Figure, ...]:
    return draw_figures(example)


def test_all_forms_are_the_same_for_the_same_files(
    tmp_path: Path, example: RetrievalReport, html: str, pictures: tuple[Figure, ...]
) -> None:
    again = build(write_runs(tmp_path, plan_example(tasks=8)), FULL)
    assert again == example
    assert render_retrieval_markdown(again) == render_retrieval_markdown(example)
    assert render_retrieval_csv(again) == render_retrieval_csv(example)
    assert all(picture.svg in html for picture in pictures), "drawn again for the page"


def test_the_page_holds_everything_and_asks_for_nothing(html: str) -> None:
    page = Page(html)
    assert not page.unbalanced
    assert len(set(page.ids)) == len(page.ids)
    read_report(html)
    assert page.elements.isdisjoint({"link", "img", "iframe", "object", "foreignobject", "image"})
    assert not any(name.startswith("on") or name == "src" for name in page.attributes)
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids), "every link leads into the page"
    assert all(match.startswith("url(#") for match in re.findall(r"url\(.", html))
    assert "default-src 'none'" in html
    titles = ("Rank of the first hit", "Recall over steps", "Precision and recall by configuration")
    for title in (
        *titles,
        "Where time went",
        "Where tokens went",
        "file_recall: mcp-remote less baseline-local",
    ):
        assert title in page.text
    assert page.text.index("Coverage") < page.text.index("Rank of the first hit")


def test_every_figure_says_in_words_what_it_shows_and_where_it_comes_from(
    pictures: tuple[Figure, ...],
) -> None:
    assert [picture.name for picture in pictures] == [
        "first-hit",
        "recall",
        "tradeoff",
        "spending-seconds",
        "spending-tokens",
        "deltas-1-reward",
        "deltas-1-file-recall",
    ]
    for picture in pictures:
        assert f'aria-labelledby="{picture.name}-title {picture.name}-words"' in picture.svg
        assert "mcp-remote" in picture.words or "of 8" in picture.words
        assert len(picture.rows) >= 2
        assert picture.sources
        assert picture.digest.startswith("sha256:")
        assert "<style" not in picture.svg


def test_names_from_files_stay_text_in_every_form(tmp_path: Path) -> None:
    # A slash would be a directory.
    name = HOSTILE.replace("/", "\\")
    plans = [TrialPlan(config=config, task=f"{name} {n}") for config in ("=1+1", "b") for n in range(5)]
    report = build(write_runs(tmp_path, plans), FULL)
    html = build_retrieval_page(report)
    page = Page(html)
    read_report(html)
    assert not page.unbalanced
    assert "\u202e" not in html
    text = render_retrieval_markdown(report)
    assert "<script" not in text
    assert "\u202e" not in text
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if "alert" in line}
    assert len(widths) <= 3, "no name ends a cell early"
    rows = list(csv.reader(io.StringIO(render_retrieval_csv(report))))
    assert len({len(row) for row in rows}) == 1
    assert not any(cell.startswith("=") for row in rows for cell in row)


def test_conditioned_views_and_flags_by_hand(tmp_path: Path) -> None:
    plans = [
        TrialPlan(config="baseline", task="a", met=("src/a.py", "src/b.py"), reward=1.0),
        TrialPlan(config="baseline", task="b", met=("src/a.py",), reward=0.5, confidence="low"),
        TrialPlan(config="baseline", task="c", met=("x.py",), reward=0.0, category="deep_search"),
        TrialPlan(config="baseline", task="d", relevant=("src/a.py",), category="deep_search"),
        TrialPlan(
            config="baseline",
            task="e",
            reward=None,
            relevant=("one/x::a.py", "one/x::b.py", "two/y::a.py"),
            met=("one/x::a.py", "one/x::b.py", "a.py"),
        ),
    ]
    report = build(write_runs(tmp_path, plans), FULL)
    (view,) = report.conditioned
    assert (view.n_found, view.n_other) == (3, 1)
    assert getattr(view.found, "value", None) == pytest.approx((1 + 0.5 + 1) / 3)
    assert getattr(view.other, "value", None) == 0.0
    rows = {row.task: row for row in report.trials}
    assert rows["a"].flags == ()
    assert rows["b"].flags == ("ground truth of low confidence",)
    assert rows["d"].flags == ("one file of ground truth: every measure is all or nothing",)
    assert rows["c"].supplementary == {"n_events": 1, "deep_searches": 1, "deep_search_hit_share": 0.0}
    assert rows["d"].supplementary["deep_search_hit_share"] == 1.0
    assert "deep_search_hit_share" not in rows["a"].supplementary
    assert rows["e"].supplementary["oracle_coverage"] == pytest.approx(2 / 3)
    assert rows["e"].supplementary["oracle_repository_coverage"] == 0.5
    text = render_retrieval_markdown(report)
    assert "## Rewards by what was found" in text
    assert "## Trials" in text


def test_a_study_of_which_nothing_was_seen_still_has_a_report(tmp_path: Path) -> None:
    report = build(write_runs(tmp_path, [TrialPlan(config="baseline", task="a", met=())]))
    assert draw_figures(report) == ()
    html = build_retrieval_page(report)
    assert "Figures" not in Page(html).text
    assert "No data." in html


def test_figures_that_nobody_can_have_measured_break_nothing(tmp_path: Path) -> None:
    run = write_runs(tmp_path, [TrialPlan(config="baseline", task=task) for task in "ab"])
    for file in run.glob("retrieval_events/*/a.*"):
        text = re.sub(
            r'"(ttfr_seconds|elapsed_seconds|cumulative_tokens)": ?[\d.]+',
            rf'"\1":{10**400}',
            file.read_text(),
        )
        assert str(10**400) in text
        file.write_text(text)
    report = build(run, FULL)
    assert "ttfr_seconds" not in report.trials[0].values
    assert "Where time went" in build_retrieval_page(report)
