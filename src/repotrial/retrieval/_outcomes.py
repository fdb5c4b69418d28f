"""How trials ended and what they cost, from the files that harnesses leave beside their traces (R15, R16)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import EvidenceError
from repotrial.retrieval._evaluate import EVENTS, EVENTS_SUFFIX, METRICS_SUFFIX
from repotrial.retrieval._reading import RankingRule, ReadDocument, read_document
from repotrial.retrieval._walk import HarnessTrial, dig, load_object, walk_run

OUTCOMES: Final = ("reward", "cost_usd", "wall_clock_seconds", "output_tokens")
"""What retrieval is held against, by field."""

LARGEST: Final = 1e18
"""What exceeds this is no measurement."""
_UNSTATED: Final = frozenset({"", "unknown", "none", "latest"})
"""What harnesses write for a version that they do not know."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one trial ended."""

    config_name: str
    """The configuration."""
    batch_timestamp: str
    """The batch; empty where it has none."""
    trial_name: str
    """The trial's directory."""
    stated_name: str
    """The task, as the trial calls it; prefixes of wrappers included."""
    reward: float | Unknown
    """What the harness gave for the result; 1 or 0 for runs of this one."""
    cost_usd: float | Unknown
    """Money."""
    wall_clock_seconds: float | Unknown
    """Of the agent's work alone, not of preparation and judgment."""
    output_tokens: float | Unknown
    """Tokens that the model wrote."""
    model: str | Unknown
    """The model."""
    harness: str | Unknown
    """The harness and its version; not known where no version is stated."""


def load_outcomes(run: Path) -> tuple[Outcome, ...]:
    """The outcome of every trial of a run of another harness; a field that cannot be read is not known."""
    return tuple(_load_outcome(trial) for trial in walk_run(run).trials)


def _load_outcome(trial: HarnessTrial) -> Outcome:
    result = load_object(trial.directory / "result.json")
    metrics = load_object(trial.directory / "task_metrics.json")
    return Outcome(
        config_name=trial.config_name,
        batch_timestamp=trial.batch_timestamp,
        trial_name=trial.directory.name,
        stated_name=trial.stated_name,
        reward=_first_number("reward", dig(result, "verifier_result", "rewards", "reward")),
        cost_usd=_first_number("cost", metrics.get("cost_usd"), dig(result, "agent_result", "cost_usd")),
        wall_clock_seconds=_first_number(
            "time of the agent's work",
            _measure_seconds(dig(result, "agent_execution")),
            metrics.get("agent_execution_seconds"),
        ),
        output_tokens=_first_number(
            "number of output tokens",
            metrics.get("output_tokens"),
            dig(result, "agent_result", "n_output_tokens"),
        ),
        model=_name_known("model", trial.model),
        harness=_name_harness(dig(result, "agent_info")),
    )


def _first_number(name: str, *candidates: Any) -> float | Unknown:
    for value in candidates:
        # A whole number that no float can hold is no measurement.
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST:
            return float(value)
    return Unknown(f"no {name} is stated")


def _measure_seconds(span: Any) -> float | None:
    try:
        started, finished = (datetime.fromisoformat(dig(span, key)) for key in ("started_at", "finished_at"))
        seconds = (finished - started).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if seconds >= 0 else None


def _name_known(name: str, value: Any) -> str | Unknown:
    if isinstance(value, str) and value.strip().casefold() not in _UNSTATED:
        return value
    return Unknown(f"no {name} is stated")


def _name_harness(info: Any) -> str | Unknown:
    name, version = (_name_known(key, dig(info, key)) for key in ("name", "version"))
    if isinstance(name, Unknown) or isinstance(version, Unknown):
        return Unknown("no version of the harness is stated")
    return f"{name} {version}"


_SEPARATOR: Final = "::"
"""Between a repository and a path in it, in ground truth that spans several."""


class TrialProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One trial over its steps."""

    file: str
    """The events document, beginning with the run's name."""
    digest: str
    """Of its bytes."""
    first_hit_rank: int | None
    """Place of the first file that matters among the files met; None if none was."""
    recall: tuple[tuple[int, float], ...]
    """Events so far, and the share of files that matter met by then: at every rise, and at the end."""
    n_events: int
    """All events."""
    total_seconds: float | Unknown
    """When the last event was."""
    total_tokens: int | Unknown
    """Tokens up to the last event."""
    deep_searches: int
    """Events of the category `deep_search`."""
    deep_searches_hitting: int
    """Those among them that met a file that matters."""
    oracle_items: int
    """Files that matter and are named with their repository."""
    oracle_items_met: int
    """Those among them that were met."""
    oracle_repositories: int
    """Repositories that those are of."""
    oracle_repositories_met: int
    """Repositories of which at least one was met."""


def load_progress(metrics: Path, run: Path, rule: RankingRule | None) -> TrialProgress | Unknown:
    """Read the events from which metrics were made; they lie beside them, or in the run."""
    name = metrics.name.removesuffix(METRICS_SUFFIX) + EVENTS_SUFFIX
    for path in (metrics.with_name(name), run / EVENTS / metrics.parent.name / name):
        try:
            data = path.read_bytes()
            document = read_document(data, rule=rule or "reads")
        except OSError:
            continue
        except EvidenceError as error:
            return Unknown(f"the events cannot be read: {error}")
        return _follow(document, f"{run.name}/{path.relative_to(run).as_posix()}", digest_bytes(data))
    return Unknown("there is no events document beside the metrics")


def _follow(document: ReadDocument, file: str, digest: str) -> TrialProgress:
    relevant = document.relevant if document.has_ground_truth else frozenset[str]()
    met: set[str] = set()
    curve: list[tuple[int, float]] = []
    deep = hitting = 0
    for number, event in enumerate(document.events, start=1):
        if document.rule != "reference" and event.category == "file_write":
            continue
        new = relevant.intersection(event.paths) - met
        if event.category == "deep_search":
            deep += 1
            hitting += not relevant.isdisjoint(event.paths)
        if new:
            met |= new
            curve.append((number, len(met) / len(relevant)))
    if relevant and document.events:
        curve.append((len(document.events), len(met) / len(relevant)))
    seconds = _list_known(event.elapsed_seconds for event in document.events)
    tokens = _list_known(event.cumulative_tokens for event in document.events)
    items = {path for path in relevant if _SEPARATOR in path}
    ranks = (n for n, path in enumerate(document.retrieved, start=1) if path in relevant)
    return TrialProgress(
        file=file,
        digest=digest,
        first_hit_rank=next(ranks, None),
        recall=tuple(curve),
        n_events=len(document.events),
        total_seconds=max(seconds) if seconds else Unknown("the trace has no times"),
        total_tokens=int(max(tokens)) if tokens else Unknown("the trace has no usage"),
        deep_searches=deep,
        deep_searches_hitting=hitting,
        oracle_items=len(items),
        oracle_items_met=len(items & met),
        oracle_repositories=len(_list_repositories(items)),
        oracle_repositories_met=len(_list_repositories(items & met)),
    )


def _list_known(values: Iterable[float | None]) -> list[float]:
    return [float(value) for value in values if value is not None and 0 <= value <= LARGEST]


def _list_repositories(items: set[str]) -> set[str]:
    return {item.partition(_SEPARATOR)[0] for item in items}
