"""Departures from the protocol (P8, P32, X6): of one run with what was found, of many with counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from repotrial._core.seed import ROOT_SEED
from repotrial.contract import ContractRecord, RunSpec
from repotrial.score._evidence import Document, Evidence, Line, build_line
from repotrial.trace import Manifest


class Remark(Document, frozen=True, kw_only=True):
    """Something in which the run departs from the protocol (X6)."""

    code: Line
    """Stable kebab-case name."""
    message: Line
    """What was expected and what was found."""


def build_deviations(evidence: Evidence) -> tuple[Remark, ...]:
    """Departures from the protocol that the documents show."""
    return tuple(_iter_deviations(evidence))


def _iter_deviations(evidence: Evidence) -> Iterator[Remark]:
    if isinstance(evidence.spec, RunSpec):
        if (seed := evidence.spec.root_seed) != ROOT_SEED:
            message = f"expected the planned root seed {ROOT_SEED}, found {seed}"
            yield Remark(code="root-seed", message=build_line(message))
        caps = evidence.spec.configuration.caps
        changed = [name for name in caps.__struct_fields__ if getattr(caps, name) is not None]
        if changed:
            message = f"expected the contract's limits, found others for: {', '.join(changed)}"
            yield Remark(code="caps", message=message)
    if isinstance(evidence.record, ContractRecord) and evidence.record.lock.replay == "conditional":
        message = "expected a contract that replays offline, found one that needs the network"
        yield Remark(code="not-replayable", message=message)
    if evidence.facts.dropped_events:
        message = f"expected every event, found {evidence.facts.dropped_events} dropped by the byte budget"
        yield Remark(code="trace-truncated", message=message)
    models = evidence.manifest.configuration.models if isinstance(evidence.manifest, Manifest) else None
    if models is not None and models.thresholds_source == "own":
        message = "expected the breakers' thresholds of the release, found a file of the operator's own"
        yield Remark(code="own-thresholds", message=message)
    if models is not None and models.prices_source == "own":
        message = f"expected the price book of the release, found {models.price_method}"
        yield Remark(code="own-prices", message=build_line(message))


def count_deviations(runs: Iterable[Iterable[str]]) -> dict[str, int]:
    """Codes of many runs, each with the number of runs that have it, the most frequent first."""
    counts = Counter(code for codes in runs for code in set(codes))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def describe_deviations(counts: dict[str, int], *, runs: int) -> str:
    """The same in words."""
    found = ", ".join(f"{code} in {number} of {runs} run(s)" for code, number in counts.items())
    return found or f"none in {runs} run(s)"
