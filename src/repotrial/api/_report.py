"""Reports: one file about runs, pilots, tables of trials, analyses and retrieval results, in any mix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote

import msgspec

from repotrial._core.clock import format_now
from repotrial._core.errors import ErrorCode, MachineError, UsageError
from repotrial._core.files import describe_refusal, find_obstacle, write_atomic
from repotrial.analysis import (
    Analysis,
    CollectedSummary,
    analyze_trials,
    build_run_row,
    summarize_runs,
)
from repotrial.api._large_bodies import render_run_files
from repotrial.api._open_pilot import open_pilot
from repotrial.api._pilot_page import is_pilot, load_pilot_view
from repotrial.api._retrieval_study import load_retrieval_report
from repotrial.conduct import admit_places
from repotrial.interop import is_foreign, read_results
from repotrial.retrieval import RetrievalReport
from repotrial.score import NO_RUNS, find_run_directories
from repotrial.signing import TrustedKeys

if TYPE_CHECKING:
    from repotrial.report import PilotView, PlanView

PageFormat: TypeAlias = Literal["html", "md", "csv", "json"]
_METRICS = "*retrieval_metrics.json"
_MOST_BYTES = 256 * 1024**2

REPORT_INPUT = ErrorCode(
    "report-input",
    UsageError,
    "Something that a report was to be made of is nothing that reports are made of. All of them are listed.",
    hint="name run directories, directories of runs, pilots, retrieval results, a table of trials (.csv) or "
    "what `repotrial pilot analyze --json` printed (.json)",
)
REPORT_INSIDE = ErrorCode(
    "report-inside",
    UsageError,
    "A report was to be written into a directory that it is made of.",
    hint="name a file elsewhere with --out: run directories are sealed",
)
REPORT_FORMAT = ErrorCode(
    "report-format",
    UsageError,
    "A report of several kinds of things has no CSV.",
    hint="make one report for each kind, or choose --format json",
)
REPORT_WRITE = ErrorCode(
    "report-write",
    MachineError,
    "A report cannot be written.",
    hint="name another file with --out (`run summary`: --page), make room or fix the permissions",
)


class ReportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a report is to be."""

    out: Path
    """The file."""
    form: PageFormat = "html"
    is_shared: bool = False
    """Whether source code, prompts and outputs are left out."""
    has_run_pages: bool = False
    """Whether each run gets a page of its own beside the report."""
    pool_versions: bool = False
    """Whether versions of one contract are counted together; labeled."""
    keys: TrustedKeys | None = None
    """Whose seals are believed; None: any seal that holds."""
    look_key: Path | None = None
    """The private key that signs a look at a pilot in stage 3; None: none is asked for."""


class BuiltReport(msgspec.Struct, frozen=True, kw_only=True):
    """Where a report is, and what it is about."""

    file: str
    """The report."""
    beside: tuple[str, ...]
    """Files beside it that it links to."""
    runs: int
    """Run directories that it is about."""
    analyses: int
    """Tables of trials and analyses."""
    pilots: int
    """Pilots."""
    studies: int
    """Places with retrieval results."""


class _Inputs(msgspec.Struct, kw_only=True):
    pilots: list[Path] = msgspec.field(default_factory=list)
    runs: list[Path] = msgspec.field(default_factory=list)
    """Run directories and directories of them."""
    analyses: list[Path] = msgspec.field(default_factory=list)
    studies: list[Path] = msgspec.field(default_factory=list)


def build_report(paths: Sequence[Path], request: ReportRequest) -> BuiltReport:
    """Write one report about all that is named.

    Raises:
        REPORT_INPUT: something is no run, no table, no analysis and no retrieval result.
        REPORT_INSIDE: the report would lie in a directory that it is made of.
        REPORT_FORMAT: there is no CSV of several kinds of things.
        REPORT_WRITE: the machine does not let us write.
        MIXED_VERSIONS: one contract occurs in several versions, and pooling was not asked for.
        PEEK_REFUSED: runs are of a pilot that is under way.
    """
    inputs = _sort_inputs(paths)
    if inputs.runs:
        inputs.runs = admit_places(inputs.runs, request.look_key)
    for path in (*inputs.pilots, *inputs.runs, *inputs.studies):
        if request.out.resolve().is_relative_to(path.resolve()):
            raise REPORT_INSIDE.error(f"{request.out}: expected a file outside of {path}, found one in it")
    runs = [run for path in inputs.runs for run in find_run_directories(path)]
    if request.form == "html" and len(runs) == 1 and not (inputs.pilots or inputs.analyses or inputs.studies):
        return _write_run(runs[0], request)
    collected = _summarize(inputs.runs, request) if runs else None
    pilots = [load_pilot_view(path, request.look_key) for path in inputs.pilots]
    files: dict[Path, bytes] = {}
    links: dict[Path, str] = {}
    if request.has_run_pages:
        files, links = _render_run_pages(_list_directories(collected, pilots), request)
    files[request.out] = _render(inputs, collected, pilots, request, links)
    _write(files)
    return BuiltReport(
        file=str(request.out),
        beside=tuple(str(path) for path in files if path != request.out),
        runs=len(_list_directories(collected, pilots)),
        analyses=len(inputs.analyses),
        pilots=len(pilots),
        studies=len(inputs.studies),
    )


def _list_directories(
    collected: CollectedSummary | None, pilots: Sequence[PilotView | PlanView]
) -> list[Path]:
    """Every run directory that the report is about."""
    found = [] if collected is None else [run.directory for runs in collected.runs.values() for run in runs]
    for pilot in pilots:
        trials = getattr(pilot, "trials", ())
        found += [one.run.directory for one in trials if one.run is not None]
    return found


def _summarize(places: Sequence[Path], request: ReportRequest) -> CollectedSummary:
    return summarize_runs(places, pool_versions=request.pool_versions, keys=request.keys)


def write_summary_page(collected: CollectedSummary, output: Path) -> None:
    """Write a summary of many runs as one HTML file that needs nothing else.

    Raises:
        REPORT_WRITE: the machine does not let us write.
    """
    from repotrial.report import build_document, render_document

    _write({output: render_document(build_document(runs=collected), "html")})


def _sort_inputs(paths: Sequence[Path]) -> _Inputs:
    inputs, problems = _Inputs(), []
    for path in paths:
        if (path.is_file() and path.suffix in {".csv", ".json"}) or _is_foreign(path):
            inputs.analyses.append(path)
        elif is_pilot(path):
            inputs.pilots.append(path)
        elif obstacle := find_obstacle(path):
            problems.append(f"{path}: expected a directory, a .csv or a .json file, found {obstacle}")
        else:
            has_runs = _has_runs(path)
            has_metrics = next(path.rglob(_METRICS), None) is not None
            if has_runs:
                inputs.runs.append(path)
            if has_metrics:
                inputs.studies.append(path)
            if not has_runs and not has_metrics:
                problems.append(f"{path}: expected runs or retrieval results, found {_describe(path)}")
    if problems:
        raise REPORT_INPUT.error("\n".join(problems), details=problems)
    return inputs


def _holds_trials(path: Path) -> bool:
    return path.suffix == ".csv" or _is_foreign(path)


def _is_foreign(path: Path) -> bool:
    """Results of another harness; a directory with runs or a pilot of ours is none."""
    is_ours = path.is_dir() and (is_pilot(path) or _has_runs(path))
    return path.exists() and not is_ours and is_foreign(path)


def _has_runs(path: Path) -> bool:
    try:
        return bool(find_run_directories(path))
    except UsageError as error:
        if error.code == NO_RUNS:
            return False
        raise


def _describe(path: Path) -> str:
    names = sorted(entry.name for entry in path.iterdir())
    if not names:
        return "an empty directory"
    return f"neither among {len(names)} entries, the first of which is {names[0]!r}"


def _render(
    inputs: _Inputs,
    collected: CollectedSummary | None,
    pilots: Sequence[PilotView | PlanView],
    request: ReportRequest,
    links: dict[Path, str],
) -> bytes:
    from repotrial.report import build_document, render_document

    if request.form == "csv":
        text = _render_csv(inputs, collected, is_shared=request.is_shared)
        return text.encode("utf-8", "surrogateescape")
    document = build_document(
        pilots=pilots,
        analyses=[
            (_load_analysis(path), read_results(path) if _holds_trials(path) else None)
            for path in inputs.analyses
        ],
        runs=collected,
        retrieval=load_retrieval_report(inputs.studies, generated_at=format_now())
        if inputs.studies
        else None,
        is_shared=request.is_shared,
        pages=links,
    )
    return render_document(document, request.form)


def _load_analysis(path: Path) -> Analysis:
    if _holds_trials(path):
        return analyze_trials(read_results(path))
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise REPORT_INPUT.error(f"{path}: expected at most {_MOST_BYTES} bytes, found more")
        return msgspec.json.decode(path.read_bytes(), type=Analysis)
    except (OSError, msgspec.DecodeError) as error:
        raise REPORT_INPUT.error(
            f"{path}: expected what `repotrial pilot analyze --json` prints, found: {error}"
        ) from error


def _render_csv(inputs: _Inputs, collected: CollectedSummary | None, *, is_shared: bool) -> str:
    from repotrial.report import render_analysis, render_retrieval_csv, render_rows

    kinds = (bool(inputs.pilots), bool(inputs.analyses), collected is not None, bool(inputs.studies))
    if sum(kinds) > 1 or len(inputs.analyses) > 1 or len(inputs.pilots) > 1:
        raise REPORT_FORMAT.error(
            f"--format csv: expected things of one kind, found {len(inputs.analyses)} tables or analyses, "
            f"{len(inputs.runs)} places with runs and {len(inputs.studies)} with retrieval results"
        )
    if inputs.pilots or collected is not None:
        judged = [] if collected is None else [run for runs in collected.runs.values() for run in runs]
        rows = [msgspec.structs.asdict(build_run_row(run)) for run in judged]
        rows = rows or open_pilot(inputs.pilots[0]).rows()
        return render_rows([{**row, "why": None} if is_shared else row for row in rows])
    if inputs.analyses:
        return render_analysis(_load_analysis(inputs.analyses[0]))["arms.csv"]
    return render_retrieval_csv(_load_retrieval(inputs.studies))


def _load_retrieval(places: Sequence[Path]) -> RetrievalReport:
    return load_retrieval_report(places, generated_at=format_now())


def _write_run(run: Path, request: ReportRequest) -> BuiltReport:
    try:
        files = render_run_files(run, request.out, is_shared=request.is_shared)
    except OSError as error:
        raise REPORT_WRITE.error(
            f"{run}: expected to read its bodies, found: {describe_refusal(error)}"
        ) from error
    _write(files)
    beside = tuple(str(path) for path in files if path != request.out)
    return BuiltReport(file=str(request.out), beside=beside, runs=1, analyses=0, pilots=0, studies=0)


def _name_folder(out: Path, word: str) -> Path:
    return out.with_name(f"{out.stem}-{word}")


def _render_run_pages(
    directories: Sequence[Path], request: ReportRequest
) -> tuple[dict[Path, bytes], dict[Path, str]]:
    from repotrial.report import build_run_page

    folder = _name_folder(request.out, "runs")
    files: dict[Path, bytes] = {}
    links: dict[Path, str] = {}
    names = [f"{n}-{directory.resolve().name}.html" for n, directory in enumerate(directories, start=1)]
    quoted = ["", *(quote(name, errors="replace") for name in names), ""]
    for place, (directory, name) in enumerate(zip(directories, names, strict=True)):
        links[directory] = f"{quote(folder.name)}/{quoted[place + 1]}"
        page = build_run_page(
            directory, is_shared=request.is_shared, neighbors=(quoted[place], quoted[place + 2])
        )
        files[folder / name] = page.encode()
    return files, links


def _write(files: dict[Path, bytes]) -> None:
    for target, data in files.items():
        try:
            write_atomic(target, data)
        except (OSError, ValueError) as error:  # ValueError: a NUL in its name
            raise REPORT_WRITE.error(
                f"{target}: expected to write the report, found: {describe_refusal(error)}"
            ) from error
