"""`repotrial retrieval compare` and `report`: what retrieval goes along with, over many trials."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repotrial import api
from repotrial.cli._options import JsonFlag
from repotrial.cli._output import Screen, ScreenPart, counted, print_json, print_table

if TYPE_CHECKING:
    from repotrial._core.absence import NotComputable


SOURCES = typer.Argument(
    metavar="DIR...",
    readable=False,
    help="Run directories with metrics in retrieval_events, or directories of such runs.",
)
BASELINE = typer.Option(
    "--baseline", metavar="CONFIG", help="Subtract this configuration [every one in its turn]."
)
TREATMENT = typer.Option("--treatment", metavar="CONFIG", help="Compare only this one with it [every other].")


def compare(
    directories: Annotated[list[Path], SOURCES],
    *,
    baseline: Annotated[str | None, BASELINE] = None,
    treatment: Annotated[str | None, TREATMENT] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", readable=False, help="Also write retrieval_comparison.json."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Hold retrieval against rewards, cost and time, and configurations against each other.

    Association only. Every figure says over how many tasks it was taken and by which method.
    """
    found = api.compare_retrieval(directories, baseline=baseline, treatment=treatment, out=out)
    if json:
        print_json(found)
        return
    screen = Screen()
    _print_coverage(screen, found)
    for scope in found.associations:
        _print_scope(screen, scope)
    for pair in found.matched:
        _print_pair(screen, pair)
    screen.line("")
    for caveat in found.caveats:
        screen.line((f"- {caveat}", "dim"))
    if out is not None:
        screen.line(str(out))


def _print_coverage(screen: Screen, found: api.RetrievalComparison) -> None:
    screen.line((f"ranking: {found.ranking}", "bold"))
    rows: list[list[ScreenPart]] = [
        [
            item.config_name,
            str(item.n_trials),
            str(item.n_tasks),
            str(item.computable),
            str(item.degraded),
            str(item.without_ground_truth),
            str(item.with_reward),
        ]
        for item in found.coverage
    ]
    header = ("configuration", "trials", "tasks", "computable", "degraded", "no ground truth", "with reward")
    print_table(screen, header, rows)
    for problem in found.unreadable:
        screen.line(("not read: ", "bold yellow"), problem)
    if found.unjoined_trials:
        screen.line(("trials without metrics: ", "yellow"), str(len(found.unjoined_trials)))


def _print_scope(screen: Screen, scope: api.AssociationScope) -> None:
    from repotrial._core.absence import NotComputable

    screen.line("")
    screen.line((f"association only: {scope.scope}", "bold"))
    rows: list[list[ScreenPart]] = []
    reasons: Counter[str] = Counter()
    for item in scope.associations:
        found = item.association
        if isinstance(found, NotComputable):
            reasons[found.reason] += 1
            continue
        ends = found.interval
        reach = "none" if isinstance(ends, NotComputable) else f"{ends.low:.3f} to {ends.high:.3f}"
        tests = [_show_p(found.p_value), _show_p(item.p_adjusted)]
        figures = [f"{found.value:.3f}", reach, *tests, str(item.n_tasks), found.method.value]
        rows.append([item.measure, item.outcome, *figures])
    if rows:
        header = ("measure", "outcome", "rho", "interval", "p", "p (Holm)", "tasks", "method")
        print_table(screen, header, rows)
    for reason, count in reasons.items():
        screen.line((f"{count} not computable: {reason}", "dim"))


def _print_pair(screen: Screen, pair: api.MatchedComparison) -> None:
    from repotrial._core.absence import NotComputable

    screen.line("")
    screen.line((f"{pair.treatment} less {pair.baseline}: ", "bold"), f"{pair.n_tasks} matched tasks")
    if isinstance(pair.deltas, NotComputable):
        screen.line((f"not computable: {pair.deltas.reason}", "yellow"))
    else:
        rows: list[list[ScreenPart]] = []
        for delta in pair.deltas:
            shift = delta.shift
            if isinstance(shift, NotComputable):
                rows.append([delta.quantity, "-", shift.reason, "", "", "", str(delta.n_tasks)])
                continue
            ends = shift.mean.interval
            reach = "none" if isinstance(ends, NotComputable) else f"{ends.low:.4g} to {ends.high:.4g}"
            signs = f"{shift.positive}/{shift.zero}/{shift.negative}"
            figures = [f"{shift.mean.value:.4g}", reach, signs]
            tests = [_show_p(shift.sign_flip.p_value), _show_p(delta.p_adjusted)]
            rows.append([delta.quantity, *figures, *tests, str(delta.n_tasks)])
        header = ("quantity", "mean", "interval", "+/0/-", "p", "p (Holm)", "tasks")
        print_table(screen, header, rows)
    _print_left_out(screen, pair)


def _print_left_out(screen: Screen, pair: api.MatchedComparison) -> None:
    for item in pair.mismatched:
        screen.line(
            (f"left out: {item.task}: ", "yellow"),
            f"{item.field} is {item.baseline} and {item.treatment}",
        )
    for word, names in (
        (f"only in {pair.baseline}", pair.only_baseline),
        (f"only in {pair.treatment}", pair.only_treatment),
        ("no reward on both sides", pair.without_reward),
        ("not stated, so not checked (tasks)", pair.unverified),
    ):
        if names:
            screen.line((f"{word}: ", "dim"), ", ".join(names))


def _show_p(value: float | NotComputable) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "none"


def report(  # noqa: PLR0913 - one parameter for each option
    directories: Annotated[list[Path], SOURCES],
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", readable=False, help="Where retrieval_report.* goes.")
    ] = Path("retrieval-report"),
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", metavar="FORM", help="md, csv, json or html; may be repeated [all]."),
    ] = None,
    baseline: Annotated[str | None, BASELINE] = None,
    treatment: Annotated[str | None, TREATMENT] = None,
    columns: Annotated[
        bool, typer.Option("--supplementary", help="Also each trial, with retrieval beside its outcome.")
    ] = False,
    among: Annotated[
        float | None,
        typer.Option(
            "--among", metavar="RECALL", help="Also rewards among trials with at least this recall."
        ),
    ] = None,
    flags: Annotated[
        bool, typer.Option("--flags", help="Also reasons for caution beside each trial.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Write a report: coverage, what was found and used, what it goes along with, figures and sources.

    Older reports in the same place are replaced; run directories are left as they are.
    """
    written = api.report_retrieval(
        directories,
        out,
        formats=formats or (),
        baseline=baseline,
        treatment=treatment,
        supplements=api.SupplementOptions(has_columns=columns, least_recall=among, has_flags=flags),
    )
    if json:
        print_json(written)
        return
    screen = Screen()
    screen.line((f"{counted(written.n_trials, 'trial')}, {written.computable} with figures", "bold"))
    for file in written.files:
        screen.line(file)
