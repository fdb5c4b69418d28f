"""A table of trials: figures by SciPy and statsmodels, ties, narrow input, and every bad line at once."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import jsonschema
import msgspec
import numpy as np
import pytest
from scipy import stats

from repotrial import api
from repotrial._core.absence import NotComputable
from repotrial._core.errors import ContractError, UsageError
from repotrial.analysis import Analysis, analyze_trials, read_trials
from support.trial_tables import HEADER, draw_trials, write_table

_Row = tuple[str, str, int, str, float, float]


def _read(path: Path) -> Analysis:
    return analyze_trials(read_trials(path))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "trials.csv"


def _analyze(table: Path, rows: list[_Row]) -> Analysis:
    return _read(write_table(table, rows))


def _means(rows: list[_Row], arm: str) -> dict[str, float]:
    tasks = sorted({row[0] for row in rows})
    return {
        task: float(np.mean([row[3] == "success" for row in rows if row[:2] == (task, arm)]))
        for task in tasks
    }


def test_rates_and_their_errors_are_those_of_statsmodels(table: Path) -> None:
    import statsmodels.api as sm

    rows = draw_trials({"a": 1.0, "b": 0.0})
    found = _analyze(table, rows)
    assert [arm.name for arm in found.arms] == ["a", "b"]
    for arm in found.arms:
        own = [row for row in rows if row[1] == arm.name]
        y = np.array([row[3] == "success" for row in own], dtype=float)
        groups = np.array([int(row[0][1:]) for row in own])
        fit = sm.OLS(y, np.ones(len(y))).fit(cov_type="cluster", cov_kwds={"groups": groups})
        assert arm.rate.estimate == pytest.approx(float(fit.params[0]))
        assert arm.rate.standard_error == pytest.approx(float(fit.bse[0]))
        assert (arm.tasks, arm.trials, arm.successes) == (40, 120, int(y.sum()))


def test_differences_are_the_paired_t_of_scipy_and_holm_is_that_of_statsmodels(table: Path) -> None:
    from statsmodels.stats.multitest import multipletests

    rows = draw_trials({"a": 1.2, "b": 0.6, "c": 0.0})
    found = _analyze(table, rows)
    known = []
    for contrast in found.contrasts:
        first, second = ([*_means(rows, arm).values()] for arm in (contrast.first, contrast.second))
        test = stats.ttest_rel(first, second)
        known.append(float(test.pvalue))
        assert contrast.difference == pytest.approx(np.mean(first) - np.mean(second))
        assert contrast.p == pytest.approx(float(test.pvalue))
        for level, ends in (
            (0.95, (contrast.low, contrast.high)),
            (1 - 0.05 / 3, (contrast.low_family, contrast.high_family)),
        ):
            interval = test.confidence_interval(level)
            assert ends == pytest.approx((float(interval.low), float(interval.high)))
        assert contrast.difference_in_tasks == pytest.approx(40 * (np.mean(first) - np.mean(second)))
    adjusted = multipletests(known, method="holm")[1]
    assert [contrast.p_holm for contrast in found.contrasts] == pytest.approx(adjusted.tolist())


def test_a_known_difference_is_found_and_a_null_difference_is_not(table: Path) -> None:
    found = _analyze(table, draw_trials({"good": 2.0, "same-1": -0.5, "same-2": -0.5}, tasks=60))
    apart = {frozenset((one.first, one.second)): one.is_told_apart for one in found.contrasts}
    assert apart == {
        frozenset(("good", "same-1")): True,
        frozenset(("good", "same-2")): True,
        frozenset(("same-1", "same-2")): False,
    }
    (group,) = found.tied
    assert set(group.arms) == {"same-1", "same-2"}
    assert group.sentence == f"{group.arms[0]} and {group.arms[1]} cannot be told apart here."
    sentence = next(one.sentence for one in found.contrasts if one.is_told_apart)
    assert "good is better than" in sentence
    assert "tasks" in sentence


def test_tied_groups_overlap_where_ties_are_not_transitive(table: Path) -> None:
    found = _analyze(table, draw_trials({"a": 0.5, "b": 0.0, "c": -0.5}, tasks=24))
    pairs = {(one.first, one.second): one.is_told_apart for one in found.contrasts}
    assert pairs == {("a", "b"): False, ("b", "c"): False, ("a", "c"): True}
    assert [group.arms for group in found.tied] == [("a", "b"), ("b", "c")]


def test_errors_and_invalid_trials_count_0_and_are_counted_apart(table: Path) -> None:
    outcomes = ["success", "failure", "error", "invalid", "success"]
    rows = [(f"t{place}", "a", 0, outcome, 1.0, 2.0) for place, outcome in enumerate(outcomes)]
    (arm,) = _analyze(table, rows).arms
    assert (arm.successes, arm.failures, arm.errors, arm.invalid) == (2, 1, 1, 1)
    assert arm.rate.estimate == pytest.approx(2 / 5)
    assert not isinstance(arm.scorable_rate, NotComputable)
    assert arm.scorable_rate.estimate == pytest.approx(2 / 4)


def test_costs_and_times_by_outcome(table: Path) -> None:
    rows = [
        (f"t{task}", "a", 0, "success" if task < 3 else "failure", float(task), 10.0 * task)
        for task in range(9)
    ]
    (arm,) = _analyze(table, rows).arms
    spread = {one.outcome: one for one in arm.cost_usd}
    assert set(spread) == {"all", "success", "failure"}
    assert (spread["all"].median, spread["all"].maximum, spread["success"].total) == (4, 8, 3)
    assert not isinstance(arm.cost_per_success, NotComputable)
    assert arm.cost_per_success.estimate == pytest.approx(36 / 3)
    assert isinstance(arm.cost_per_success.low, float)
    assert arm.cost_per_success.low < 12 < float(str(arm.cost_per_success.high))


def test_a_cost_that_is_missing_once_leaves_no_cost_per_success(table: Path) -> None:
    text = [HEADER, "a,x,0,success,1,", "b,x,0,success,,3", "c,x,0,failure,2,"]
    table.write_text("\n".join(text))
    (arm,) = _read(table).arms
    assert arm.cost_per_success == NotComputable(reason="the cost of 1 of 3 trials is not known")
    assert [(one.trials, one.missing) for one in arm.wall_seconds] == [(1, 2), (1, 1)]


def test_one_task_and_one_arm_have_a_rate_and_reasons_for_the_rest(table: Path) -> None:
    found = _analyze(table, [("t", "a", 0, "success", 1.0, 1.0), ("t", "a", 1, "failure", 1.0, 1.0)])
    (arm,) = found.arms
    assert arm.rate.estimate == 0.5
    for figure in (arm.rate.low, arm.rate.high, arm.rate.standard_error, arm.icc):
        assert isinstance(figure, NotComputable)
    assert (found.contrasts, found.tied) == ((), ())
    assert any("nothing to compare" in note for note in found.notes)


def test_no_success_at_all_has_an_interval_and_no_cost_per_success(table: Path) -> None:
    rows = [(f"t{task}", arm, 0, "failure", 1.0, 1.0) for task in range(8) for arm in "ab"]
    found = _analyze(table, rows)
    for arm in found.arms:
        assert arm.rate.estimate == 0
        assert isinstance(arm.rate.high, float)
        assert 0 < arm.rate.high < 0.5
        assert arm.cost_per_success == NotComputable(reason="no trial succeeded")
        assert isinstance(arm.icc, NotComputable)
    (contrast,) = found.contrasts
    assert (contrast.difference, contrast.p) == (0, 1)
    assert isinstance(contrast.high, float)
    assert contrast.high > 0
    assert [group.arms for group in found.tied] == [("a", "b")]


def test_only_invalid_trials_have_no_scorable_rate(table: Path) -> None:
    (arm,) = _analyze(table, [(f"t{task}", "a", 0, "invalid", 0.0, 0.0) for task in range(5)]).arms
    assert (arm.invalid, arm.rate.estimate) == (5, 0)
    assert arm.scorable_rate == NotComputable(reason="no trial is scorable")


def test_arms_without_common_tasks_cannot_be_compared_and_count_as_tied(table: Path) -> None:
    rows = [(f"{arm}{task}", arm, 0, "success", 1.0, 1.0) for arm in "ab" for task in range(5)]
    (contrast,) = _analyze(table, rows).contrasts
    assert contrast.difference == NotComputable(reason="needs at least 3 matched contracts, found 0")
    assert isinstance(contrast.p_holm, NotComputable)
    assert not contrast.is_told_apart
    assert (len(contrast.only_first), len(contrast.only_second)) == (5, 5)


def test_an_arm_that_is_better_everywhere_alike_is_told_apart(table: Path) -> None:
    rows = [
        (f"t{task}", arm, 0, outcome, 1.0, 1.0)
        for task in range(12)
        for arm, outcome in (("a", "success"), ("b", "failure"))
    ]
    (contrast,) = _analyze(table, rows).contrasts
    assert contrast.is_told_apart
    assert contrast.p == pytest.approx(2 / 2**12)


def test_every_bad_line_is_named_at_once_with_its_number(table: Path) -> None:
    write_table(
        table,
        [
            "t1,a,0,success,1,2",
            "t1,a,0,failure,1,2",
            "t2,a,-1,sucess,x,2",
            ",b,0,success,1,nan",
            "t3,b,0,success",
            "t4,b,0,indeterminate,1,-2",
        ],
    )
    with pytest.raises(ContractError) as caught:
        _read(table)
    assert caught.value.code == "table-invalid"
    found = [line.partition("csv:")[2] for line in caught.value.message.splitlines()[1:]]
    assert [line.split(":")[0] for line in found] == ["3", "4", "4", "4", "5", "5", "6", "7", "7"]
    text = caught.value.message
    for words in (
        "3: expected each task, arm and repeat once, found those of line 2 again",
        "outcome: expected one of success, failure, error, invalid, found 'sucess'",
        "repeat: expected a whole number from 0, found '-1'",
        "cost_usd: expected a number of at least 0 or nothing, found 'x'",
        "5: task: expected a name, found nothing",
        "6: expected 6 cells, found 4",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected the header task,arm,repeat,outcome"),
        (HEADER + "\n", "expected at least one trial"),
        ("task,arm,repeat,result\na,b,0,success\n", "1: expected a column outcome"),
        ("task,arm,repeat,outcome,cost\na,b,0,success,1\n", "did you mean cost_usd?"),
        ("task,arm,repeat,outcome,arm\na,b,0,success,1\n", "found arm again"),
        (HEADER + '\n"a,b,0,success,1,1\n', "expected CSV"),
    ],
)
def test_a_table_that_is_none_is_refused_with_the_reason(table: Path, text: str, words: str) -> None:
    table.write_text(text)
    with pytest.raises(ContractError, match=words.replace("?", r"\?")):
        _read(table)


def test_hostile_text_is_shown_on_one_line_and_many_problems_are_cut(table: Path) -> None:
    write_table(table, [f't{place},a,0,"x\x1b[31m\nfoo",,' for place in range(80)])
    with pytest.raises(ContractError) as caught:
        _read(table)
    assert "\x1b" not in caught.value.message
    assert caught.value.message.splitlines()[-1] == "  … and 30 more"


def test_what_cannot_be_read_says_so(table: Path) -> None:
    with pytest.raises(UsageError, match="found none"):
        _read(table)
    table.write_bytes(HEADER.encode() + b"\nt,\xff,0,success,,\n")
    with pytest.raises(UsageError, match=r"trials\.csv:2: expected UTF-8"):
        _read(table)


def test_byte_order_mark_other_line_ends_other_order_and_missing_columns_are_read(table: Path) -> None:
    table.write_bytes("\ufeffarm,task,outcome,repeat\r\na,t,success,0\r\n\r\nb,t,failure,0\r\n".encode())
    found = _read(table)
    assert [(arm.name, arm.successes) for arm in found.arms] == [("a", 1), ("b", 0)]
    assert found.arms[0].cost_usd == ()


def test_the_document_keeps_to_its_published_schema(table: Path) -> None:
    validator = jsonschema.Draft202012Validator(api.build_schema("analysis"))
    for rows in (draw_trials({"a": 1.0, "b": 0.0}, tasks=5), [("t", "a", 0, "invalid", 1.0, 1.0)]):
        document = msgspec.json.decode(msgspec.json.encode(_analyze(table, rows)))
        validator.validate(document)
        assert msgspec.convert(document, Analysis) == _read(table)


def test_the_order_of_lines_changes_no_figure(table: Path) -> None:
    rows = draw_trials({"a": 1.0, "b": 0.0}, tasks=12)
    one = _analyze(table, rows)
    other = _analyze(table, rows[::-1])
    assert msgspec.structs.replace(one, artefacts=()) == msgspec.structs.replace(other, artefacts=())
    assert one.artefacts[0].digest.startswith("sha256:")


def test_every_rendered_line_fits_100_columns_also_with_long_names(table: Path) -> None:
    names = ["claude-code", "mini-swe", "qwen-code"]
    for arms in (names, [f"a-very-long-name-of-an-arm-{name}" for name in names]):
        found = _analyze(table, draw_trials({arm: float(place) for place, arm in enumerate(arms)}))
        texts = api.report_analysis(found)
        lines = texts["analysis.md"].splitlines()
        assert max(map(len, lines)) <= 100
        assert lines[0].startswith("**Decision**")
        assert all(arm in texts["analysis.md"] for arm in arms)


def test_tables_for_tools_have_one_line_for_each_arm_and_contrast(table: Path) -> None:
    found = _analyze(table, draw_trials({"a": 1.0, "b": 0.0, "c": 0.0}, tasks=8))
    texts = api.report_analysis(found)
    assert [texts[name].count("\n") for name in ("arms.csv", "contrasts.csv")] == [4, 4]
    header, first, *_ = texts["arms.csv"].splitlines()
    cells = dict(zip(header.split(","), first.split(","), strict=False))
    assert math.isclose(float(cells["rate_estimate"]), float(str(found.arms[0].rate.estimate)))


def test_holm_keeps_a_contrast_without_a_p_value_in_the_family(table: Path) -> None:
    rows = draw_trials({"a": 2.0, "b": 0.0}, tasks=20)
    alone = [(f"z{task}", "c", 0, "success", 1.0, 1.0) for task in range(3)]
    found = {(one.first, one.second): one for one in _analyze(table, [*rows, *alone]).contrasts}
    pair = found["a", "b"]
    assert isinstance(pair.p, float)
    assert pair.p_holm == pytest.approx(min(1.0, 3 * pair.p))
    assert all(
        isinstance(found[key].p, NotComputable)
        for key in itertools.chain([("c", "a")], [("c", "b")])
        if key in found
    )
