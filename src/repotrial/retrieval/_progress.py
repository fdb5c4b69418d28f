"""What the events of a trial say over time: when what mattered was met, and what had been spent by then."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import EvidenceError
from repotrial.retrieval._evaluate import EVENTS, EVENTS_SUFFIX, METRICS_SUFFIX
from repotrial.retrieval._outcomes import LARGEST
from repotrial.retrieval._reading import RankingRule, ReadDocument, read_document

_SEPARATOR: Final = "::"
"""Between a repository and a path in it, in ground truth that spans several."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """One trial over its steps."""

    file: str
    """The events document, beginning with the run's name."""
    digest: str
    """Of its bytes."""
    first_hit_rank: int | None
    """Place of the first file that matters among the files met; null where none was."""
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


def load_progress(metrics: Path, run: Path, rule: RankingRule | None) -> Progress | Unknown:
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
        file = f"{run.name}/{path.relative_to(run).as_posix()}"
        return _follow(document, file, digest_bytes(data))
    return Unknown("there is no events document beside the metrics")


def _follow(document: ReadDocument, file: str, digest: str) -> Progress:
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
    return Progress(
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
