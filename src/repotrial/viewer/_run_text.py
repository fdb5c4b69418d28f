"""What the list knows of a run: facts in columns, and the texts that it is searched by."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.errors import RepoTrialError
from repotrial.analysis import build_run_row
from repotrial.change import scan_headers
from repotrial.contract import parse_run_spec
from repotrial.score import JudgedRun, judge_run
from repotrial.trace import BlobStore, Response, RunPaths, read_said
from repotrial.viewer._places import FoundRun
from repotrial.viewer._trace_index import TraceIndex

_MOST_WHY: Final = 20
_MOST_TESTS: Final = 200
_MOST_PATHS: Final = 300
_MOST_SAID: Final = 2_000
_MOST_SPEC_BYTES: Final = 1024**2
_US_PER_SECOND: Final = 1_000_000
_COPIED: Final = (
    "contract", "agent", "model", "replicate", "status", "started_at_us", "wall_seconds", "cost_usd",
    "tokens", "score", "why", "run_id",
)  # fmt: skip


class RunText(msgspec.Struct, frozen=True, kw_only=True):
    """One run for the index."""

    facts: dict[str, Any]
    """By column."""
    open: str
    """Who and what: may be searched at any time."""
    verdict: str = ""
    """What tells how it went: not searched while a pilot is under way."""


def read_run(run: FoundRun) -> RunText:
    """Judge a run that has ended; of one under way, and of one that no judge can read, say who and what."""
    if run.state in {"ended", "unsealed"}:
        try:
            return _judge(run)
        except Exception:  # noqa: BLE001, S110 - a directory that no judge can read must not hide all others
            # The list shows it without a verdict; its own page says what is wrong.
            pass
    return _read_begun(run)


def _judge(run: FoundRun) -> RunText:
    judged = judge_run(run.path)
    row = build_run_row(judged)
    facts = {name: getattr(row, name) for name in _COPIED}
    return RunText(
        facts={**facts, "cause": row.ended},
        open=_join(run.path.name, row.contract, row.agent, row.model, row.run_id, row.upstream, row.ended),
        verdict=_join(row.status, row.tags, *_iter_verdict(judged), _find_last_words(run.path)),
    )


def _iter_verdict(judged: JudgedRun) -> Iterator[str]:
    card = judged.card
    yield from (reason.message for reason in judged.reasons[:_MOST_WHY])
    for gate in card.gates:
        yield from gate.why[:_MOST_WHY]
    for check in card.checks:
        yield from check.failing_tests[:_MOST_TESTS]
    change = judged.evidence.change
    if not isinstance(change, Unknown):
        for file in islice(scan_headers(change), _MOST_PATHS):
            yield file.new_name or file.old_name or ""


def _find_last_words(run: Path) -> str:
    """The beginning of the last thing that a model said."""
    try:
        index = TraceIndex(run)
        index.refresh()
        found = index.list_of({"response"})
        event = index.load_event(found[-1]) if found else None
    except RepoTrialError:  # the verdict says what is wrong with the trace
        return ""
    if event is None or not isinstance(event.payload, Response):
        return ""
    return (read_said(event.payload.body, BlobStore(RunPaths(run).blobs)) or "")[:_MOST_SAID]


def _read_begun(run: FoundRun) -> RunText:
    facts: dict[str, Any] = {}
    model = None
    try:
        with RunPaths(run.path).spec.open("rb") as stream:
            spec = parse_run_spec(stream.read(_MOST_SPEC_BYTES))
        model = spec.agent.model if isinstance(spec.agent.model, str) else None
        facts = {
            "contract": spec.contract_id,
            "agent": spec.agent.name,
            "model": model,
            "replicate": spec.replicate,
            "run_id": spec.run_id,
        }
        facts["started_at_us"] = int(run.path.stat().st_ctime * _US_PER_SECOND)
    except (RepoTrialError, OSError):  # the row stays, with its directory alone
        pass
    return RunText(facts=facts, open=_join(run.path.name, *facts.values()))


def _join(*parts: object) -> str:
    return "\n".join(str(part) for part in parts if part is not None)
