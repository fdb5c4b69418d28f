"""What a run cost, in four terms, from what its trace metered and a price book (B1, X3)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from repotrial.cost import CostStatement, Metered, MeteredExchange, PriceBook, Tariff, TokenUsage
from repotrial.score._model_source import find_upstream, is_notional
from repotrial.score._records import build_run_paths, find_gap, load_evidence
from repotrial.trace import (
    AcceptanceExecution,
    BuildCheck,
    Event,
    PatchApplication,
    Prompt,
    Response,
    RunPaths,
    StaticCheck,
    Termination,
    ToolInvocation,
    iter_events,
    load_manifest,
)
from repotrial.trace import ResponseUsage as TraceUsage

_PROGRAM_START = "execve"
_PERSON = "human"
_OVERSPEND = "_overspend"


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


def price_run(directory: Path, book: PriceBook) -> RunCost:
    """Price a run from its record alone; no verdict depends on it.

    Raises:
        EvidenceError: the record cannot be read.
    """
    paths = build_run_paths(directory)
    meter = _Meter(paths)
    for event in iter_events(paths.trace, allow_torn_tail=True):
        meter.take(event)
    models = load_manifest(paths.manifest).configuration.models
    evidence = load_evidence(paths.root)
    upstream = find_upstream(evidence)
    tariff = Tariff(book=book, unknown_models="abstract-units")
    return RunCost(
        directory=str(directory),
        statement=CostStatement.build(tariff, meter.build()),
        exchanges=len(meter.exchanges),
        upstream=upstream,
        is_notional=is_notional(upstream),
        is_booked=models is not None and models.price_method == book.method,
        overspend=meter.overspend,
        partial_because=find_gap(evidence),
    )


class _Meter:
    """Adds up what events say was consumed."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._models: dict[int, str] = {}
        self._first_us: int | None = None
        self._last_us = 0
        self._exec_us = 0
        self._human_us = 0
        self._tool_calls = 0
        self.exchanges: list[MeteredExchange] = []
        self.overspend: dict[str, str | int] = {}

    def take(self, event: Event) -> None:
        self._first_us = event.t if self._first_us is None else self._first_us
        self._last_us = event.t
        match event.payload:
            case Prompt(model=model):
                self._models[event.seq] = model
            case Response() as response:
                self._take_response(response)
            case ToolInvocation(source="gateway"):
                self._tool_calls += 1
            case ToolInvocation(tool=tool, wall_us=wall_us) if tool == _PERSON:
                self._human_us += wall_us
            case ToolInvocation(tool=tool, wall_us=wall_us) if tool != _PROGRAM_START:
                self._exec_us += wall_us
            case Termination(signals=signals):
                self.overspend = {
                    signal.name.removesuffix(_OVERSPEND): signal.value
                    for signal in signals
                    if signal.name.endswith(_OVERSPEND)
                }
            case PatchApplication() | BuildCheck() | StaticCheck() | AcceptanceExecution() as execution:
                self._exec_us += max(0, execution.ended_at_us - execution.started_at_us)
            case _:
                pass

    def build(self) -> Metered:
        whole_us = 0 if self._first_us is None else self._last_us - self._first_us
        return Metered(
            exchanges=tuple(self.exchanges),
            exec_wall_us=self._exec_us,
            tool_calls=self._tool_calls,
            human_us=self._human_us,
            overhead_wall_us=max(0, whole_us - self._exec_us - self._human_us),
            stored_bytes=sum(path.stat().st_size for path in self._paths.root.rglob("*") if path.is_file()),
        )

    def _take_response(self, response: Response) -> None:
        if response.usage == TraceUsage():
            return  # an error or a connection that failed: it is not charged
        model = (
            response.model if response.prompt is None else self._models.get(response.prompt, response.model)
        )
        self.exchanges.append(MeteredExchange(model=model, usage=_read_usage(response.usage)))


def _read_usage(usage: TraceUsage) -> TokenUsage:
    return TokenUsage(
        input_uncached=usage.input_uncached_tokens,
        cache_read=usage.cache_read_tokens,
        cache_write_5m=usage.cache_write_5m_tokens,
        cache_write_1h=usage.cache_write_1h_tokens,
        output=usage.output_tokens,
        reasoning=usage.reasoning_tokens,
        request_input=usage.request_input_tokens,
        basis=usage.basis or "estimated",
    )
