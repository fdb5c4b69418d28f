"""Tables of a retrieval report, the same for text and for pages: titles, columns and cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.report._document import Section, Table
from repotrial.retrieval import (
    AssociationScope,
    ConfigurationFigures,
    Figure,
    MatchedComparison,
    RetrievalReport,
)

if TYPE_CHECKING:
    from repotrial.stats import Estimate, Interval

_Cell: TypeAlias = "str | NotComputable"
_MOST_ROWS: Final = 500
_TEN: Final = 10


def build_sections(report: RetrievalReport) -> tuple[Section, ...]:
    """All sections but figures: coverage first."""
    sections = [
        _build_coverage(report),
        _build_figures(report, "quality", "What was found", lambda item: item.quality),
        _build_figures(report, "utilization", "Whether it was used", lambda item: item.utilization),
        _build_errors(report),
        _build_associations(report),
        _build_matched(report),
        *_iter_supplements(report),
        Section(name="caveats", title="Caveats", words=report.caveats, is_list=True),
    ]
    return tuple(sections)


def _build_coverage(report: RetrievalReport) -> Section:
    rows = tuple(
        (
            item.config_name,
            str(item.n_trials),
            str(item.n_tasks),
            str(item.computable),
            str(item.degraded),
            str(item.without_ground_truth),
            str(item.with_reward),
            str(item.without_outcome),
        )
        for item in report.coverage
    )
    columns = (
        "configuration",
        "trials",
        "tasks",
        "computable",
        "degraded",
        "without ground truth",
        "with a reward",
        "without an outcome",
    )
    comparison = report.comparison
    words = [
        f"Ranking rule: {report.ranking_note}.",
        f"Intervals are at {comparison.statistics.level:.0%}; tasks are the sampling units.",
    ]
    if comparison.unreadable:
        words.append(f"Metrics documents that could not be read: {len(comparison.unreadable)}.")
    if comparison.unjoined_trials:
        words.append(f"Trials with an outcome and without metrics: {len(comparison.unjoined_trials)}.")
    note = "Degraded: nothing was seen of the run. Only computable trials enter retrieval figures."
    return Section(
        name="coverage",
        title="Coverage",
        words=tuple(words),
        tables=(Table(title="", columns=columns, rows=rows, note=note),),
    )


def _build_figures(
    report: RetrievalReport, name: str, title: str, get: Callable[[ConfigurationFigures], Sequence[Figure]]
) -> Section:
    tables = tuple(
        _build_figure_table(item.config_name, get(item)) for item in report.configurations if get(item)
    )
    words = () if tables else ("No data.",)
    return Section(name=name, title=title, words=words, tables=tables)


def _build_figure_table(title: str, figures: Sequence[Figure]) -> Table:
    columns = ("quantity", "mean", "interval", "median", "std", "trials", "tasks", "method")
    rows = tuple(
        (
            figure.name,
            _show_mean(figure.mean),
            _show_interval(figure.mean),
            show_number(figure.median),
            show_number(figure.std),
            str(figure.n_trials),
            str(figure.n_tasks),
            _show_method(figure.mean),
        )
        for figure in figures
    )
    return Table(title=title, columns=columns, rows=rows)


def _build_errors(report: RetrievalReport) -> Section:
    section = _build_figures(report, "errors", "What went wrong", lambda item: item.errors)
    slices = tuple(
        (item.config_name, name, ", ".join(f"{value}: {count}" for value, count in counts.items()))
        for item in report.configurations
        for name, counts in item.slices.items()
    )
    note = "Files for each trial, by kind of error."
    if not slices:
        return section
    table = Table(title="Trials by slice", columns=("configuration", "slice", "trials"), rows=slices)
    return msgspec.structs.replace(section, words=(note,), tables=(*section.tables, table))


def _build_associations(report: RetrievalReport) -> Section:
    words = ("Association only: Spearman's rank correlation says that figures rise together, not why.",)
    return Section(
        name="associations",
        title="What retrieval goes along with (association only)",
        words=words,
        tables=tuple(_build_scope(scope) for scope in report.comparison.associations),
    )


def _build_scope(scope: AssociationScope) -> Table:
    rows = []
    for item in scope.associations:
        found = item.association
        if isinstance(found, NotComputable):
            cells: tuple[_Cell, ...] = (found, "", "", "", "")
        else:
            cells = (
                f"{found.value:.3f}",
                _show_range(found.interval),
                _show_p(found.p_value),
                _show_p(item.p_adjusted),
                found.method.value,
            )
        rows.append((item.measure, item.outcome, *cells, str(item.n_trials), str(item.n_tasks)))
    columns = (
        "measure",
        "outcome",
        "rho",
        "interval",
        "p",
        "p (Holm)",
        "method",
        "trials",
        "tasks",
    )
    note = f"p (Holm) is adjusted over the {scope.n_tests} associations of this table that have a p-value."
    if scope.is_pooled:
        note += " Pooled: differences between configurations enter."
    return Table(title=scope.scope, columns=columns, rows=tuple(rows), note=note)


def _build_matched(report: RetrievalReport) -> Section:
    pairs = report.comparison.matched
    words = ("Treatment less baseline, over tasks that both tried with the same model and harness version.",)
    if not pairs:
        words = ("There is only one configuration: nothing to compare.",)
    tables = [table for pair in pairs for table in _iter_pair_tables(pair)]
    return Section(name="matched", title="Matched comparisons", words=words, tables=tuple(tables))


def _iter_pair_tables(pair: MatchedComparison) -> Iterator[Table]:
    title = f"{pair.treatment} less {pair.baseline}"
    columns = (
        "quantity",
        "mean",
        "interval",
        "median",
        "effect size (d)",
        "+ / 0 / -",
        "p",
        "p (Holm)",
        "tasks",
        "method",
    )
    if isinstance(pair.deltas, NotComputable):
        yield Table(title=title, columns=("differences",), rows=((pair.deltas,),), note=_describe(pair))
        return
    rows: list[tuple[_Cell, ...]] = []
    for delta in pair.deltas:
        shift = delta.shift
        if isinstance(shift, NotComputable):
            rows.append((delta.quantity, shift, "", "", "", "", "", "", str(delta.n_tasks), ""))
            continue
        rows.append(
            (
                delta.quantity,
                _show_mean(shift.mean),
                _show_interval(shift.mean),
                show_number(shift.median),
                _show_effect(shift.standardized),
                f"{shift.positive} / {shift.zero} / {shift.negative}",
                _show_p(shift.sign_flip.p_value),
                _show_p(delta.p_adjusted),
                str(delta.n_tasks),
                f"{_show_method(shift.mean)}; {shift.sign_flip.method.value}",
            )
        )
    yield Table(title=title, columns=columns, rows=tuple(rows), note=_describe(pair))
    left_out = [(item.task, item.field, item.baseline, item.treatment) for item in pair.mismatched]
    if left_out:
        yield Table(
            title="Left out: conditions differ",
            columns=("task", "differs in", "baseline", "treatment"),
            rows=tuple(left_out),
        )


def _describe(pair: MatchedComparison) -> str:
    parts = [f"{pair.n_tasks} matched tasks"]
    for word, names in (
        ("only in the baseline", pair.only_baseline),
        ("only in the treatment", pair.only_treatment),
        ("without a reward on both sides", pair.without_reward),
    ):
        if names:
            parts.append(f"{word}: {', '.join(names)}")
    if pair.unverified:
        parts.append(f"not stated, so not checked, by number of tasks: {', '.join(pair.unverified)}")
    return "; ".join(parts) + "."


def _iter_supplements(report: RetrievalReport) -> Iterator[Section]:
    if report.conditioned:
        rows = tuple(
            (
                view.config_name,
                str(view.n_found),
                _show_mean(view.found),
                _show_interval(view.found),
                str(view.n_other),
                _show_mean(view.other),
                _show_interval(view.other),
            )
            for view in report.conditioned
        )
        least = report.conditioned[0].least_recall
        columns = (
            "configuration",
            f"trials with recall >= {least:g}",
            "mean reward",
            "interval",
            "other trials",
            "mean reward",
            "interval",
        )
        words = ("The two sets are made by what agents found: this describes, and compares nothing.",)
        table = Table(title="", columns=columns, rows=rows)
        yield Section(name="conditioned", title="Rewards by what was found", words=words, tables=(table,))
    if report.supplements.has_columns or report.supplements.has_flags:
        yield _build_trials(report)


def _build_trials(report: RetrievalReport) -> Section:
    has_columns, has_flags = report.supplements.has_columns, report.supplements.has_flags
    shown = ("reward", "file_recall", "mrr", "ttfr_seconds") if has_columns else ()
    further = tuple(dict.fromkeys(name for row in report.trials for name in row.supplementary))
    rows = []
    for row in report.trials[:_MOST_ROWS]:
        cells = [row.config_name, row.task, str(row.repeat)]
        cells += [show_number(row.values.get(name)) for name in shown]
        cells += [show_number(row.supplementary.get(name)) for name in further]
        if has_flags:
            cells.append("; ".join(row.flags) or "none")
        rows.append(tuple(cells))
    left = len(report.trials) - len(rows)
    flags = ("reasons for caution",) if has_flags else ()
    table = Table(
        title="",
        columns=("configuration", "task", "repeat", *shown, *further, *flags),
        rows=tuple(rows),
        note=f"{left} further trials are in the CSV." if left else "",
    )
    return Section(name="trials", title="Trials", tables=(table,))


def show_number(value: float | None) -> str:
    """Four decimals for shares, fewer for what is larger; `-` for nothing."""
    if value is None:
        return "-"
    if float(value).is_integer() and abs(value) > 1:
        return f"{value:.0f}"
    return f"{value:.4f}" if abs(value) < _TEN else f"{value:.1f}"


def _show_mean(estimate: Estimate | NotComputable) -> _Cell:
    return estimate if isinstance(estimate, NotComputable) else show_number(estimate.value)


def _show_interval(estimate: Estimate | NotComputable) -> _Cell:
    return "" if isinstance(estimate, NotComputable) else _show_range(estimate.interval)


def _show_range(interval: Interval | NotComputable) -> _Cell:
    if isinstance(interval, NotComputable):
        return interval
    return f"{show_number(interval.low)} to {show_number(interval.high)}"


def _show_effect(estimate: Estimate | NotComputable) -> _Cell:
    if isinstance(estimate, NotComputable):
        return estimate
    found = _show_range(estimate.interval)
    return f"{estimate.value:.2f}" if isinstance(found, NotComputable) else f"{estimate.value:.2f} ({found})"


def _show_method(estimate: Estimate | NotComputable) -> str:
    if isinstance(estimate, NotComputable) or isinstance(estimate.interval, NotComputable):
        return "-"
    return estimate.interval.method.value


def _show_p(value: float | NotComputable) -> _Cell:
    if isinstance(value, NotComputable):
        return value
    return f"{value:.4f}" if value >= 0.0001 else "< 0.0001"  # noqa: PLR2004 - what four places can show
