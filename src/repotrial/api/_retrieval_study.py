"""Verbs on retrieval over many trials: what it goes along with, and a report for people (R15-R18)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.clock import format_now
from repotrial._core.errors import ErrorCode, EvidenceError, MachineError, UsageError
from repotrial._core.files import write_atomic
from repotrial.analysis import find_left_out
from repotrial.retrieval import (
    ComparisonOptions,
    Outcome,
    RetrievalComparison,
    RetrievalReport,
    SupplementOptions,
    build_retrieval_report,
    compare_study,
    load_study,
    name_configuration,
)
from repotrial.score import AgentIdentity, JudgedRun, Scorable, judge_run
from repotrial.trace import Manifest, Response, RunPaths, iter_events

ReportFormat: TypeAlias = Literal["md", "csv", "json", "html"]
_REPORT_FORMATS: tuple[ReportFormat, ...] = ("md", "csv", "json", "html")
"""What a report can be written as."""


RETRIEVAL_REPORT_FORMAT = ErrorCode(
    "retrieval-report-format",
    UsageError,
    "A report cannot be written in that form, or a share is none.",
    hint="`repotrial retrieval report --help` names the forms",
)
RETRIEVAL_REPORT_INSIDE_RUN = ErrorCode(
    "retrieval-report-inside-run",
    UsageError,
    "A result was to be written into a directory that was read.",
    hint="name a place elsewhere with --out; run directories are left as they are",
)
RETRIEVAL_REPORT_WRITE = ErrorCode(
    "retrieval-report-write",
    MachineError,
    "A report cannot be written.",
    hint="name another place with --out, make room or fix the permissions",
)


class WrittenReport(msgspec.Struct, frozen=True, kw_only=True):
    """Where a report is."""

    files: tuple[str, ...]
    """One for each form."""
    n_trials: int
    """Trials that it is about."""
    computable: int
    """Trials with figures."""
    left_out: int
    """Attempts that were broken off and repeated; the report names them."""


def _parse_report_format(text: str) -> ReportFormat:
    """A form of reports.

    Raises:
        RETRIEVAL_REPORT_FORMAT: there is no such form.
    """
    match text:
        case "md" | "csv" | "json" | "html" as word:
            return word
        case _:
            raise RETRIEVAL_REPORT_FORMAT.error(
                f"--format: expected {', '.join(_REPORT_FORMATS)}, found {text!r}"
            )


def compare_retrieval(
    directories: Sequence[Path],
    *,
    baseline: str | None = None,
    treatment: str | None = None,
    out: Path | None = None,
) -> RetrievalComparison:
    """Hold retrieval against outcomes, and configurations against each other.

    With `out`, the comparison is also written there, as JSON.

    Raises:
        RETRIEVAL_NO_METRICS: there are no metrics below the directories.
        RETRIEVAL_MIXED_RANKING: not all were ranked by one rule.
        RETRIEVAL_CONFIGURATION: a configuration that was asked for is not there.
        RETRIEVAL_REPORT_INSIDE_RUN: `out` lies in a directory that was read.
        RETRIEVAL_REPORT_WRITE: the machine does not let us write.
    """
    study = load_study(directories, judge=_judge, find_left_out=find_left_out)
    options = ComparisonOptions(baseline=baseline, treatment=treatment, generated_at=format_now())
    comparison = compare_study(study, options)
    if out is not None:
        _verify_outside(out, directories)
        _write(out, _encode(comparison))
    return comparison


def report_retrieval(
    directories: Sequence[Path],
    out: Path,
    *,
    formats: Sequence[str] = _REPORT_FORMATS,
    baseline: str | None = None,
    treatment: str | None = None,
    supplements: SupplementOptions | None = None,
) -> WrittenReport:
    """Write `retrieval_report.*` into a directory; older ones there are replaced.

    Raises:
        RETRIEVAL_NO_METRICS: there are no metrics below the directories.
        RETRIEVAL_MIXED_RANKING: not all were ranked by one rule.
        RETRIEVAL_CONFIGURATION: a configuration that was asked for is not there.
        RETRIEVAL_REPORT_FORMAT: there is no such form, or the least recall is no share.
        RETRIEVAL_REPORT_INSIDE_RUN: the report would lie in a directory that was read.
        RETRIEVAL_REPORT_WRITE: the machine does not let us write.
    """
    words = [_parse_report_format(text) for text in formats or _REPORT_FORMATS]
    wanted = supplements or SupplementOptions()
    if wanted.least_recall is not None and not 0 < wanted.least_recall <= 1:
        raise RETRIEVAL_REPORT_FORMAT.error(
            f"--among: expected a share above 0, up to 1, found {wanted.least_recall}"
        )
    _verify_outside(out, directories)
    study = load_study(directories, judge=_judge, find_left_out=find_left_out, has_progress=True)
    options = ComparisonOptions(baseline=baseline, treatment=treatment, generated_at=format_now())
    report = build_retrieval_report(study, options, wanted)
    documents = {out / f"retrieval_report.{word}": _render(report, word) for word in words}
    for target, document in documents.items():
        _write(target, document)
    computable = sum(item.computable for item in report.coverage)
    return WrittenReport(
        files=tuple(map(str, documents)),
        n_trials=len(report.trials),
        computable=computable,
        left_out=len(report.comparison.left_out),
    )


def load_retrieval_report(directories: Sequence[Path], *, generated_at: str) -> RetrievalReport:
    """A report of all retrieval results below some directories, every configuration with every other.

    Raises:
        RETRIEVAL_NO_METRICS: there are no metrics below the directories.
        RETRIEVAL_MIXED_RANKING: not all were ranked by one rule.
    """
    study = load_study(directories, judge=_judge, find_left_out=find_left_out, has_progress=True)
    options = ComparisonOptions(baseline=None, treatment=None, generated_at=generated_at)
    return build_retrieval_report(study, options, SupplementOptions())


def _render(report: RetrievalReport, word: ReportFormat) -> bytes:
    from repotrial.report import build_retrieval_page, render_retrieval_csv, render_retrieval_markdown

    match word:
        case "json":
            return _encode(report)
        case "md":
            return render_retrieval_markdown(report).encode()
        case "csv":
            return render_retrieval_csv(report).encode()
        case "html":
            return build_retrieval_page(report).encode()


def _encode(document: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _verify_outside(target: Path, sources: Sequence[Path]) -> None:
    for source in sources:
        if target.resolve().is_relative_to(source.resolve()):
            raise RETRIEVAL_REPORT_INSIDE_RUN.error(
                f"{target}: expected a place outside of {source}, found one in it"
            )


def _write(target: Path, data: bytes) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, data)
    except (OSError, ValueError) as error:  # ValueError: a NUL in its name
        raise RETRIEVAL_REPORT_WRITE.error(f"{target}: expected to write it, found: {error}") from error


def _judge(directory: Path) -> Outcome:
    """The outcome of a run of ours, from its evidence; `score.json` is not believed."""
    run = judge_run(directory)
    card = run.card
    agent = card.identity.agent
    manifest = run.evidence.manifest
    wall_us = card.cost.wall_us
    return Outcome(
        config_name=name_configuration(manifest) if isinstance(manifest, Manifest) else "unknown",
        batch_timestamp="",
        trial_name=directory.name,
        stated_name=card.identity.contract_id if isinstance(card.identity.contract_id, str) else "unknown",
        reward=_find_reward(run),
        cost_usd=float(card.cost.cost_usd) if isinstance(card.cost.cost_usd, str) else card.cost.cost_usd,
        wall_clock_seconds=wall_us / 1e6 if isinstance(wall_us, int) else wall_us,
        output_tokens=_sum_output(directory),
        model=agent.model if isinstance(agent, AgentIdentity) else Unknown("no agent is stated"),
        harness=f"repotrial {manifest.harness.version}" if isinstance(manifest, Manifest) else manifest,
    )


def _find_reward(run: JudgedRun) -> float | Unknown:
    status = run.card.status
    if not isinstance(status, Scorable):
        return Unknown("the run is invalid")
    if status.fault == "machine":
        return Unknown("the machine was at fault")
    return float(status.verdict == "success")


def _sum_output(directory: Path) -> float | Unknown:
    total, is_known = 0, False
    try:
        for event in iter_events(RunPaths(directory).trace, allow_torn_tail=True):
            if isinstance(event.payload, Response):
                tokens = event.payload.usage.output_tokens
                if tokens is None:
                    return Unknown("a response does not state its usage")
                total, is_known = total + tokens, True
    except EvidenceError as error:
        return Unknown(f"the trace cannot be read: {error}")
    return float(total) if is_known else Unknown("the trace has no responses")
