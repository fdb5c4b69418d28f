"""`repotrial retrieval`: did the agent find what matters, and did it use it?"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from repotrial import api
from repotrial._core.errors import ExitCode
from repotrial.cli._options import JsonFlag, noun
from repotrial.cli._output import Screen, ScreenPart, counted, print_json, print_table
from repotrial.cli._retrieval_study import compare, report

app = noun("retrieval", "Retrieval: did the agent find and use the files that matter?")

_RUN_DIR = typer.Argument(
    metavar="RUN_DIR",
    readable=False,
    help="A run directory of this harness or of another one; with --all, a directory of them.",
)
_TASKS = typer.Option(
    "--tasks",
    metavar="DIR",
    readable=False,
    help="Task or contract directories, for ground truth [benchmarks/ above the run].",
)
_ALL = typer.Option("--all", help="Every run below RUN_DIR; archives and what was set aside are left out.")
_SCHEMA = typer.Option("--schema", metavar="VERSION", help="Write documents of version 1.0 or 1.1 [1.1].")
_NO_TRUTH = (
    "without ground truth nothing can be measured: name the contracts, or the directory that they are in, "
    "when you normalize, with --tasks DIR"
)
_DRY_RUN = typer.Option("--dry-run", help="Do everything, write nothing.")


@app.command(
    "normalize",
    short_help="Read traces, and write event documents.",
    epilog="Example: repotrial retrieval normalize runs/fix_2026 --tasks benchmarks",
)
def normalize(  # noqa: PLR0913 - one parameter for each option
    run_dir: Annotated[Path, _RUN_DIR],
    *,
    tasks: Annotated[Path | None, _TASKS] = None,
    every: Annotated[bool, _ALL] = False,
    task: Annotated[str | None, typer.Option("--task", metavar="NAME", help="Only this task.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", readable=False, help="Write here, not into RUN_DIR/retrieval_events."
        ),
    ] = None,
    tools: Annotated[
        Path | None,
        typer.Option(
            "--tools", metavar="FILE", help="A table that adds to the names of tools that are known."
        ),
    ] = None,
    root: Annotated[
        list[str] | None,
        typer.Option("--root", metavar="PATH", help="Where agents found the repository; may be repeated."),
    ] = None,
    more_sources: Annotated[
        bool,
        typer.Option(
            "--more-sources",
            help="Ground truth also from oracle_answer.json, instance.json and environment/solve.sh.",
        ),
    ] = False,
    schema: Annotated[str, _SCHEMA] = "1.1",
    explain: Annotated[
        str | None,
        typer.Option("--explain", metavar="TASK", help="Only say which file names what matters for TASK."),
    ] = None,
    dry_run: Annotated[bool, _DRY_RUN] = False,
    json: JsonFlag = False,
) -> None:
    """Read the traces of every trial, and write one event document for each.

    Only documents of an earlier `normalize` are replaced. Exit code 1: some trial has no document.
    """
    if explain is not None:
        explanation = api.explain_ground_truth(run_dir, tasks, explain, has_further_sources=more_sources)
        if json:
            print_json(explanation)
        else:
            _print_explanation(Screen(), explanation)
        return
    request = api.NormalizationRequest(
        directory=run_dir,
        tasks=tasks,
        is_all=every,
        task=task,
        out=out,
        tools=tools,
        roots=tuple(root or ()),
        schema=schema,
        is_rehearsal=dry_run,
        has_further_sources=more_sources,
    )
    done = api.normalize_retrieval(request)
    if json:
        print_json(done)
    else:
        _print_tasks(Screen(), done.tasks, is_rehearsal=done.is_rehearsal)
        if done.holds and not done.is_rehearsal and out is None:
            command = f"repotrial retrieval evaluate {'--all ' if every else ''}{shlex.quote(str(run_dir))}"
            Screen().line((f"next: {command}", "dim"))
    if not done.holds:
        raise typer.Exit(ExitCode.DOES_NOT_HOLD)


@app.command(
    "evaluate",
    short_help="Measure event documents: found, used, gone wrong.",
    epilog="Example: repotrial retrieval evaluate runs/fix_2026 --out metrics",
)
def evaluate(  # noqa: PLR0913 - one parameter for each option
    run_dir: Annotated[Path | None, _RUN_DIR] = None,
    *,
    events_dir: Annotated[
        Path | None,
        typer.Option(
            "--events-dir", metavar="DIR", readable=False, help="Event documents by configuration, instead."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", readable=False, help="Write here, not beside the documents."),
    ] = None,
    ranking: Annotated[
        str,
        typer.Option(
            "--ranking", metavar="RULE", help="reads: written files are not retrieved; reference: they are."
        ),
    ] = "reads",
    schema: Annotated[str, _SCHEMA] = "1.1",
    every: Annotated[bool, _ALL] = False,
    dry_run: Annotated[bool, _DRY_RUN] = False,
    json: JsonFlag = False,
) -> None:
    """Measure event documents: what was found, what was used, what went wrong.

    Only results of an earlier `evaluate` are replaced. Exit code 1: some document could not be read.
    """
    done = api.evaluate_retrieval(
        run_dir,
        events=events_dir,
        out=out,
        ranking=ranking,
        schema=schema,
        is_all=every,
        is_rehearsal=dry_run,
    )
    if json:
        print_json(done.summary)
    else:
        _print_evaluation(Screen(), done, ranking)
    problems = [task.problem for task in done.tasks if task.problem is not None]
    for problem in problems if json else ():
        Screen(to_stderr=True).line(problem)
    if problems:
        raise typer.Exit(ExitCode.DOES_NOT_HOLD)


@app.command(
    "validate",
    short_help="Hold documents against the published schemas.",
    epilog="Example: repotrial retrieval validate runs/fix_2026/retrieval_events/*/*.json",
)
def validate(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", readable=False, help="Event or metrics documents.")
    ],
    *,
    json: JsonFlag = False,
) -> None:
    """Hold documents against the published schemas, versions 1.0 and 1.1.

    Exit code 1: some document does not hold; unknown major versions never do.
    """
    checks = api.validate_retrieval(files)
    if json:
        print_json(checks)
    else:
        screen = Screen()
        for check in checks:
            word = ("holds", "green") if check.holds else ("does not hold", "bold red")
            screen.line(f"{check.path}: ", word, f" ({check.kind} {check.schema_version or '?'})")
            for problem in check.problems:
                screen.line(f"    {problem}")
    if not all(check.holds for check in checks):
        raise typer.Exit(ExitCode.DOES_NOT_HOLD)


app.command(
    "compare",
    short_help="Hold retrieval against outcomes, and agents against others.",
    epilog="Example: repotrial retrieval compare runs/fix_2026 --baseline baseline",
)(compare)
app.command(
    "report",
    short_help="Write a report, as HTML, Markdown, CSV and JSON.",
    epilog="Example: repotrial retrieval report runs/fix_2026 --out report",
)(report)


def _print_tasks(screen: Screen, tasks: tuple[api.NormalizedTask, ...], *, is_rehearsal: bool) -> None:
    rows: list[list[ScreenPart]] = []
    for task in tasks:
        summary, coverage = task.summary, task.coverage
        if summary is None or coverage is None:
            continue
        hit = f"{summary.ground_truth_files_hit}/{summary.ground_truth_files_total}"
        rows.append(
            [
                task.config_name,
                task.task_name,
                coverage.trace_source or "none",
                f"{task.calls_tracked}/{task.calls_seen}",
                str(task.calls_mined),
                hit if coverage.has_ground_truth else "no ground truth",
                coverage.degraded_reason or str(task.target),
            ]
        )
    if rows:
        header = ("configuration", "task", "trace", "calls", "shell", "found", "document")
        print_table(screen, header, rows)
    problems = [task for task in tasks if task.problem is not None]
    for task in problems:
        screen.line((f"{task.run_id}/{task.trial}: ", "bold yellow"), task.problem or "")
    verb = "would be written" if is_rehearsal else "written"
    screen.line((f"{counted(len(rows), 'document')} {verb}", "bold"))
    if any(task.coverage is not None and not task.coverage.has_ground_truth for task in tasks):
        screen.line(("mind: ", "yellow"), _NO_TRUTH)


def _print_evaluation(screen: Screen, done: api.Evaluation, ranking: str) -> None:
    summary = done.summary
    for task in done.tasks:
        if task.problem is not None:
            screen.line(("not read: ", "bold yellow"), task.problem)
    screen.line(
        (f"{counted(summary.total_event_files, 'document')}, ", "bold"),
        f"{summary.computable_tasks} with ground truth and a trace; ranking: {ranking}",
    )
    for name in ("file_recall", "mrr", "map_score", "context_efficiency"):
        spread = summary.file_level_aggregates.get(name)
        if spread is not None:
            screen.line(f"  {name}: mean {spread.mean:.4f}, median {spread.median:.4f}")
    if done.summary_path is not None:
        screen.line(f"summary: {done.summary_path}")
    if not summary.computable_tasks:
        screen.line(("mind: ", "yellow"), "nothing could be measured, for want of ground truth or of a trace")


def _print_explanation(screen: Screen, found: api.TruthExplanation) -> None:
    screen.line((f"{found.task}: ", "bold"), found.directory or "no such task is known")
    if found.directory is None:
        screen.line(f"looked in: {found.tasks_directory or 'nowhere; name a directory with --tasks'}")
    for attempt in found.attempts:
        detail = f" ({attempt.detail})" if attempt.detail else ""
        style = "bold green" if attempt.outcome == "taken" else "dim"
        screen.line(f"  {attempt.path}: ", (attempt.outcome, style), detail)
    if found.source is not None:
        screen.line(f"files: {', '.join(found.files)}")
        screen.line(f"expected edits: {', '.join(found.expected_edit_files) or 'not stated'}")
        screen.line(f"symbols: {found.symbols}, chunks: {found.chunks}")
