"""What a run cost, in four terms, from what its trace metered and a price book (B1, X3)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from repotrial.cost import CostStatement, PriceBook, RunMeter, Tariff, measure_stored
from repotrial.score._model_source import find_upstream, is_notional
from repotrial.score._records import build_run_paths, find_gap, load_evidence
from repotrial.trace import load_manifest


class RunCost(msgspec.Struct, frozen=True, kw_only=True):
    """What `run cost` found in one directory."""

    directory: str
    """The run directory."""
    statement: CostStatement
    """Four terms and their sum; a term that has no amount says why."""
    exchanges: int
    """Answers of models that were metered."""
    upstream: str | None
    """Who answered for the model, as the run recorded it; null if none was to be asked."""
    is_notional: bool
    """Whether a script or a recording answered: the cost of models is what they would have cost."""
    is_booked: bool
    """Whether the price book is the one that was in force."""
    overspend: dict[str, str | int]
    """By how much each cap of cost or tokens was passed; none where no cap was in force."""
    partial_because: str | None
    """Why the amounts are those of a partial record only; null if the trace tells the whole run."""


def price_run(directory: Path, book: PriceBook | None) -> RunCost:
    """Price a run from its record alone; no verdict depends on it.

    Args:
        directory: The run directory.
        book: Prices; None: the abstract schedule (P21).

    Raises:
        EvidenceError: the record cannot be read.
    """
    paths = build_run_paths(directory)
    meter = RunMeter.read(paths)
    metered = meter.build(stored_bytes=measure_stored(paths))
    models = load_manifest(paths.manifest).configuration.models
    evidence = load_evidence(paths.root)
    upstream = find_upstream(evidence)
    tariff = Tariff(book=book, unknown_models="abstract-units")
    return RunCost(
        directory=str(directory),
        statement=CostStatement.build(tariff, metered),
        exchanges=len(metered.exchanges or ()),
        upstream=upstream,
        is_notional=is_notional(upstream),
        is_booked=models is not None and models.price_method == tariff.method,
        overspend=meter.overspend,
        partial_because=find_gap(evidence),
    )
